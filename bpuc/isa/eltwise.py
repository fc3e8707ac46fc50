"""Element-wise arithmetic on two operands of different scales."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from bpuc.isa.core import Engine, Instruction, Ref, Work


class EltwiseKind(IntEnum):
    """Arithmetic of `Eltwise`; Sub is ADD with a negative mult_b."""

    ADD = 0
    MUL = 1
    MAX = 2
    MIN = 3


@dataclass(frozen=True, kw_only=True)
class Eltwise(Instruction):
    """``y = clamp((f(a, b) + 2**(shift-1)) >> shift, lo, hi)`` with numpy broadcasting.

    ADD, MAX, MIN: f combines ``a*mult_a`` and ``b*mult_b``. MUL: ``f = a*b*mult_a`` (mult_b unused).
    a, b int8 or int16 (either may be constant), y int8 or int16; products are int64.
    """

    opcode = 4
    a: Ref
    b: Ref
    y: Ref
    kind: EltwiseKind
    mult_a: int
    mult_b: int
    shift: int
    lo: int
    hi: int

    def work(self) -> Work:
        return Work(Engine.VECTOR, elements=self.y.elements)
