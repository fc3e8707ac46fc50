"""Reduce, ArgReduce, Softmax and Norm."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.isa import ArgReduce, Norm, Reduce, ReduceKind, Softmax
from bpuc.sim.fast.arithmetic import LIMIT, Requantizer, floor_divide, scaler
from bpuc.sim.fast.storage import Access


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
    x, y = a["x"], a["y"]
    gain, bias = a.constant("gain").astype(np.int64), a.constant("bias").astype(np.int64)
    n = prod(ins.x.shape[i] for i in ins.axes)
    axes = ins.axes
    one, shift = np.array(1, np.int64), np.array(ins.shift, np.int64)
    most_bias = float(np.abs(bias.astype(np.float64)).max(initial=0))
    most_gain = float(np.abs(gain.astype(np.float64)).max(initial=0))
    # |z| <= |d| * 2**20 / r, and r is at least 1
    peak = 2.0 * n * -ins.x.dtype.qmin * 2.0**20
    safe = peak * most_gain < LIMIT

    def run() -> None:
        value = x.load().astype(np.int64)
        d = (n * value - value.sum(axis=axes, keepdims=True)) >> ins.pre_shift
        v = (d * d).sum(axis=axes, keepdims=True)
        root = np.sqrt(v.astype(np.float64) / n + ins.eps) * 256
        r = np.maximum(1, np.floor(root).astype(np.int64))
        z = floor_divide(d << 20, r)
        most = float(np.abs(z).max(initial=0)) * most_gain
        if not safe and most >= LIMIT and np.abs(z.astype(np.float64) * gain).max() >= LIMIT:
            raise ValueError("product of normalized value and gain leaves int64")
        finish = Requantizer(one, shift, ins.lo, ins.hi, most + most_bias)
        y.store(finish(z * gain + bias))

    return run
