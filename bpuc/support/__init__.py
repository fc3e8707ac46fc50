"""Can this operator run on the BPU of that march, and if not, why: the rules of a target applied to an operator."""
