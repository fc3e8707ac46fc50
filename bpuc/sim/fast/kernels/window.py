"""Pool and ResizeLinear, and the windows that they and convolutions look through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import prod

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.isa import Pool, PoolKind, ResizeLinear
from bpuc.isa.resize import FRACTION_BITS
from bpuc.sim.engine import Array
from bpuc.sim.fast.arithmetic import Requantizer, scaler
from bpuc.sim.fast.storage import Access

_BLOCK = 1 << 16  # results at a time: what is between them and x stays in the cache


def _pad(
    x: Array,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
    out: tuple[int, ...],
    fill: float,
) -> Array:
    """x with as wide a border as windows for `out` results reach."""
    if pads and min(pads[: len(kernel)]) < 0:
        raise ValueError(f"negative padding {min(pads[: len(kernel)])}")
    begin = [0, 0, *pads[: len(kernel)]]
    shape = list(x.shape)
    for i, (k, s, d, o) in enumerate(zip(kernel, strides, dilations, out, strict=True)):
        shape[i + 2] = max(x.shape[i + 2] + pads[i], (o - 1) * s + (k - 1) * d + 1)
    if list(x.shape) == shape:
        return x
    wide = np.full(shape, fill, x.dtype)
    wide[tuple(slice(b, b + n) for b, n in zip(begin, x.shape))] = x
    return wide


def taps(
    x: Array,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
    out: tuple[int, ...],
    fill: float,
) -> Iterator[Array]:
    """For every kernel position in row-major order, what it sees: views [N, C, *out]."""
    wide = _pad(x, kernel, strides, pads, dilations, out, fill)
    for tap in product(*map(range, kernel)):
        where = (slice(k * d, k * d + (o - 1) * s + 1, s) for k, d, o, s in zip(tap, dilations, out, strides))
        yield wide[(slice(None), slice(None), *where)]


def _over_windows(x: Array, ins: Pool, join: np.ufunc, fill: int) -> Array:
    """A maximum or sum over windows, one axis after the other: the sum of kernel sizes in work, not their product."""
    rank = len(ins.kernel)
    for i in range(rank):
        one = [1] * rank
        kernel, strides, dilations, pads = list(one), list(one), list(one), [0] * rank * 2
        kernel[i], strides[i], dilations[i], pads[i] = ins.kernel[i], ins.strides[i], ins.dilations[i], ins.pads[i]
        out = (*ins.y.shape[2 : 3 + i], *x.shape[3 + i :])
        seen = taps(x, tuple(kernel), tuple(strides), tuple(pads), tuple(dilations), out, fill)
        total = next(seen).copy()
        for part in seen:
            join(total, part, out=total)
        x = total
    return x


def pool(ins: Pool, a: Access) -> Callable[[], None]:
    x, y = a["x"], a["y"]
    if ins.kind == PoolKind.MAX:
        if x.biased and y.biased:
            # the order of stored bytes is the order of values
            return lambda: np.copyto(y.array, _over_windows(x.array, ins, np.maximum, 0).reshape(y.ref.shape))
        return lambda: y.store(_over_windows(x.load(), ins, np.maximum, ins.x.dtype.qmin))
    if ins.mult is None:
        raise ValueError("an average pool needs mult")
    ones = np.ones((1, 1, *ins.x.shape[2:]), np.int64)
    count = _over_windows(ones, ins, np.add, 0)
    mult = a.constant("mult").astype(np.int64)[count]
    peak = -ins.x.dtype.qmin * prod(ins.kernel)
    kind = np.int16 if peak < 2**15 else np.int32 if peak < 2**31 else np.int64
    finish = Requantizer(mult, np.array(ins.shift, np.int64), ins.lo, ins.hi, float(peak))
    checked = not finish.fits(ins.y.dtype)
    return lambda: y.store(finish(_over_windows(x.load().astype(kind), ins, np.add, 0)), checked)


def resize_linear(ins: ResizeLinear, a: Access) -> Callable[[], None]:
    """Columns first, then rows, some channels at a time; the four-term sum is the same in any order."""
    x, y = a["x"], a["y"]
    one = 1 << FRACTION_BITS
    ih, iw = a.constant("index_h").astype(np.intp), a.constant("index_w").astype(np.intp)
    wh, ww = a.constant("weight_h").astype(np.int64)[:, None], a.constant("weight_w").astype(np.int64)
    usual = all(w.size and w.min() >= 0 and w.max() <= one for w in (wh, ww))
    peak = float(-ins.x.dtype.qmin * one * one) if usual else 2.0**62
    finish = scaler(ins.mult, ins.shift, ins.lo, ins.hi, peak)
    # with weights that add up to 256, int16 holds a row of int8 and int32 the sum
    small = usual and ins.x.dtype is DType.INT8
    row, total = (np.int16, np.int32) if small else (np.int64, np.int64)
    (left, right), (above, below) = ((v.astype(t) for v in (one - w, w)) for w, t in ((ww, row), (wh, total)))
    height, width = ins.y.shape[-2:]
    lead = ins.x.shape[:-2]
    if ins.y.shape[:-2] != lead:
        raise ValueError(f"resize of shape {ins.x.shape} to {ins.y.shape}")
    step = max(1, _BLOCK // max(1, height * width))

    def run() -> None:
        value = x.load().reshape(-1, *ins.x.shape[-2:])
        result = np.empty((len(value), height, width), ins.y.dtype.numpy if finish.fits(ins.y.dtype) else np.int64)
        for at in range(0, len(value), step):
            v = value[at : at + step].astype(row)
            columns = np.take(v, iw[0], axis=-1) * left
            columns += np.take(v, iw[1], axis=-1) * right
            acc = np.multiply(columns[:, ih[0]], above, dtype=total)
            acc += np.multiply(columns[:, ih[1]], below, dtype=total)
            result[at : at + step] = finish(acc)
        y.store(result.reshape(ins.y.shape))

    return run
