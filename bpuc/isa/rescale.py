"""Requantize a tensor to another scale or width: the instruction that scale sharing exists to avoid."""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.isa.core import Engine, Instruction, Ref, Work


@dataclass(frozen=True, kw_only=True)
class Rescale(Instruction):
    """``y = clamp((x*mult + 2**(shift-1)) >> shift, lo, hi)``; x and y int8 or int16."""

    opcode = 5
    x: Ref
    y: Ref
    mult: int
    shift: int
    lo: int
    hi: int

    def work(self) -> Work:
        return Work(Engine.VECTOR, elements=self.y.elements)
