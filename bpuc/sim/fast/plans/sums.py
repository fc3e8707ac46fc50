"""Exact sums of products in onnxruntime: integers of 8 bits in int32, or whole numbers in float32 below 2**24.

A factor of int16 is taken as ``256*high + low``; the sums of its halves stay apart, each with its power of two, until
`Tail.wide` adds them up in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.sim.engine import Array
from bpuc.sim.fast.graph import Graph, TensorProto
from bpuc.sim.fast.plans.geometry import Geometry
from bpuc.sim.fast.probe import trusted
from bpuc.sim.fast.storage import BIAS

INT32_MAX = (1 << 31) - 1
# float32 adds integers exactly as long as no partial sum reaches this
EXACT_SINGLE = 1 << 24
# unrolling copies runs of as many bytes as x has channels, once a tap
_MIN_RUN, _MAX_TAPS = 8, 25


@dataclass(frozen=True)
class Half:
    """One byte of a factor: value = stored uint8 - zero, at most `peak` in magnitude, to be multiplied by 2**power."""

    power: int
    zero: int
    peak: int


WHOLE = (Half(0, BIAS, 128),)
HALVES = (Half(8, BIAS, 128), Half(0, 0, 255))


@dataclass(frozen=True)
class Sums:
    """How to find sums.

    parts: the greatest magnitude of each part, int64 [C], and its power of two; highest power first.
    last: channels come last. emit: from the graph and the names of the factors to the names of the parts.
    """

    parts: list[tuple[Array, int]]
    last: bool
    emit: Callable[[Graph, str], list[str]]


def halves_of(dtype: DType) -> Sequence[Half]:
    return WHOLE if dtype is DType.INT8 else HALVES


def bytes_of(g: Graph, x: str, dtype: DType) -> list[str]:
    """The bytes of a tensor of int8 (as stored: itself) or int16, each as uint8, in the order of `halves_of`."""
    if dtype is DType.INT8:
        return [x]
    high, low = _split(g, x)
    stored = g.node("Add", high, g.constant(BIAS, np.float32))
    return [g.node("Cast", v, to=TensorProto.UINT8) for v in (stored, low)]


def _split(g: Graph, x: str) -> tuple[str, str]:
    """int16 as floats ``floor(x / 256)`` and the rest."""
    single = g.node("Cast", x, to=TensorProto.FLOAT)
    high = g.node("Floor", g.node("Mul", single, g.constant(2.0**-8, np.float32)))
    return high, g.node("Sub", single, g.node("Mul", high, g.constant(2.0**8, np.float32)))


def weight_halves(w: Array, dtype: DType) -> list[tuple[Array, Half]]:
    """Integer weights by bytes; see `bytes_of`."""
    return [(w, WHOLE[0])] if dtype is DType.INT8 else [(w >> 8, HALVES[0]), (w & 255, HALVES[1])]


def stored_weights(g: Graph, w: Array, half: Half, signed: bool) -> tuple[str, str]:
    """Weights and their zero point; as int8 where that is trusted and they fit."""
    if signed and half.zero:
        return g.constant(w, np.int8), g.constant(0, np.int8)
    return g.constant(w + half.zero, np.uint8), g.constant(half.zero, np.uint8)


def integer_product(g: Graph, x: str, half: Half, right: str, zero: str) -> str:
    return g.node("MatMulInteger", x, right, g.constant(half.zero, np.uint8), zero)


def convolution_sums(shape: Geometry, w: Array, xtype: DType, wtype: DType) -> Sums | None:
    """The fastest way that is exact and trusted, or None.

    Args:
        w: int64 [O, C/group, *kernel].
    """
    factors = [(x, *v) for x in halves_of(xtype) for v in weight_halves(w, wtype)]
    sizes = [np.abs(part).reshape(len(w), -1).sum(1) * x.peak for x, part, _ in factors]
    powers = [x.power + half.power for x, _, half in factors]
    parts = sorted(zip(sizes, powers), key=lambda p: -p[1])
    fits = max(int(s.max()) for s in sizes) <= INT32_MAX
    signed = trusted("MatMulInteger signed")
    needed = ["MatMulInteger"] if wtype is not DType.INT8 or not signed else []
    worth = shape.group == 1 and shape.size[1] >= _MIN_RUN and prod(shape.kernel) <= _MAX_TAPS
    if fits and worth and (signed or needed) and all(map(trusted, needed)):

        def unrolled(g: Graph, x: str) -> list[str]:
            rows = {h: _windows(g, b, shape, h) for h, b in zip(halves_of(xtype), bytes_of(g, x, xtype))}
            names = []
            for xh, part, half in factors:
                right = stored_weights(g, part.transpose(2, 3, 1, 0).reshape(-1, len(w)), half, signed)
                names.append(integer_product(g, rows[xh], xh, *right))
            return [g.reshape(n, (shape.out[0], *shape.out[2:], len(w))) for n in _by_power(names, powers)]

        return Sums(parts, True, unrolled)
    whole = xtype is DType.INT8 and wtype is DType.INT8
    if whole and fits and shape.kind != "depthwise" and trusted("ConvInteger"):
        middle = Half(0, BIAS, 128)

        def integer(g: Graph, x: str) -> list[str]:
            right, zero = stored_weights(g, w, middle, False)
            return [g.node("ConvInteger", x, right, g.constant(BIAS, np.uint8), zero, **shape.attributes)]

        return Sums(parts, False, integer)
    if max(int(s.max()) for s in sizes) >= EXACT_SINGLE or not trusted("Conv"):
        return None

    def single(g: Graph, x: str) -> list[str]:
        if xtype is DType.INT8:
            inputs = [g.node("Sub", g.node("Cast", x, to=TensorProto.FLOAT), g.constant(BIAS, np.float32))]
        else:
            inputs = list(_split(g, x))
        by_half = dict(zip(halves_of(xtype), inputs))
        names = [
            g.node("Conv", by_half[xh], g.constant(part, np.float32), **shape.attributes) for xh, part, _ in factors
        ]
        return _by_power(names, powers)

    return Sums(parts, False, single)


def _by_power(names: list[str], powers: list[int]) -> list[str]:
    return [n for _, n in sorted(zip(powers, names), key=lambda p: -p[0])]


def _windows(g: Graph, x: str, shape: Geometry, half: Half) -> str:
    """The windows of a convolution laid out side by side, as rows of a matrix.

    Copying every pixel once a tap costs little beside the product, whose kernel with weights known beforehand is
    two to four times as fast as that of ConvInteger.
    """
    (n, c, *_), out = shape.size, shape.out[2:]
    x = g.channels_last(x)
    top, left, bottom, right = shape.pads
    if any(shape.pads):
        border = g.constant([0, top, left, 0, 0, bottom, right, 0], np.int64)
        x = g.node("Pad", x, border, g.constant(half.zero, np.uint8))
    seen = []
    for tap in product(*map(range, shape.kernel)):
        start = [t * d for t, d in zip(tap, shape.dilations)]
        stop = [b + (m - 1) * s + 1 for b, m, s in zip(start, out, shape.strides)]
        ends = (g.constant(v, np.int64) for v in (start, stop, (1, 2), shape.strides))
        seen.append(g.node("Slice", x, *ends))
    rows = g.node("Concat", *seen, axis=3) if len(seen) > 1 else seen[0]
    return g.reshape(rows, (n * prod(out), c * len(seen)))
