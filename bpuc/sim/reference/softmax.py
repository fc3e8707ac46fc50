"""Softmax."""

from __future__ import annotations

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.isa import Softmax
from bpuc.sim.reference.memory import Memory


def softmax(ins: Softmax, m: Memory) -> None:
    """See `bpuc.isa.Softmax`."""
    x, table = m.view(ins.x).astype(np.int64), m.view(ins.table).astype(np.int64)
    d = x.max(axis=ins.axis, keepdims=True) - x
    if ins.x.dtype is DType.INT8:
        e = table[d]
    else:
        i, f = d >> 6, d & 63
        e = (table[i] * (64 - f) + table[i + 1] * f + 32) >> 6
    s = e.sum(axis=ins.axis, keepdims=True)
    m.write(ins.y, np.clip((2 * e * ins.mult + (s << 16)) // (s << 17), ins.lo, ins.hi))
