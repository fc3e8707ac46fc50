"""Reduce, ArgReduce, Softmax and Norm."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.isa import ArgReduce, Norm, Reduce, ReduceKind, Softmax
from bpuc.sim.engine import Array
from bpuc.sim.fast.arithmetic import EXACT, LIMIT, floor_divide, scaler
from bpuc.sim.fast.storage import Access

_PIECE = 1 << 15


def reduce(ins: Reduce, a: Access) -> Callable[[], None]:
    x, y = a["x"], a["y"]
    count = prod(ins.x.shape[i] for i in ins.axes)
    peak = -ins.x.dtype.qmin * (count if ins.kind == ReduceKind.SUM else 1)
    finish = scaler(ins.mult, ins.shift, ins.lo, ins.hi, float(peak))
    if ins.kind == ReduceKind.SUM:
        kind = np.int32 if peak < 2**31 else np.int64
        return lambda: y.store(finish(np.add.reduce(x.load(), axis=ins.axes, dtype=kind, keepdims=True)))
    take = {ReduceKind.MAX: np.maximum, ReduceKind.MIN: np.minimum}[ReduceKind(ins.kind)]
    return lambda: y.store(finish(take.reduce(x.load(), axis=ins.axes, keepdims=True)))


def arg_reduce(ins: ArgReduce, a: Access) -> Callable[[], None]:
    x, y = a["x"], a["y"]
    pick = np.argmax if ins.largest else np.argmin
    size = ins.x.shape[ins.axis]
    if ins.last:
        return lambda: y.store(size - 1 - pick(np.flip(x.load(), ins.axis), axis=ins.axis, keepdims=True))
    return lambda: y.store(pick(x.load(), axis=ins.axis, keepdims=True))


def softmax(ins: Softmax, a: Access) -> Callable[[], None]:
    x, y = a["x"], a["y"]
    table = a.constant("table").astype(np.int64)
    if ins.x.dtype is not DType.INT8:
        # every difference of two int16 values, interpolated once
        f = np.arange(64)
        table = ((table[:-1, None] * (64 - f) + table[1:, None] * f + 32) >> 6).reshape(-1)

    def run() -> None:
        value = x.load().astype(np.int32)
        e = np.take(table, value.max(axis=ins.axis, keepdims=True) - value)
        s = e.sum(axis=ins.axis, keepdims=True)
        y.store(np.clip(floor_divide(2 * e * ins.mult + (s << 16), s << 17), ins.lo, ins.hi))

    return run


def norm(ins: Norm, a: Access) -> Callable[[], None]:
    """In float64 where it provably holds every integer on the way, else in int64."""
    x, y, axes = a["x"], a["y"], ins.axes
    gain, bias = a.constant("gain").astype(np.int64), a.constant("bias").astype(np.int64)
    n = prod(ins.x.shape[i] for i in axes)
    most_gain, most_bias = (float(np.abs(v.astype(np.float64)).max(initial=0)) for v in (gain, bias))
    # |d| is at most sqrt(v), and r at least half of 256 * sqrt(v/n), or 1 where that is below 2
    steps, deviation = np.sqrt(n) * 2.0**13 + 1, 2.0 * n * -ins.x.dtype.qmin / 2.0**ins.pre_shift + 1
    total = steps * most_gain + most_bias + 2.0**ins.shift
    if ins.eps >= 0 and n * deviation**2 < EXACT and deviation * 2.0**20 < EXACT / 2 and total < EXACT:
        return _in_float64(ins, a, gain, bias, n)

    def run() -> None:
        value = x.load().astype(np.int64)
        d = (n * value - value.sum(axis=axes, keepdims=True)) >> ins.pre_shift
        v = (d * d).sum(axis=axes, keepdims=True)
        root = np.sqrt(v.astype(np.float64) / n + ins.eps) * 256
        r = np.maximum(1, np.floor(root).astype(np.int64))
        z = floor_divide(d << 20, r)
        risky = float(np.abs(z).max(initial=0)) * most_gain >= LIMIT
        if risky and np.abs(z.astype(np.float64) * gain).max() >= LIMIT:
            raise ValueError("product of normalized value and gain leaves int64")
        total = z * gain
        total += bias
        total += np.int64(1) << (ins.shift - 1)
        total >>= ins.shift
        y.store(np.clip(total, ins.lo, ins.hi))

    return run


def _in_float64(ins: Norm, a: Access, gain: Array, bias: Array, n: int) -> Callable[[], None]:
    """The same with every integer below 2**53, rows in pieces where the axes are the last ones."""
    x, y = a["x"], a["y"]
    rank, first = len(ins.x.shape), min(ins.axes) % len(ins.x.shape)
    rows = sorted(i % rank for i in ins.axes) == list(range(first, rank)) and not any(
        d > 1 for v in (gain, bias) for d in v.shape[:first]
    )
    shape = (-1, *ins.x.shape[first:]) if rows else (1, *ins.x.shape)
    axes = tuple(range(1, rank - first + 1)) if rows else tuple(i % rank + 1 for i in ins.axes)
    factor = np.ldexp(gain.astype(np.float64), -ins.shift)
    offset = np.ldexp(bias.astype(np.float64), -ins.shift) + 0.5
    if rows:
        factor, offset = (v.reshape(v.shape[first:]) for v in (factor, offset))
    down = 2.0**-ins.pre_shift
    checked = not ins.y.dtype.qmin <= ins.lo <= ins.hi <= ins.y.dtype.qmax

    def normalized(value: Array) -> Array:
        d = np.multiply(value, float(n), dtype=np.float64)
        d -= d.sum(axis=axes, keepdims=True) / n
        d *= down
        np.floor(d, out=d)
        v = np.square(d).sum(axis=axes, keepdims=True)
        r = np.maximum(1.0, np.floor(np.sqrt(v / n + ins.eps) * 256))
        d *= 2.0**20
        d /= r
        np.floor(d, out=d)
        d *= factor
        d += offset
        np.floor(d, out=d)
        return np.clip(d, ins.lo, ins.hi, out=d)

    def run() -> None:
        whole = x.load().reshape(shape)
        step = max(1, _PIECE // n) if rows else 1
        parts = [normalized(whole[at : at + step]) for at in range(0, len(whole), step)]
        y.store(np.concatenate(parts).reshape(ins.y.shape), checked)

    return run
