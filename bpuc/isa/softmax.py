"""Softmax with 16-bit exponentials inside."""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.isa.core import Engine, Instruction, Ref, Work


@dataclass(frozen=True, kw_only=True)
class Softmax(Instruction):
    """Softmax along `axis`, x and y int8 or int16.

    ``d = max(x) - x`` along the axis; ``e = table[d]`` for int8 x (table int32 [256], round(2**15 * exp(-d*scale_x)));
    for int16 x the table has [1025] entries at steps of 64 and
    ``e = (table[d>>6]*(64-(d&63)) + table[(d>>6)+1]*(d&63) + 32) >> 6``.
    With ``s = sum(e)``: ``y = clamp((2*e*mult + (s << 16)) // (s << 17), lo, hi)``, mult = round(2**16 / scale_y).
    """

    opcode = 10
    x: Ref
    table: Ref
    y: Ref
    axis: int
    mult: int
    lo: int
    hi: int

    def work(self) -> Work:
        # maximum, subtract, look up, sum, multiply: five visits of an element
        return Work(Engine.VECTOR, elements=5 * self.x.elements)
