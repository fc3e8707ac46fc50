"""Data movement: strided copies, constant fill, gather. No arithmetic, so integers and scale stay."""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.isa.core import Engine, Instruction, Ref, Work


@dataclass(frozen=True, kw_only=True)
class Move(Instruction):
    """``y[...] = x[...]``: a copy between two views of one shape and type.

    Strides make it a Reshape, Transpose, Slice, part of a Concat or Split, Expand, DepthToSpace or Resize by a whole
    factor (stride 0 repeats).
    """

    opcode = 12
    x: Ref
    y: Ref

    def work(self) -> Work:
        return Work(Engine.DMA, elements=self.y.elements)


@dataclass(frozen=True, kw_only=True)
class Fill(Instruction):
    """``y[...] = value``."""

    opcode = 13
    y: Ref
    value: int

    def work(self) -> Work:
        return Work(Engine.DMA, elements=self.y.elements)


@dataclass(frozen=True, kw_only=True)
class Gather(Instruction):
    """``y = take(x, indices, axis)``; indices int32, constant, 1-D, each 0 <= i < x.shape[axis]; y has x's rank."""

    opcode = 14
    x: Ref
    indices: Ref
    y: Ref
    axis: int

    def work(self) -> Work:
        return Work(Engine.DMA, elements=self.y.elements)
