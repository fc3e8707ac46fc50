"""bayes, the BPU of the J5 (RDK Ultra)."""
