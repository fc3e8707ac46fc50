"""Quantize and Dequantize; ONNX parts are run by the engine itself."""

from __future__ import annotations

import numpy as np

from bpuc.isa import Dequantize, Quantize
from bpuc.sim.reference.arithmetic import along
from bpuc.sim.reference.memory import Memory


def quantize(ins: Quantize, m: Memory) -> None:
    """See `bpuc.isa.Quantize`; clamped before the cast, since a cast of large floats is undefined."""
    x = m.view(ins.x).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.clip(np.floor(x / ins.scale + 0.5), ins.lo, ins.hi)
    m.write(ins.y, np.where(np.isnan(steps), 0.0, steps).astype(np.int64))


def dequantize(ins: Dequantize, m: Memory) -> None:
    """See `bpuc.isa.Dequantize`."""
    scale = m.view(ins.scale)
    scale = along(scale, ins.axis, len(ins.x.shape)) if scale.size > 1 else scale.reshape(())
    with np.errstate(over="ignore"):
        m.write(ins.y, (m.view(ins.x).astype(np.float64) * scale).astype(np.float32))
