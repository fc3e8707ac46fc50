"""The latency model: a decoded program and a march's hardware numbers give a time line and perf.json.

Every time is an estimate. The numbers behind it stand in the target's ``[hardware]`` table with their origin.
"""

from bpuc.perf.cost import rescale_us
from bpuc.perf.model import estimate

__all__ = ["estimate", "rescale_us"]
