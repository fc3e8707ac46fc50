"""Add, Sub, Mul, Max, Min on two operands; tables; Rescale."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.base.rounding import quantize_multiplier, round_half_up
from bpuc.ir import Op, Tensor
from bpuc.isa import Eltwise, EltwiseKind, Lut, Ref, Rescale
from bpuc.isa.lut import INT16_ENTRIES, INT16_STEP_BITS
from bpuc.lower.accumulate import reshaped
from bpuc.lower.builder import Array, Builder, clamp_of, quant_of, step_of
from bpuc.ops.attrs import EltwiseAttrs, PReluAttrs
from bpuc.ops.table import function_of

_KINDS = {
    "Add": EltwiseKind.ADD,
    "Sub": EltwiseKind.ADD,
    "Mul": EltwiseKind.MUL,
    "Max": EltwiseKind.MAX,
    "Min": EltwiseKind.MIN,
}
# fraction bits of the entries of an int16 table
_TABLE_FRACTION = 8


def lower_eltwise(op: Op, b: Builder) -> None:
    x, z, y = op.input(0), op.input(1), op.out
    attrs = op.attrs
    assert isinstance(attrs, EltwiseAttrs)
    lo, hi = clamp_of(y, attrs.low, attrs.high)
    out = step_of(y)
    if op.kind == "Mul":
        reals = [step_of(x) * step_of(z) / out]
    else:
        reals = [step_of(x) / out, (-1 if op.kind == "Sub" else 1) * step_of(z) / out]
    # one shift for both operands, from the larger multiplier
    _, shift = quantize_multiplier(max(map(abs, reals)))
    mults = [int(np.sign(r)) * int(round_half_up(abs(r) * 2.0**shift)) for r in reals]
    b.emit(
        Eltwise(
            op=b.op,
            a=_of_rank(b.ref(x), y.rank),
            b=_of_rank(b.ref(z), y.rank),
            y=b.ref(y),
            kind=_KINDS[op.kind],
            mult_a=mults[0],
            mult_b=mults[-1],
            shift=shift,
            lo=lo,
            hi=hi,
        )
    )


def _of_rank(ref: Ref, rank: int) -> Ref:
    """Leading axes of extent 1, as numpy broadcasting adds them."""
    return reshaped(ref, (1,) * (rank - len(ref.shape)) + ref.shape)


def lower_rescale(op: Op, b: Builder) -> None:
    x, y = op.input(0), op.out
    mult, shift = quantize_multiplier(step_of(x) / step_of(y))
    lo, hi = clamp_of(y)
    b.emit(Rescale(op=b.op, x=b.ref(x), y=b.ref(y), mult=mult, shift=shift, lo=lo, hi=hi))


def lower_unary(op: Op, b: Builder) -> None:
    _emit_table(op, b, [function_of(op)])


def lower_prelu(op: Op, b: Builder) -> None:
    """LeakyRelu with a slope per channel: one table a channel, or one table where all slopes agree."""
    attrs = op.attrs
    assert isinstance(attrs, PReluAttrs)
    slopes = [float(s) for s in op.input(1).value().reshape(-1)]
    if len(set(slopes)) == 1:
        slopes = slopes[:1]
    _emit_table(op, b, [_leaky(s) for s in slopes], attrs.axis if len(slopes) > 1 else -1)


def _leaky(slope: float) -> Callable[[Array], Array]:
    return lambda v: np.where(v < 0, slope * v, v)


def _emit_table(op: Op, b: Builder, functions: list[Callable[[Array], Array]], axis: int = -1) -> None:
    x, y = op.input(0), op.out
    rows = [table_row(x, y, f) for f in functions]
    table = np.stack(rows) if len(rows) > 1 else rows[0]
    lo, hi = clamp_of(y)
    shift = INT16_STEP_BITS + _TABLE_FRACTION if quant_of(x).dtype is DType.INT16 else 1
    b.emit(Lut(op=b.op, x=b.ref(x), table=b.constant(table), y=b.ref(y), axis=axis, shift=shift, lo=lo, hi=hi))


def table_row(x: Tensor, y: Tensor, function: Callable[[Array], Array]) -> Array:
    """Entries of a table: the function at every int8 value, or at every 64th int16 value with fraction bits.

    Where the function is undefined (log of a negative number) the entry is 0; infinities saturate.
    """
    out = quant_of(y)
    if quant_of(x).dtype is DType.INT8:
        points = np.arange(-128, 128, dtype=np.float64) * step_of(x)
        scale, limit = 1.0, float(out.dtype.qmax + 1)
    else:
        points = (np.arange(INT16_ENTRIES, dtype=np.float64) * (1 << INT16_STEP_BITS) - 32768) * step_of(x)
        # one octave beyond the type, so that a saturated entry does not bend its neighbour much
        scale, limit = float(1 << _TABLE_FRACTION), 2.0 * (out.dtype.qmax + 1)
    with np.errstate(all="ignore"):
        values = np.nan_to_num(function(points) / out.unit, nan=0.0, posinf=limit, neginf=-limit)
    integers = round_half_up(np.clip(values, -limit, limit) * scale)
    if quant_of(x).dtype is DType.INT8:
        return np.clip(integers, out.dtype.qmin, out.dtype.qmax).astype(out.dtype.numpy)
    return integers.astype(np.int32)
