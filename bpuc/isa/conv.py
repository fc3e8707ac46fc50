"""Convolution and transposed convolution, with bias, residual Add, clamp and requantize in one instruction."""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.isa.core import Engine, Instruction, Ref, Work


@dataclass(frozen=True, kw_only=True)
class Conv(Instruction):
    """``acc = conv(x, w) + bias``; then, per output channel c, requantized once.

    Without `mult` the accumulator itself is the result: ``y = clamp(acc, lo, hi)`` (y is int32).
    With `mult`: ``y = clamp((acc*mult[c] + res*res_mult[c] + 2**(shift[c]-1)) >> shift[c], lo, hi)``, the residual
    term only where `res` is given. A ReLU or Clip is in lo and hi.

    x int8 or int16 [N, C, *spatial]; w int8 or int16 [O, C/group, *kernel]; bias int32 (int64 beside int16) [O];
    mult, shift int32 [O]; res int8 or int16, shape of y; res_mult int64 [O]; 1 to 3 spatial dimensions.
    The accumulator is int32, int64 where x or w is int16. Padding is with 0. pads: begin of each axis, then end.
    """

    opcode = 1
    x: Ref
    w: Ref
    bias: Ref | None = None
    mult: Ref | None = None
    shift: Ref | None = None
    res: Ref | None = None
    res_mult: Ref | None = None
    y: Ref
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    group: int
    lo: int
    hi: int

    def work(self) -> Work:
        taps = 1
        for d in self.w.shape[1:]:
            taps *= d
        return Work(Engine.MAC, macs=self.y.elements * taps)


@dataclass(frozen=True, kw_only=True)
class ConvTranspose(Instruction):
    """Transposed convolution (the gradient of `Conv` by its input); requantize as in `Conv`.

    x [N, C, *spatial]; w [C, O/group, *kernel]; y [N, O, *out]; pads cut the full result, begin then end; where y is
    longer than the cut result (output_padding) the rest holds the bias alone.
    """

    opcode = 2
    x: Ref
    w: Ref
    bias: Ref | None = None
    mult: Ref | None = None
    shift: Ref | None = None
    res: Ref | None = None
    res_mult: Ref | None = None
    y: Ref
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    group: int
    lo: int
    hi: int

    def work(self) -> Work:
        taps = 1
        for d in self.w.shape[1:]:
            taps *= d
        return Work(Engine.MAC, macs=self.x.elements * taps)
