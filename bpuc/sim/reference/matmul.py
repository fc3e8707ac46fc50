"""MatMul."""

from __future__ import annotations

from bpuc.isa import MatMul
from bpuc.sim.reference.arithmetic import accumulator_type, finish
from bpuc.sim.reference.memory import Memory


def matmul(ins: MatMul, m: Memory) -> None:
    """See `bpuc.isa.MatMul`."""
    kind = accumulator_type(ins.a.dtype, ins.b.dtype, ins.a.shape[-1])
    acc = m.view(ins.a).astype(kind) @ m.view(ins.b).astype(kind)
    finish(acc, ins, (ins.a, ins.b), acc.ndim - 1, m)
