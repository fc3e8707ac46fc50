"""bernoulli2, the BPU of the X3 (and J3)."""
