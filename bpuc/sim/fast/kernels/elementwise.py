"""Lut, Rescale and Eltwise: tables where a value has few inputs, narrow integers elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.isa import Eltwise, EltwiseKind, Lut, Rescale
from bpuc.isa.lut import INT16_STEP_BITS
from bpuc.sim.engine import Array
from bpuc.sim.fast.arithmetic import Requantizer, scaler
from bpuc.sim.fast.storage import BIAS, Access, Operand

_PIECE = 1 << 15
ROW = 256  # shortest run of bytes for which a table of its own is worth a call


def lut(ins: Lut, a: Access) -> Callable[[], None]:
    """int8: the table itself. int16: the interpolation of all 65536 values, done once."""
    table = np.atleast_2d(a.constant("table"))
    axis = ins.axis % len(ins.x.shape) if len(table) > 1 or a["table"].array.ndim == 2 else None
    if axis is not None and len(table) not in (1, ins.x.shape[axis]):
        raise ValueError(f"{len(table)} tables for {ins.x.shape[axis]} indices of axis {axis}")
    if ins.x.dtype is DType.INT8:
        return by_table(a["x"], a["y"], table, axis)
    step = 1 << INT16_STEP_BITS
    wide = table.astype(np.int64)
    finish = scaler(1, ins.shift, ins.lo, ins.hi, float(np.abs(wide).max()) * step)
    f = np.arange(step)
    every = wide[:, :-1, None] * (step - f) + wide[:, 1:, None] * f
    return by_table(a["x"], a["y"], finish(every.reshape(len(table), -1)).astype(np.int64), axis)


def rescale(ins: Rescale, a: Access) -> Callable[[], None]:
    low = ins.x.dtype.qmin
    finish = scaler(ins.mult, ins.shift, ins.lo, ins.hi, -low)
    return by_table(a["x"], a["y"], finish(np.arange(low, -low)[None]).astype(np.int64), None)


def by_table(x: Operand, y: Operand, table: Array, axis: int | None) -> Callable[[], None]:
    """``y = table[row, x - qmin]``, the row being the index along `axis` where there are several.

    Args:
        table: integers [rows, 256 or 65536].
    """
    if table.min() < y.ref.dtype.qmin or table.max() > y.ref.dtype.qmax:
        return _checked_table(x, y, table, axis)
    if x.ref.dtype is DType.INT8 and y.ref.dtype is DType.INT8:
        rows = stored_tables(x, y, table)
        if len(rows) == 1:
            return lambda: _translate(x, y, rows[0])
        assert axis is not None
        inner = prod(x.ref.shape[axis + 1 :])
        if inner >= ROW:
            return lambda: _translate_rows(x, y, rows, prod(x.ref.shape[:axis]), inner)
    flat = table.astype(y.ref.dtype.numpy)
    low = x.ref.dtype.qmin
    if len(flat) == 1:
        # indexed by the unsigned reading of the stored value
        half = np.roll(flat[0], low) if not x.biased else flat[0]
        kind = np.dtype(f"u{x.ref.dtype.itemsize}")
        return lambda: y.store(
            np.take(half, x.array.view(kind) if x.array.flags.c_contiguous else x.array.astype(kind))
        )
    return _checked_table(x, y, flat, axis)


def _checked_table(x: Operand, y: Operand, table: Array, axis: int | None) -> Callable[[], None]:
    """The plain way: indices of 64 bits, and the range checked when the value is stored."""
    size = table.shape[1]
    rank = len(x.ref.shape)
    shape = [1] * rank
    if axis is not None and len(table) > 1:
        shape[axis] = len(table)
    first = (np.arange(len(table)) * size - x.ref.dtype.qmin).reshape(shape)
    return lambda: y.store(np.take(table, x.load() + first))


def stored_tables(x: Operand, y: Operand, table: Array) -> list[bytes]:
    """Tables of integers [rows, 256] as byte tables from what x holds to what y holds."""
    rows: Array = table.astype(np.int8).view(np.uint8)
    if y.biased:
        rows = rows ^ np.uint8(BIAS)
    if not x.biased:
        rows = np.roll(rows, -BIAS, axis=1)
    return [r.tobytes() for r in rows]


def _bytes(x: Operand) -> bytes | bytearray:
    if x.buffer is not None and x.array.nbytes == len(x.buffer.data) and x.array.flags.c_contiguous:
        return x.buffer.data
    return x.array.tobytes()


def _translate(x: Operand, y: Operand, table: bytes) -> None:
    out = np.frombuffer(_bytes(x).translate(table), y.array.dtype)
    np.copyto(y.array, out.reshape(y.ref.shape))


def _translate_rows(x: Operand, y: Operand, tables: list[bytes], outer: int, inner: int) -> None:
    raw = _bytes(x)
    cuts = range(0, outer * len(tables) * inner, inner)
    out = b"".join(raw[at : at + inner].translate(t) for at, t in zip(cuts, tables * outer))
    np.copyto(y.array, np.frombuffer(out, y.array.dtype).reshape(y.ref.shape))


def eltwise(ins: Eltwise, a: Access) -> Callable[[], None]:
    """Constant or broadcast operands of int8 become tables; the rest is narrow arithmetic in pieces."""
    x, b, y = a["a"], a["b"], a["y"]
    combine = _combination(ins)
    safe = y.ref.dtype.qmin <= ins.lo <= ins.hi <= y.ref.dtype.qmax
    for small, big, join in ((b, x, combine), (x, b, lambda p, q: combine(q, p))):
        outer = _repeats(small.ref.shape, big.ref.shape)
        fits = big.ref.dtype is DType.INT8 and y.ref.dtype is DType.INT8 and big.ref.shape == y.ref.shape
        if outer is not None and fits and safe:
            return _tabulated(small, big, y, outer, join)
    return in_pieces(combine, y, (x, b), not safe)


def in_pieces(
    function: Callable[..., Array], y: Operand, operands: tuple[Operand, ...], checked: bool
) -> Callable[[], None]:
    """``y = function(*operands)`` elementwise, in pieces that stay in the cache where all are packed and alike."""
    alike = all(o.ref.shape == y.ref.shape and o.direct for o in (y, *operands))
    if not alike or checked or any(o.overlaps(y) and o.ref.address != y.ref.address for o in operands):
        return lambda: y.store(function(*(o.load() for o in operands)), checked)
    flats = [o.array.reshape(-1) for o in (y, *operands)]
    cuts = [slice(at, at + _PIECE) for at in range(0, flats[0].size, _PIECE)]

    def run() -> None:
        for cut in cuts:
            y.put(flats[0][cut], function(*(o.get(f[cut]) for o, f in zip(operands, flats[1:]))))

    return run


def _combination(ins: Eltwise) -> Callable[[Array, Array], Array]:
    """The instruction as a function of two integer arrays of any shapes that broadcast."""
    peak_a, peak_b = -ins.a.dtype.qmin, -ins.b.dtype.qmin
    if ins.kind == EltwiseKind.MUL:
        peak = peak_a * peak_b
        finish = scaler(ins.mult_a, ins.shift, ins.lo, ins.hi, peak)
        wide = np.int16 if peak < 2**15 else np.int32 if peak < 2**31 else np.int64
        return lambda p, q: finish(np.multiply(p, q, dtype=wide))
    join = {EltwiseKind.ADD: np.add, EltwiseKind.MAX: np.maximum, EltwiseKind.MIN: np.minimum}[EltwiseKind(ins.kind)]
    bound = peak_a * abs(ins.mult_a) + peak_b * abs(ins.mult_b)
    if bound + (1 << ins.shift >> 1) < 2**31 and 1 <= ins.shift < 31:
        ma, mb, half, shift = (np.int32(v) for v in (ins.mult_a, ins.mult_b, 1 << (ins.shift - 1), ins.shift))

        def narrow(p: Array, q: Array) -> Array:
            total = join(np.multiply(p, ma, dtype=np.int32), np.multiply(q, mb, dtype=np.int32))
            total += half
            total >>= shift
            return np.clip(total, ins.lo, ins.hi, out=total)

        return narrow
    finish = Requantizer(np.array(1), np.array(ins.shift), ins.lo, ins.hi, float(bound))
    return lambda p, q: finish(join(p.astype(np.int64) * ins.mult_a, q.astype(np.int64) * ins.mult_b))


def _repeats(small: tuple[int, ...], big: tuple[int, ...]) -> int | None:
    """Number of leading elements that `small` has of `big`, if it repeats over long enough runs of trailing axes."""
    small = (1,) * (len(big) - len(small)) + small
    if len(small) != len(big) or 0 in big:
        return None
    cut = len(big)
    while cut and small[cut - 1] == 1:
        cut -= 1
    inner = prod(big[cut:])
    same = small[:cut] == big[:cut]
    return prod(big[:cut]) if same and inner >= ROW else None


def _tabulated(
    small: Operand, big: Operand, y: Operand, outer: int, combine: Callable[[Array, Array], Array]
) -> Callable[[], None]:
    every = np.arange(-128, 128, dtype=np.int16)[None]

    def tables() -> list[bytes]:
        return stored_tables(big, y, combine(every, small.load().reshape(outer, 1)))

    def carry_out(rows: list[bytes]) -> None:
        if outer == 1:
            _translate(big, y, rows[0])
        else:
            _translate_rows(big, y, rows, 1, prod(big.ref.shape) // outer)

    if small.constant:
        fixed = tables()
        return lambda: carry_out(fixed)
    return lambda: carry_out(tables())
