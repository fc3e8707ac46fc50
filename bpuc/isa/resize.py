"""Bilinear resize of the last two axes by index and weight tables."""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.isa.core import Engine, Instruction, Ref, Work

FRACTION_BITS = 8


@dataclass(frozen=True, kw_only=True)
class ResizeLinear(Instruction):
    """Weighted mean of 2 x 2 neighbours, weights in 1/256.

    index_h int32 [2, H_out]: rows above and below; weight_h int32 [H_out]: weight of the lower row, 0..256; likewise w.
    ``acc = sum of x * wh * ww`` over the four neighbours; ``y = clamp((acc*mult + 2**(shift-1)) >> shift, lo, hi)``.
    """

    opcode = 15
    x: Ref
    index_h: Ref
    weight_h: Ref
    index_w: Ref
    weight_w: Ref
    y: Ref
    mult: int
    shift: int
    lo: int
    hi: int

    def work(self) -> Work:
        return Work(Engine.VECTOR, elements=4 * self.y.elements)
