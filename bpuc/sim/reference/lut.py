"""Lut."""

from __future__ import annotations

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.isa import Lut
from bpuc.isa.lut import INT16_STEP_BITS
from bpuc.sim.reference.arithmetic import along, scaled
from bpuc.sim.reference.memory import Memory


def lut(ins: Lut, m: Memory) -> None:
    """See `bpuc.isa.Lut`."""
    x, table = m.view(ins.x).astype(np.int64), m.view(ins.table)
    row = along(np.arange(len(table)), ins.axis, x.ndim) if table.ndim == 2 else 0
    table = np.atleast_2d(table)
    if ins.x.dtype is DType.INT8:
        m.write(ins.y, table[row, x + 128])
        return
    step = 1 << INT16_STEP_BITS
    i, f = (x + 32768) >> INT16_STEP_BITS, x & (step - 1)
    wide = table.astype(np.int64)
    m.write(ins.y, scaled(wide[row, i] * (step - f) + wide[row, i + 1] * f, 1, ins.shift, ins.lo, ins.hi))
