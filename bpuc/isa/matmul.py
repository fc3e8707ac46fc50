"""Matrix product, with constant weights (a Linear layer) or between two activations."""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.isa.core import Engine, Instruction, Ref, Work


@dataclass(frozen=True, kw_only=True)
class MatMul(Instruction):
    """``acc = a @ b + bias`` over the last two axes, leading axes broadcast; requantize as in `Conv`.

    a int8 or int16 [..., M, K]; b int8 or int16 [..., K, N] (constant weights or an activation; any strides, so a
    transposed operand is a view); bias int32 (int64 beside int16) [N]; mult, shift int32 [N] or [1];
    res int8 or int16, shape of y; res_mult int64 [N] or [1]; y [..., M, N].
    """

    opcode = 3
    a: Ref
    b: Ref
    bias: Ref | None = None
    mult: Ref | None = None
    shift: Ref | None = None
    res: Ref | None = None
    res_mult: Ref | None = None
    y: Ref
    lo: int
    hi: int

    def work(self) -> Work:
        return Work(Engine.MAC, macs=self.y.elements * self.a.shape[-1])
