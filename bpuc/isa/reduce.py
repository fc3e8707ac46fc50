"""Reductions over whole axes, and the index of the largest element."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from bpuc.isa.core import Engine, Instruction, Ref, Work


class ReduceKind(IntEnum):
    """What is taken over the axes; a mean is SUM with 1/count in its multiplier."""

    SUM = 0
    MAX = 1
    MIN = 2


@dataclass(frozen=True, kw_only=True)
class Reduce(Instruction):
    """``y = clamp((r*mult + 2**(shift-1)) >> shift, lo, hi)``, r the int64 sum, maximum or minimum over `axes`.

    y has x's rank with 1 along the reduced axes.
    """

    opcode = 8
    x: Ref
    y: Ref
    kind: ReduceKind
    axes: tuple[int, ...]
    mult: int
    shift: int
    lo: int
    hi: int

    def work(self) -> Work:
        return Work(Engine.VECTOR, elements=self.x.elements)


@dataclass(frozen=True, kw_only=True)
class ArgReduce(Instruction):
    """Index of the largest (largest=1) or smallest element along `axis`; first one, or last one with last=1.

    y int32 or int64, x's rank with 1 along the axis.
    """

    opcode = 9
    x: Ref
    y: Ref
    axis: int
    largest: int
    last: int

    def work(self) -> Work:
        return Work(Engine.VECTOR, elements=self.x.elements)
