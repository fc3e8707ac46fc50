"""Image: pixels less 128, with a border."""

from __future__ import annotations

import numpy as np

from bpuc.isa import Image
from bpuc.sim.reference.memory import Memory


def image(ins: Image, m: Memory) -> None:
    """See `bpuc.isa.Image`."""
    x = m.view(ins.x).astype(np.int16)
    n, c, height, width = ins.y.shape
    top, left, bottom, right = ins.pads
    h, w = height - top - bottom, width - left - right
    if ins.nv12:
        p = np.empty((n, 3, h, w), np.int16)
        for i in range(h):
            for k in range(3):
                p[:, k, i] = x[:, i] if k == 0 else x[:, h + i // 2, 2 * (np.arange(w) // 2) + k - 1]
    else:
        p = x
    y = np.empty(ins.y.shape, np.int16)
    y[:] = np.array(ins.border, np.int16).reshape(1, c, 1, 1)
    y[:, :, top : top + h, left : left + w] = p - 128
    m.write(ins.y, y)
