"""Reduce and ArgReduce."""

from __future__ import annotations

import numpy as np

from bpuc.base.rounding import Int64Array
from bpuc.isa import ArgReduce, Reduce, ReduceKind
from bpuc.sim.reference.arithmetic import scaled
from bpuc.sim.reference.memory import Memory


def reduce(ins: Reduce, m: Memory) -> None:
    """See `bpuc.isa.Reduce`."""
    x = m.view(ins.x).astype(np.int64)
    take = {ReduceKind.SUM: np.add, ReduceKind.MAX: np.maximum, ReduceKind.MIN: np.minimum}[ReduceKind(ins.kind)]
    r: Int64Array = take.reduce(x, axis=ins.axes, keepdims=True)
    m.write(ins.y, scaled(r, ins.mult, ins.shift, ins.lo, ins.hi))


def arg_reduce(ins: ArgReduce, m: Memory) -> None:
    """See `bpuc.isa.ArgReduce`."""
    x = m.view(ins.x)
    if ins.last:
        x = np.flip(x, ins.axis)
    index = (np.argmax if ins.largest else np.argmin)(x, axis=ins.axis, keepdims=True)
    m.write(ins.y, x.shape[ins.axis] - 1 - index if ins.last else index)
