"""Eltwise and Rescale."""

from __future__ import annotations

import numpy as np

from bpuc.isa import Eltwise, EltwiseKind, Rescale
from bpuc.sim.reference.arithmetic import scaled
from bpuc.sim.reference.memory import Memory


def eltwise(ins: Eltwise, m: Memory) -> None:
    """See `bpuc.isa.Eltwise`."""
    a, b = m.view(ins.a).astype(np.int64), m.view(ins.b).astype(np.int64)
    if ins.kind == EltwiseKind.MUL:
        m.write(ins.y, scaled(a * b, ins.mult_a, ins.shift, ins.lo, ins.hi))
        return
    combine = {EltwiseKind.ADD: np.add, EltwiseKind.MAX: np.maximum, EltwiseKind.MIN: np.minimum}[EltwiseKind(ins.kind)]
    m.write(ins.y, scaled(combine(a * ins.mult_a, b * ins.mult_b), 1, ins.shift, ins.lo, ins.hi))


def rescale(ins: Rescale, m: Memory) -> None:
    """See `bpuc.isa.Rescale`."""
    m.write(ins.y, scaled(m.view(ins.x).astype(np.int64), ins.mult, ins.shift, ins.lo, ins.hi))
