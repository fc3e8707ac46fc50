"""Pool."""

from __future__ import annotations

import numpy as np

from bpuc.base.rounding import requantize
from bpuc.isa import Pool, PoolKind
from bpuc.sim.reference.memory import Memory
from bpuc.sim.reference.windows import taps


def pool(ins: Pool, m: Memory) -> None:
    """See `bpuc.isa.Pool`."""
    x, out = m.view(ins.x), ins.y.shape[2:]
    window = (ins.kernel, ins.strides, ins.pads, ins.dilations, out)
    if ins.kind == PoolKind.MAX:
        y = np.full(ins.y.shape, ins.x.dtype.qmin, x.dtype)
        for seen in taps(x, *window, fill=ins.x.dtype.qmin):
            np.maximum(y, seen, out=y)
        m.write(ins.y, y)
        return
    if ins.mult is None:
        raise ValueError("an average pool needs mult")
    total = np.zeros(ins.y.shape, np.int64)
    count = np.zeros((1, 1, *out), np.int64)
    for seen in taps(x.astype(np.int64), *window, fill=0):
        total += seen
    for seen in taps(np.ones((1, 1, *x.shape[2:]), np.int64), *window, fill=0):
        count += seen
    m.write(ins.y, requantize(total, m.view(ins.mult)[count], ins.shift, ins.lo, ins.hi))
