"""From the placed, quantized graph to the program: instructions, constants and memory plan."""

from bpuc.lower.lower import lower

__all__ = ["lower"]
