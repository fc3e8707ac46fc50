"""Pooling, reductions, ArgMax and ArgMin."""

from __future__ import annotations

import math

import numpy as np

from bpuc.base.rounding import quantize_multiplier, round_half_up
from bpuc.ir import Op
from bpuc.isa import ArgReduce, Fill, Pool, PoolKind, Reduce, ReduceKind, Ref
from bpuc.lower.accumulate import reshaped
from bpuc.lower.builder import Builder, clamp_of, step_of
from bpuc.lower.movement import move, part
from bpuc.ops.attrs import ArgAttrs, PoolAttrs, ReduceAttrs

# a window's sum has few bits, so its multiplier may have more than beside a full accumulator
_AVERAGE_BITS = 30


def lower_pool(op: Op, b: Builder) -> None:
    attrs = op.attrs
    assert isinstance(attrs, PoolAttrs)
    x, y = op.input(0), op.out
    lo, hi = clamp_of(y)
    source, pads = b.ref(x), attrs.pads
    mult, shift = None, 1
    if op.kind == "AveragePool":
        taps = math.prod(attrs.kernel)
        ratio = step_of(x) / step_of(y)
        whole = attrs.count_include_pad
        if whole and _overreaches(op, attrs):
            # the padding counts, what lies beyond it does not: with the padding in memory, all inside counts
            source, pads, whole = _padded(op, attrs, b), (0,) * len(pads), False
        _, shift = quantize_multiplier(ratio / (taps if whole else 1), _AVERAGE_BITS)
        counts = np.full(taps + 1, taps) if whole else np.maximum(np.arange(taps + 1), 1)
        mult = b.constant(round_half_up(ratio / counts * 2.0**shift).astype(np.int32))
    b.emit(
        Pool(
            op=b.op,
            x=source,
            mult=mult,
            y=b.ref(y),
            kind=PoolKind.AVERAGE if op.kind == "AveragePool" else PoolKind.MAX,
            kernel=attrs.kernel,
            strides=attrs.strides,
            pads=pads,
            dilations=attrs.dilations,
            shift=shift,
            lo=lo,
            hi=hi,
        )
    )


def _overreaches(op: Op, attrs: PoolAttrs) -> bool:
    """Whether a last window (ceil_mode) ends behind the padding."""
    rank, sizes = len(attrs.kernel), zip(op.input(0).shape[2:], op.out.shape[2:])
    return any(
        (out - 1) * attrs.strides[i] + (attrs.kernel[i] - 1) * attrs.dilations[i] + 1
        > n + attrs.pads[i] + attrs.pads[rank + i]
        for i, (n, out) in enumerate(sizes)
    )


def _padded(op: Op, attrs: PoolAttrs, b: Builder) -> Ref:
    """A copy of the operand with its padding of zeros."""
    x, rank = op.input(0), len(attrs.kernel)
    begins, ends = attrs.pads[:rank], attrs.pads[rank:]
    shape = (*x.shape[:2], *(n + p + e for n, p, e in zip(x.shape[2:], begins, ends)))
    whole = inner = b.packed(shape, x.dtype)
    for axis, begin in enumerate(begins, 2):
        inner = part(inner, axis, begin, x.shape[axis])
    b.emit(Fill(op=b.op, y=whole, value=0))
    move(op, b, b.ref(x), inner)
    return whole


def lower_reduce(op: Op, b: Builder) -> None:
    attrs = op.attrs
    assert isinstance(attrs, ReduceAttrs)
    x, y = op.input(0), op.out
    count = math.prod(x.shape[a] for a in attrs.axes)
    ratio = step_of(x) / step_of(y) / (count if op.kind == "ReduceMean" else 1)
    mult, shift = quantize_multiplier(ratio)
    lo, hi = clamp_of(y)
    kind = {"ReduceMax": ReduceKind.MAX, "ReduceMin": ReduceKind.MIN}.get(op.kind, ReduceKind.SUM)
    kept = tuple(1 if a in attrs.axes else d for a, d in enumerate(x.shape))
    out = reshaped(b.ref(y), kept)
    b.emit(Reduce(op=b.op, x=b.ref(x), y=out, kind=kind, axes=attrs.axes, mult=mult, shift=shift, lo=lo, hi=hi))


def lower_arg(op: Op, b: Builder) -> None:
    attrs = op.attrs
    assert isinstance(attrs, ArgAttrs)
    x = op.input(0)
    kept = tuple(1 if a == attrs.axis else d for a, d in enumerate(x.shape))
    b.emit(
        ArgReduce(
            op=b.op,
            x=b.ref(x),
            y=reshaped(b.ref(op.out), kept),
            axis=attrs.axis,
            largest=int(op.kind == "ArgMax"),
            last=int(attrs.last),
        )
    )
