"""Conv, ConvTranspose and MatMul by numpy's matrix product: slower than `plans`, and right for every case."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import numpy.typing as npt

from bpuc.base.dtypes import DType
from bpuc.isa import Conv, ConvTranspose, MatMul, Ref
from bpuc.sim.engine import Array
from bpuc.sim.fast.arithmetic import EXACT, LIMIT, Requantizer, along
from bpuc.sim.fast.kernels.elementwise import ROW, by_table
from bpuc.sim.fast.kernels.window import taps
from bpuc.sim.fast.storage import Access, Operand

_INT32 = np.iinfo(np.int32)


def is_table(ins: Conv) -> bool:
    """Whether every channel of int8 is a function of one value: a table, where it is long enough to be worth one."""
    shape = ins.x.shape
    alone = ins.group == shape[1] == ins.w.shape[0] and prod(ins.w.shape[1:]) == 1 and ins.x.shape == ins.y.shape
    return alone and ins.res is None and prod(shape[2:]) >= ROW and _all_int8(ins.x, ins.w, ins.y)


def _all_int8(*refs: Ref) -> bool:
    return all(r.dtype is DType.INT8 for r in refs)


def _by_table(ins: Conv, a: Access) -> Callable[[], None] | None:
    """None where the accumulator may leave int32, or strides and pads are more than ornament."""
    if set(ins.strides) != {1} or set(ins.pads) != {0}:
        return None
    channels = ins.w.shape[0]
    bias = a.constant("bias").astype(np.int64) if ins.bias is not None else np.zeros(1, np.int64)
    w = a.constant("w").reshape(-1, 1).astype(np.int64)
    acc = np.arange(-128, 128) * w + bias.reshape(-1, 1)
    if np.abs(acc).max() > _INT32.max:
        return None
    if ins.mult is None or ins.shift is None:
        return by_table(a["x"], a["y"], np.clip(acc, ins.lo, ins.hi), 1)
    mult, shift = (
        np.broadcast_to(a.constant(n).reshape(-1, 1).astype(np.int64), (channels, 1)) for n in ("mult", "shift")
    )
    finish = Requantizer(mult, shift, ins.lo, ins.hi, float(np.abs(acc).max()))
    return by_table(a["x"], a["y"], finish(acc).astype(np.int64), 1)


def conv(ins: Conv, a: Access) -> Callable[[], None]:
    """One matrix product a kernel tap."""
    tables = _by_table(ins, a) if is_table(ins) else None
    if tables is not None:
        return tables
    w = a.constant("w")
    o, group, out = w.shape[0], ins.group, ins.y.shape[2:]
    n, c = ins.x.shape[:2]
    sums = np.abs(w.astype(np.int64)).reshape(o, -1).sum(1)
    kind = _exact_type(sums, ins.x.dtype)
    flat = w.astype(kind).reshape(group, o // group, c // group, -1)
    finish = _finisher(ins, a, sums, 1)
    x = a["x"]

    def run() -> None:
        acc = np.zeros((n, group, o // group, prod(out)), kind)
        seen = taps(x.load().astype(kind), w.shape[2:], ins.strides, ins.pads, ins.dilations, out, 0)
        for k, part in enumerate(seen):
            acc += flat[..., k] @ part.reshape(n, group, c // group, prod(out))
        finish(acc.reshape(ins.y.shape))

    return run


def conv_transpose(ins: ConvTranspose, a: Access) -> Callable[[], None]:
    """As a convolution of the input with zeros between its elements, by the flipped kernel."""
    w = a.constant("w")
    rank = len(ins.x.shape) - 2
    group, kernel = ins.group, w.shape[2:]
    flipped = flip_weights(w, group)
    o = flipped.shape[0]
    sums = np.abs(flipped.astype(np.int64)).reshape(o, -1).sum(1)
    kind = _exact_type(sums, ins.x.dtype)
    n, c, *size = ins.x.shape
    flat = flipped.astype(kind).reshape(group, o // group, c // group, -1)
    finish = _finisher(ins, a, sums, 1)
    if min(ins.pads[:rank]) < 0:
        raise ValueError(f"negative padding {min(ins.pads[:rank])}")
    reach = [(k - 1) * d for k, d in zip(kernel, ins.dilations)]
    full = [(i - 1) * s + 1 + r for i, s, r in zip(size, ins.strides, reach)]
    # what the pads leave of the full result; behind it the bias stands alone
    kept = [f - ins.pads[i + rank] - ins.pads[i] for i, f in enumerate(full)]
    out = ins.y.shape[2:]
    x = a["x"]

    def run() -> None:
        spread = np.zeros((n, c, *((i - 1) * s + 1 + 2 * r for i, s, r in zip(size, ins.strides, reach))), kind)
        inside = (slice(r, r + (i - 1) * s + 1, s) for i, s, r in zip(size, ins.strides, reach))
        spread[(slice(None), slice(None), *inside)] = x.load()
        acc = np.zeros((n, group, o // group, prod(full)), kind)
        ones = (1,) * rank
        for k, part in enumerate(taps(spread, kernel, ones, (0,) * 2 * rank, ins.dilations, tuple(full), 0)):
            acc += flat[..., k] @ part.reshape(n, group, c // group, prod(full))
        result = np.zeros((n, o, *out), kind)
        both = [max(0, min(k, e)) for k, e in zip(kept, out)]
        cut = (slice(p, p + b) for p, b in zip(ins.pads, both))
        there = (slice(None), slice(None), *map(slice, both))
        result[there] = acc.reshape(n, o, *full)[(slice(None), slice(None), *cut)]
        finish(result)

    return run


def flip_weights(w: Array, group: int) -> Array:
    """ConvTranspose weights [C, O/group, *kernel] as Conv weights [O, C/group, *kernel] for its spread input."""
    c, per = w.shape[:2]
    kernel = w.shape[2:]
    turned = w.reshape(group, c // group, per, *kernel).swapaxes(1, 2).reshape(group * per, c // group, *kernel)
    return np.flip(turned, axis=tuple(range(2, w.ndim)))


def matmul(ins: MatMul, a: Access) -> Callable[[], None]:
    x, b = a["a"], a["b"]
    terms = ins.a.shape[-1]
    if b.constant:
        sums = np.abs(b.load().astype(np.int64)).sum(axis=-2).reshape(-1, ins.b.shape[-1]).max(0)
    else:
        sums = np.array([terms * -ins.b.dtype.qmin])
    kind = _exact_type(sums, ins.a.dtype)
    finish = _finisher(ins, a, sums, len(ins.y.shape) - 1)
    return lambda: finish(x.load().astype(kind) @ b.load().astype(kind))


def _exact_type(sums: Array, x: DType) -> npt.DTypeLike:
    """float64 where no partial sum can leave 2**53, so that BLAS is exact in any order; else int64."""
    return np.float64 if not sums.size or float(sums.max()) * -x.qmin < EXACT else np.int64


def _finisher(ins: Conv | ConvTranspose | MatMul, a: Access, sums: Array, axis: int) -> Callable[[Array], None]:
    """Bias, width check, residual, requantization, clamp and store.

    Args:
        sums: per output channel (or one for all), the sum of |w|. axis: the output channel's.
    """
    y, rank = a["y"], len(ins.y.shape)
    factors = (ins.a, ins.b) if isinstance(ins, MatMul) else (ins.x, ins.w)
    narrow = _all_int8(*factors)
    bias = a.constant("bias").astype(np.int64) if ins.bias is not None else np.zeros(1, np.int64)
    bound = sums.astype(np.float64) * -factors[0].dtype.qmin + np.abs(bias)
    risky = narrow and bool((bound >= 2**31).any())
    offset = along(bias, axis, rank)

    def accumulator(acc: Array) -> Array:
        total = (acc if bound.max() < EXACT else acc.astype(np.int64)) + offset
        if risky and total.size and (total.min() < _INT32.min or total.max() > _INT32.max):
            raise ValueError(f"accumulator {total.min():.0f}..{total.max():.0f} does not fit int32")
        return total

    if ins.mult is None or ins.shift is None:
        return lambda acc: y.store(np.clip(accumulator(acc).astype(np.int64), ins.lo, ins.hi))
    mult = along(a.constant("mult").astype(np.int64), axis, rank)
    shift = along(a.constant("shift").astype(np.int64), axis, rank)
    extra = 0.0
    res: Operand | None = None
    res_mult = mult
    if ins.res is not None and ins.res_mult is not None:
        res = a["res"]
        res_mult = along(a.constant("res_mult").astype(np.int64), axis, rank)
        extra = float(np.abs(res_mult.astype(np.float64)).max()) * -ins.res.dtype.qmin
    finish = Requantizer(mult, shift, ins.lo, ins.hi, along(bound, axis, rank), extra)

    def run(acc: Array) -> None:
        total, more = accumulator(acc), None
        if res is not None:
            value = res.load().astype(np.int64)
            if extra >= LIMIT and np.max(np.abs(value.astype(np.float64) * res_mult)) >= LIMIT:
                raise ValueError("product of residual and multiplier leaves int64")
            more = value * res_mult
        y.store(finish(total, more))

    return run
