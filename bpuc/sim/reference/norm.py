"""Norm."""

from __future__ import annotations

from math import prod

import numpy as np

from bpuc.base.rounding import requantize
from bpuc.isa import Norm
from bpuc.sim.reference.arithmetic import check_product
from bpuc.sim.reference.memory import Memory


def norm(ins: Norm, m: Memory) -> None:
    """See `bpuc.isa.Norm`."""
    x = m.view(ins.x).astype(np.int64)
    n = prod(x.shape[a] for a in ins.axes)
    d = (n * x - x.sum(axis=ins.axes, keepdims=True)) >> ins.pre_shift
    v = (d * d).sum(axis=ins.axes, keepdims=True)
    root = np.sqrt(v.astype(np.float64) / n + ins.eps) * 256
    r = np.maximum(1, np.floor(root).astype(np.int64))
    z = (d << 20) // r
    gain = m.view(ins.gain).astype(np.int64)
    check_product(z, gain)
    m.write(ins.y, requantize(z * gain + m.view(ins.bias), 1, ins.shift, ins.lo, ins.hi))
