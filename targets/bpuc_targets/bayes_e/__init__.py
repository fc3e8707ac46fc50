"""bayes-e, the BPU of the X5."""
