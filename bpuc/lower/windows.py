"""Pooling, reductions, ArgMax and ArgMin."""

from __future__ import annotations

import math

import numpy as np

from bpuc.base.rounding import quantize_multiplier, round_half_up
from bpuc.ir import Op
from bpuc.isa import ArgReduce, Pool, PoolKind, Reduce, ReduceKind
from bpuc.lower.accumulate import reshaped
from bpuc.lower.builder import Builder, clamp_of, step_of
from bpuc.ops.attrs import ArgAttrs, PoolAttrs, ReduceAttrs

# a window's sum has few bits, so its multiplier may have more than beside a full accumulator
_AVERAGE_BITS = 30


def lower_pool(op: Op, b: Builder) -> None:
    attrs = op.attrs
    assert isinstance(attrs, PoolAttrs)
    x, y = op.input(0), op.out
    lo, hi = clamp_of(y)
    mult, shift = None, 1
    if op.kind == "AveragePool":
        taps = math.prod(attrs.kernel)
        ratio = step_of(x) / step_of(y)
        _, shift = quantize_multiplier(ratio / (taps if attrs.count_include_pad else 1), _AVERAGE_BITS)
        counts = np.full(taps + 1, taps) if attrs.count_include_pad else np.maximum(np.arange(taps + 1), 1)
        mult = b.constant(round_half_up(ratio / counts * 2.0**shift).astype(np.int32))
    b.emit(
        Pool(
            op=b.op,
            x=b.ref(x),
            mult=mult,
            y=b.ref(y),
            kind=PoolKind.AVERAGE if op.kind == "AveragePool" else PoolKind.MAX,
            kernel=attrs.kernel,
            strides=attrs.strides,
            pads=attrs.pads,
            dilations=attrs.dilations,
            shift=shift,
            lo=lo,
            hi=hi,
        )
    )


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
