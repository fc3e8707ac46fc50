"""Softmax, LayerNormalization and InstanceNormalization: constants of their integer arithmetic."""

from __future__ import annotations

import math

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.base.rounding import MultiplierError, quantize_multiplier, round_half_up
from bpuc.ir import Op
from bpuc.isa import Norm, Softmax
from bpuc.isa.lut import INT16_ENTRIES, INT16_STEP_BITS
from bpuc.lower.builder import Builder, clamp_of, quant_of, step_of
from bpuc.ops.attrs import AxisAttrs, NormAttrs

# fraction bits of the normalized value inside a Norm instruction
_Z_BITS = 12


def lower_softmax(op: Op, b: Builder) -> None:
    attrs = op.attrs
    assert isinstance(attrs, AxisAttrs)
    x, y = op.input(0), op.out
    if quant_of(x).dtype is DType.INT8:
        distances = np.arange(256, dtype=np.float64)
    else:
        distances = np.arange(INT16_ENTRIES, dtype=np.float64) * (1 << INT16_STEP_BITS)
    table = round_half_up(np.exp(-distances * step_of(x)) * (1 << 15)).astype(np.int32)
    lo, hi = clamp_of(y)
    mult = int(round_half_up(min((1 << 16) / step_of(y), 2.0**62)))
    # an exponential has 16 bits, and the quotient's numerator 2 * e * mult must stay inside int64
    if mult.bit_length() > 44:
        raise MultiplierError(f"multiplier {mult:.3g} is too large for a softmax")
    b.emit(Softmax(op=b.op, x=b.ref(x), table=b.constant(table), y=b.ref(y), axis=attrs.axis, mult=mult, lo=lo, hi=hi))


def lower_norm(op: Op, b: Builder) -> None:
    attrs = op.attrs
    assert isinstance(attrs, NormAttrs)
    x, y = op.input(0), op.out
    count = math.prod(x.shape[a] for a in attrs.axes)
    # d = count*x - sum must square and sum inside int64: 2*(bits of d) + bits of count <= 62
    bits = (8 if quant_of(x).dtype is DType.INT8 else 16) + count.bit_length()
    pre_shift = max(0, -(-(2 * bits + count.bit_length() - 62) // 2))
    unit = step_of(x) / count * 2.0**pre_shift
    gain = op.input(1).value().astype(np.float64) / step_of(y) / (1 << _Z_BITS)
    _, shift = quantize_multiplier(float(np.abs(gain).max(initial=0.0)) or 1.0)
    bias = op.input(2).value().astype(np.float64) / step_of(y)
    # beside tiny gains the offset bounds the shift: bias * 2**shift is an int64
    shift = min(shift, 60 - math.frexp(float(np.abs(bias).max(initial=0.0)))[1])
    if shift < 1:
        raise MultiplierError(f"offset of {np.abs(bias).max():.3g} steps is too large")
    lo, hi = clamp_of(y)
    b.emit(
        Norm(
            op=b.op,
            x=b.ref(x),
            gain=b.constant(round_half_up(gain * 2.0**shift).astype(np.int32)),
            bias=b.constant(round_half_up(bias * 2.0**shift)),
            y=b.ref(y),
            axes=attrs.axes,
            eps=attrs.epsilon / unit**2,
            pre_shift=pre_shift,
            shift=shift,
            lo=lo,
            hi=hi,
        )
    )
