"""Move, Fill and Gather."""

from __future__ import annotations

import numpy as np

from bpuc.isa import Fill, Gather, Move
from bpuc.sim.reference.memory import Memory


def move(ins: Move, m: Memory) -> None:
    """See `bpuc.isa.Move`; numpy copies first where source and target overlap."""
    m.write(ins.y, m.view(ins.x))


def fill(ins: Fill, m: Memory) -> None:
    """See `bpuc.isa.Fill`."""
    m.write(ins.y, np.full(ins.y.shape, ins.value))


def gather(ins: Gather, m: Memory) -> None:
    """See `bpuc.isa.Gather`."""
    indices = m.view(ins.indices)
    if indices.size and indices.min() < 0:
        raise IndexError(f"index {indices.min()}")
    m.write(ins.y, np.take(m.view(ins.x), indices, axis=ins.axis))
