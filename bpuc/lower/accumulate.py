"""Conv, ConvTranspose, MatMul and Affine: integer weights, bias in accumulator units, one requantization."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bpuc.base.certificate import Reach, certifiable
from bpuc.base.dtypes import DType
from bpuc.base.rounding import MAX_SHIFT, MULTIPLIER_BITS, MultiplierError, quantize_multipliers, round_half_up
from bpuc.ir import Op, Tensor
from bpuc.isa import Conv, ConvTranspose, MatMul, Ref, contiguous_strides
from bpuc.lower.builder import Array, Builder, clamp_of, quant_of, refuse, step_of, steps_of
from bpuc.lower.certificate import INT32_MAX, certify
from bpuc.ops.attrs import AffineAttrs, ConvAttrs, MatMulAttrs
from bpuc.passkit.weights import by_channel, with_weights

# accumulator * multiplier and residual * multiplier each stay below this power of two, so that their sum and the
# rounding term fit int64
_PRODUCT_BITS = 61
# beside a residual of ordinary size float64 holds every product, too
_RESIDUAL_SHIFT = 40


def lower_conv(op: Op, b: Builder) -> None:
    attrs = op.attrs
    assert isinstance(attrs, ConvAttrs)
    x, w, y = op.input(0), op.input(1), op.out
    scales = np.asarray(quant_of(w).scale)
    integers = _weights(op, scales)
    common = _tail(op, b, step_of(x) * scales, attrs.low, attrs.high, integers)
    cls = Conv if op.kind == "Conv" else ConvTranspose
    b.emit(
        cls(
            op=b.op,
            x=b.ref(x),
            w=b.constant(integers),
            y=b.ref(y),
            strides=attrs.strides,
            pads=_cut(attrs) if op.kind == "ConvTranspose" else attrs.pads,
            dilations=attrs.dilations,
            group=attrs.group,
            **common,
        )
    )


def _cut(attrs: ConvAttrs) -> tuple[int, ...]:
    """What is cut off a full transposed convolution: output_padding lets that much of the end stay."""
    spatial = len(attrs.strides)
    extra = attrs.output_padding or (0,) * spatial
    ends = (max(0, p - e) for p, e in zip(attrs.pads[spatial:], extra))
    return (*attrs.pads[:spatial], *ends)


def lower_affine(op: Op, b: Builder) -> None:
    """A depthwise convolution of one tap over x viewed as [before, channels, after]."""
    attrs = op.attrs
    assert isinstance(attrs, AffineAttrs)
    x, w = op.input(0), op.input(1)
    scales = np.asarray(quant_of(w).scale)
    integers = np.clip(round_half_up(w.value().astype(np.float64) / scales), -127, 127).astype(np.int8)
    common = _tail(op, b, step_of(x) * scales, None, None, integers)
    channels = x.shape[attrs.axis]
    view = (int(np.prod(x.shape[: attrs.axis])), channels, int(np.prod(x.shape[attrs.axis + 1 :])))
    b.emit(
        Conv(
            op=b.op,
            x=reshaped(b.ref(x), view),
            w=b.constant(integers.reshape(channels, 1, 1)),
            y=reshaped(b.ref(op.out), view),
            strides=(1,),
            pads=(0, 0),
            dilations=(1,),
            group=channels,
            **common,
        )
    )


def lower_matmul(op: Op, b: Builder) -> None:
    attrs = op.attrs
    assert isinstance(attrs, MatMulAttrs)
    a, w = op.input(0), op.input(1)
    if with_weights(op):
        scales = np.asarray(quant_of(w).scale)
        integers = _rounded(w, w.value().astype(np.float64) / scales)
        common = _tail(op, b, step_of(a) * scales, attrs.low, attrs.high, integers)
        right = b.constant(integers)
    else:
        common = _tail(op, b, np.array([step_of(a) * step_of(w)]), attrs.low, attrs.high, None)
        right = b.ref(w)
    b.emit(MatMul(op=b.op, a=b.ref(a), b=right, y=b.ref(op.out), **common))


def reshaped(ref: Ref, shape: tuple[int, ...]) -> Ref:
    """A packed view under another shape of as many elements."""
    return Ref(ref.space, ref.dtype, ref.address, shape, contiguous_strides(shape, ref.dtype.itemsize))


def _weights(op: Op, scales: Array) -> Array:
    w = op.input(1).value().astype(np.float64)
    if op.kind == "Conv":
        per = scales.reshape(-1, *[1] * (w.ndim - 1))
        return _rounded(op.input(1), w / per)
    groups = op.attrs.group if isinstance(op.attrs, ConvAttrs) else 1
    grouped = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    per = scales.reshape(groups, 1, -1, *[1] * (w.ndim - 2))
    return _rounded(op.input(1), grouped / per).reshape(w.shape)


def _rounded(weights: Tensor, steps: Array) -> Array:
    """Integers of weights, symmetric in their type."""
    dtype = quant_of(weights).dtype
    return np.clip(round_half_up(steps), -dtype.qmax, dtype.qmax).astype(dtype.numpy)


def _tail(
    op: Op, b: Builder, unit: Array, low: float | None, high: float | None, weights: Array | None
) -> dict[str, Any]:
    """Bias, multipliers, residual and clamp; `unit` is the real value of one accumulator step, per channel."""
    y = op.out
    wide = any(t is not None and t.quant is not None and t.quant.dtype is DType.INT16 for t in op.inputs[:2])
    lo, hi = clamp_of(y, low, high)
    fields: dict[str, Any] = {"lo": lo, "hi": hi}
    bias = op.maybe(2)
    integers = None
    if bias is not None:
        integers = round_half_up(bias.value().astype(np.float64) / unit)
        if not wide:
            integers = np.clip(integers, -INT32_MAX, INT32_MAX)
        if integers.any():
            fields["bias"] = b.constant(integers.astype(np.int64 if wide else np.int32))
    reach = _reach(op, weights, integers)
    peak = int(reach.peak.max(initial=0))
    if not wide and peak > INT32_MAX:
        raise refuse(op, f"its accumulator could reach {peak}, beyond int32")
    if quant_of(y).dtype is DType.INT32:
        b.certificates.append(certify(op, reach, wide, integers))
        return fields
    residual = op.maybe(3)
    real = unit / steps_of(y)
    ratio = np.zeros(1) if residual is None else steps_of(residual) / steps_of(y)
    bits = min(MULTIPLIER_BITS, _PRODUCT_BITS - peak.bit_length())
    limit = MAX_SHIFT if residual is None else _residual_shift(residual, float(ratio.max()))
    mult, shift = quantize_multipliers(real, bits, limit)
    provable = residual is None and not wide and quant_of(y).dtype is DType.INT8
    if provable:
        if mult.size == 1:
            reach = Reach(reach.low.min(keepdims=True), reach.high.max(keepdims=True))
        mult = certifiable(mult, shift, real, reach, lo, hi)
    b.certificates.append(certify(op, reach, wide, integers, (mult, shift, lo, hi), provable))
    fields["mult"] = b.constant(mult.astype(np.int32))
    fields["shift"] = b.constant(shift.astype(np.int32))
    if residual is not None:
        fields["res"] = b.ref(residual)
        fields["res_mult"] = b.constant(round_half_up(ratio * np.ldexp(1.0, shift.astype(np.int32))))
    return fields


def _residual_shift(residual: Tensor, ratio: float) -> int:
    """The largest shift for which residual * round(ratio * 2**shift) stays inside `_PRODUCT_BITS`."""
    _, exponent = math.frexp(ratio * -quant_of(residual).dtype.qmin)
    if exponent >= _PRODUCT_BITS:
        raise MultiplierError(f"multiplier {ratio:.3g} of the residual is too large for a shift of at least 1")
    return min(_RESIDUAL_SHIFT, _PRODUCT_BITS - exponent)


def _reach(op: Op, weights: Array | None, bias: Array | None) -> Reach:
    """The accumulators that each channel can have, whatever the input."""
    largest = -quant_of(op.input(0)).dtype.qmin
    if weights is None:
        sums = np.array([op.input(0).shape[-1] * largest * -quant_of(op.input(1)).dtype.qmin], np.int64)
    else:
        sums = np.abs(by_channel(op, weights.astype(np.int64))).sum(1) * largest
    return Reach.around(np.zeros(1, np.int64) if bias is None else bias.astype(np.int64), sums)
