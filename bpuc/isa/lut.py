"""Table look-up: every unary function, and chains of them, on int8 or int16."""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.isa.core import Engine, Instruction, Ref, Work

INT16_STEP_BITS = 6
INT16_ENTRIES = (1 << (16 - INT16_STEP_BITS)) + 1


@dataclass(frozen=True, kw_only=True)
class Lut(Instruction):
    """A function of one variable by table.

    int8 x: ``y = table[x + 128]``, table of y's type, [256], or [C, 256] with one row per index of `axis`.
    int16 x: linear interpolation, table int32 [1025] or [C, 1025]: ``i = (x + 32768) >> 6``, ``f = x & 63``,
    ``y = clamp((table[i]*(64-f) + table[i+1]*f + 2**(shift-1)) >> shift, lo, hi)``.
    `axis`, shift, lo and hi are ignored where they have no meaning (axis -1: one table).
    """

    opcode = 6
    x: Ref
    table: Ref
    y: Ref
    axis: int
    shift: int
    lo: int
    hi: int

    def work(self) -> Work:
        return Work(Engine.VECTOR, elements=self.y.elements)
