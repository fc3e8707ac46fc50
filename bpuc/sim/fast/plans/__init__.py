"""Plans: which instructions onnxruntime carries out, and as which nodes.

A plan is made once from the instruction and its constants. It exists only where the result is proven equal to the
instruction's definition and the kernels involved passed the probe; everything else is left to `bpuc.sim.fast.kernels`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bpuc import isa
from bpuc.sim.fast.graph import Graph
from bpuc.sim.fast.plans import accumulate, pool, transposed
from bpuc.sim.fast.storage import Access

Plan = Callable[[Graph], None]

PLANNERS: dict[type[isa.Instruction], Callable[[Any, Access], Plan | None]] = {
    isa.Conv: accumulate.conv,
    isa.ConvTranspose: transposed.conv_transpose,
    isa.MatMul: accumulate.matmul,
    isa.Pool: pool.max_pool,
}


def plan(a: Access) -> Plan | None:
    """The plan for an instruction, or None where there is none."""
    make = PLANNERS.get(type(a.ins))
    if make is None or any(0 in o.ref.shape for row in a.operands.values() for o in row):
        return None
    return make(a.ins, a)
