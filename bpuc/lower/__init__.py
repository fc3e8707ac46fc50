"""From a quantized graph to a program: instructions, constants, memory plan, schedule, symbols."""

from bpuc.lower.lower import lower
from bpuc.lower.schedule import Scheduling

__all__ = ["Scheduling", "lower"]
