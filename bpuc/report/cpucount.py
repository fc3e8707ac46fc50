"""How many ops are on the CPU, in the same words everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpuc.perf.gates import border_conversions, off_the_bpu
from bpuc.report import values as v


def cpu_count(ops: Sequence[Mapping[str, Any]], us: str | None = None) -> str:
    """``2 CPU ops (and 3 border conversions)``: of ops or nodes, what `--fail-on cpu-op` counts and what it does not.

    Args:
        us: key of the time of an op in us, for the sum of each kind.
    """

    def told(found: Sequence[Mapping[str, Any]], noun: str) -> str:
        return v.several(len(found), noun) + (f", {v.time(v.total(found, us))}" if us and found else "")

    borders = border_conversions(ops)
    return told(off_the_bpu(ops), "CPU op") + (f" (and {told(borders, 'border conversion')})" if borders else "")
