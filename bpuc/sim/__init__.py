"""The simulator: a program and inputs in, the integers that the simulated machine would give out.

`reference` is plain numpy, instruction by instruction, and defines what is right; `fast` must agree with it to the
bit. Nothing here knows graphs or ops: the simulator starts from the decoded instructions alone.
"""
