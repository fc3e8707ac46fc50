"""The compiled program, its symbols, and the container file that holds it."""

from bpuc.program.container import load_program, save_program
from bpuc.program.program import OpSymbol, Port, Program, Segment, TensorSymbol

__all__ = ["OpSymbol", "Port", "Program", "Segment", "TensorSymbol", "load_program", "save_program"]
