"""ResizeLinear."""

from __future__ import annotations

import numpy as np

from bpuc.base.rounding import Int64Array
from bpuc.isa import ResizeLinear
from bpuc.isa.resize import FRACTION_BITS
from bpuc.sim.reference.arithmetic import scaled
from bpuc.sim.reference.memory import Memory


def resize_linear(ins: ResizeLinear, m: Memory) -> None:
    """See `bpuc.isa.ResizeLinear`."""
    one = 1 << FRACTION_BITS
    x = m.view(ins.x).astype(np.int64)
    ih, wh = m.view(ins.index_h), m.view(ins.weight_h).astype(np.int64)[:, None]
    iw, ww = m.view(ins.index_w), m.view(ins.weight_w).astype(np.int64)
    rows: Int64Array = x[..., ih[0], :] * (one - wh) + x[..., ih[1], :] * wh
    acc: Int64Array = rows[..., iw[0]] * (one - ww) + rows[..., iw[1]] * ww
    m.write(ins.y, scaled(acc, ins.mult, ins.shift, ins.lo, ins.hi))
