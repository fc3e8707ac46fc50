"""Max and average pooling over windows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from bpuc.isa.core import Engine, Instruction, Ref, Work


class PoolKind(IntEnum):
    """What is taken of a window."""

    MAX = 0
    AVERAGE = 1


@dataclass(frozen=True, kw_only=True)
class Pool(Instruction):
    """Pooling over 1 to 3 spatial axes of x [N, C, *spatial].

    MAX: the largest value inside the tensor; borders never win; y has x's type.
    AVERAGE: ``y = clamp((sum*mult[count] + 2**(shift-1)) >> shift, lo, hi)`` where count is the number of window
    taps inside the tensor, or the whole window where mult has the same value for all counts (count_include_pad);
    mult int32 [taps + 1]. pads: begin of each axis, then end; windows may reach beyond (ceil_mode), y's shape rules.
    """

    opcode = 7
    x: Ref
    mult: Ref | None = None
    y: Ref
    kind: PoolKind
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    shift: int
    lo: int
    hi: int

    def work(self) -> Work:
        taps = 1
        for k in self.kernel:
            taps *= k
        return Work(Engine.VECTOR, elements=self.y.elements * taps)
