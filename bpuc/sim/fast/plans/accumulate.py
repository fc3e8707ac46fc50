"""Conv and MatMul as onnxruntime nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.isa import Conv, MatMul
from bpuc.sim.engine import Array
from bpuc.sim.fast.graph import Graph, TensorProto
from bpuc.sim.fast.kernels.accumulate import is_table
from bpuc.sim.fast.plans.finish import Tail
from bpuc.sim.fast.probe import trusted
from bpuc.sim.fast.storage import BIAS, Access

# float32 adds integers exactly as long as no partial sum reaches this
EXACT_SINGLE = 1 << 24
# unrolling copies runs of as many bytes as x has channels, once a tap
_MIN_RUN, _MAX_TAPS = 8, 25

Emit = Callable[[Graph], None]


@dataclass(frozen=True)
class Geometry:
    """A convolution over two spatial axes; `size` and `out` are x's and y's shapes with both."""

    size: tuple[int, ...]
    out: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    group: int

    @property
    def attributes(self) -> dict[str, Any]:
        return {
            "kernel_shape": self.kernel,
            "strides": self.strides,
            "pads": self.pads,
            "dilations": self.dilations,
            "group": self.group,
        }

    @property
    def kind(self) -> str:
        """The class of kernels that onnxruntime takes for it."""
        if self.group == 1:
            return "pointwise" if prod(self.kernel) == 1 else "dense"
        return "depthwise" if self.group == self.size[1] == self.out[1] else "grouped"


def end_pads(
    size: tuple[int, ...],
    out: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    begin: tuple[int, ...],
    dilations: tuple[int, ...],
) -> tuple[int, ...] | None:
    """The border behind each axis with which onnxruntime finds `out` results; None where there is none."""
    ends = []
    for n, o, k, s, b, d in zip(size, out, kernel, strides, begin, dilations):
        reach = (k - 1) * d + 1
        end = max(0, (o - 1) * s + reach - b - n)
        if min(b, s, d, k) < 0 or min(s, d, k) < 1 or (n + b + end - reach) // s + 1 != o:
            return None
        ends.append(end)
    return tuple(ends)


def geometry(ins: Conv) -> Geometry | None:
    """None for what is not two- or one-dimensional, or whose shapes do not fit together."""
    rank = len(ins.x.shape) - 2
    if rank not in (1, 2) or len(ins.w.shape) != rank + 2 or len(ins.y.shape) != rank + 2 or ins.group < 1:
        return None
    (n, c, *size), (o, per, *kernel), (m, oy, *out) = ins.x.shape, ins.w.shape, ins.y.shape
    if n != m or o != oy or c != per * ins.group or o % ins.group:
        return None
    if not len(ins.strides) == len(ins.dilations) == rank or len(ins.pads) != 2 * rank:
        return None
    begin = ins.pads[:rank]
    ends = end_pads(tuple(size), tuple(out), tuple(kernel), ins.strides, begin, ins.dilations)
    if ends is None:
        return None
    one, nil = (1,) * (2 - rank), (0,) * (2 - rank)
    return Geometry(
        (n, c, *one, *size),
        (n, o, *one, *out),
        (*one, *kernel),
        (*one, *ins.strides),
        (*nil, *begin, *nil, *ends),
        (*one, *ins.dilations),
        ins.group,
    )


def conv(ins: Conv, a: Access) -> Emit | None:
    shape = geometry(ins)
    if shape is None or not a["w"].constant or is_table(ins):
        return None
    w = a["w"].load().astype(np.int64).reshape(shape.out[1], -1, *shape.kernel)
    bound = np.abs(w).reshape(len(w), -1).sum(1) * -ins.x.dtype.qmin
    tail = Tail.of(ins, a, bound, shape.out, 1)
    if tail is None:
        return None
    sums = convolution(shape, w, ins.x.dtype, ins.w.dtype, tail)
    if sums is None:
        return None

    def emit(g: Graph) -> None:
        value = sums(g, g.read(a["x"], shape.size))
        g.write(a["y"], value if ins.y.shape == shape.out else g.reshape(value, ins.y.shape))

    return emit


def convolution(
    shape: Geometry, w: Array, xtype: DType, wtype: DType, tail: Tail
) -> Callable[[Graph, str], str] | None:
    """A convolution with all that follows, as a function from x's name to that of the stored value."""
    if xtype is DType.INT8 and wtype is DType.INT8:
        scales = tail.scales()
        if scales is not None and trusted(f"{shape.kind} signed"):
            return lambda g, x: tail.clamp(g, _fused(g, x, shape, w, scales, tail.bias, True))
        if scales is not None and trusted(f"{shape.kind} unsigned"):
            return lambda g, x: tail.clamp(g, _fused(g, x, shape, w, scales, tail.bias, False))
    if not tail.exact():
        return None
    if xtype is DType.INT8 and wtype is DType.INT8 and shape.kind != "depthwise":
        signed = trusted("MatMulInteger signed")
        worth = shape.group == 1 and shape.size[1] >= _MIN_RUN and prod(shape.kernel) <= _MAX_TAPS
        if worth and (signed or trusted("MatMulInteger")):
            return lambda g, x: g.channels_first(tail.wide(g, [(_unrolled(g, x, shape, w, signed), 0)], True))
        if trusted("ConvInteger"):
            return lambda g, x: tail.wide(g, [(_integer(g, x, shape, w), 0)])
    return _split(shape, w, xtype, wtype, tail)


def _fused(g: Graph, x: str, shape: Geometry, w: Array, scales: Array, bias: Array, signed: bool) -> str:
    weights, zero = _weights(g, w, signed)
    one, middle = g.constant(1, np.float32), g.constant(BIAS, np.uint8)
    last = (g.constant(bias, np.int32),) if bias.any() else ()
    return g.node(
        "QLinearConv",
        *(x, one, middle, weights, g.constant(scales, np.float32), zero, one, middle),
        *last,
        **shape.attributes,
    )


def _unrolled(g: Graph, x: str, shape: Geometry, w: Array, signed: bool) -> str:
    """int32 sums, channels last, as one matrix product on the windows laid out side by side.

    Copying every pixel once a tap costs little beside the product, whose kernel with weights known beforehand is
    two to four times as fast as that of ConvInteger.
    """
    (n, c, *_), (_, o, *out) = shape.size, shape.out
    x = g.channels_last(x)
    top, left, bottom, right = shape.pads
    if any(shape.pads):
        border = g.constant([0, top, left, 0, 0, bottom, right, 0], np.int64)
        x = g.node("Pad", x, border, g.constant(BIAS, np.uint8))
    seen = []
    for tap in product(*map(range, shape.kernel)):
        start = [t * d for t, d in zip(tap, shape.dilations)]
        stop = [b + (m - 1) * s + 1 for b, m, s in zip(start, out, shape.strides)]
        ends = (g.constant(v, np.int64) for v in (start, stop, (1, 2), shape.strides))
        seen.append(g.node("Slice", x, *ends))
    rows = g.node("Concat", *seen, axis=3) if len(seen) > 1 else seen[0]
    rows = g.reshape(rows, (n * prod(out), c * len(seen)))
    weights = w.transpose(2, 3, 1, 0).reshape(-1, o)
    return g.reshape(_integer_product(g, rows, *_weights(g, weights, signed)), (n, *out, o))


def _weights(g: Graph, w: Array, signed: bool) -> tuple[str, str]:
    """Weights and their zero point."""
    if signed:
        return g.constant(w, np.int8), g.constant(0, np.int8)
    return g.constant(w + BIAS, np.uint8), g.constant(BIAS, np.uint8)


def _integer_product(g: Graph, x: str, right: str, zero: str) -> str:
    return g.node("MatMulInteger", x, right, g.constant(BIAS, np.uint8), zero)


def _integer(g: Graph, x: str, shape: Geometry, w: Array) -> str:
    middle = g.constant(BIAS, np.uint8)
    return g.node("ConvInteger", x, g.constant(w + BIAS, np.uint8), middle, middle, **shape.attributes)


def _split(shape: Geometry, w: Array, xtype: DType, wtype: DType, tail: Tail) -> Callable[[Graph, str], str] | None:
    """Float convolutions of high and low bytes, each exact."""
    high = (w + 128) >> 8  # the low part then lies in -128..127
    weights = [(w, 0)] if wtype is DType.INT8 else [(high, 8), (w - (high << 8), 0)]
    values = [(0, 128)] if xtype is DType.INT8 else [(8, 128), (0, 255)]
    for part, _ in weights:
        if int(np.abs(part).reshape(len(w), -1).sum(1).max()) * max(v for _, v in values) >= EXACT_SINGLE:
            return None
    if (len(weights) * len(values) > 1 and tail.mult is None) or not trusted("Conv"):
        return None

    def sums(g: Graph, x: str) -> str:
        single = g.node("Cast", x, to=TensorProto.FLOAT)
        if xtype is DType.INT8:
            inputs = [g.node("Sub", single, g.constant(BIAS, np.float32))]
        else:
            top = g.node("Floor", g.node("Mul", single, g.constant(2.0**-8, np.float32)))
            inputs = [top, g.node("Sub", single, g.node("Mul", top, g.constant(2.0**8, np.float32)))]
        parts = [
            (g.node("Conv", i, g.constant(part, np.float32), **shape.attributes), power + wpower)
            for i, (power, _) in zip(inputs, values)
            for part, wpower in weights
        ]
        return tail.wide(g, parts)

    return sums


def matmul(ins: MatMul, a: Access) -> Emit | None:
    """Constant weights become a pointwise convolution over rows; two activations an integer matrix product."""
    if ins.a.dtype is not DType.INT8 or ins.b.dtype is not DType.INT8:
        return None
    (m, k), (kb, n) = ins.a.shape[-2:], ins.b.shape[-2:]
    lead = np.broadcast_shapes(ins.a.shape[:-2], ins.b.shape[:-2])
    if len(ins.a.shape) < 2 or len(ins.b.shape) < 2 or k != kb or ins.y.shape != (*lead, m, n):
        return None
    b = a["b"]
    if not b.constant:
        bound = np.full(n, k * BIAS * BIAS, np.int64)
    else:
        w = b.load().astype(np.int64)
        bound = np.abs(w).sum(-2).reshape(-1, n).max(0) * BIAS
    tail = Tail.of(ins, a, bound, ins.y.shape, len(ins.y.shape) - 1)
    if tail is None:
        return None
    if b.constant and prod(ins.b.shape) == k * n and trusted("linear signed"):
        scales = tail.scales()
        if scales is not None:
            return _linear(ins, a, w.reshape(k, n), scales, tail)
    if not b.constant and not tail.bias.any() and trusted("QLinearMatMul"):
        scales = tail.scales()
        if scales is not None and (scales == scales[0]).all():
            return _product(a, float(scales[0]), tail)
    signed = b.constant and trusted("MatMulInteger signed")
    if not tail.exact() or not (signed or trusted("MatMulInteger")):
        return None

    def emit(g: Graph) -> None:
        right = _weights(g, w, signed) if b.constant else (g.read(b), g.constant(BIAS, np.uint8))
        g.write(a["y"], tail.wide(g, [(_integer_product(g, g.read(a["a"]), *right), 0)]))

    return emit


def _linear(ins: MatMul, a: Access, w: Array, scales: Array, tail: Tail) -> Emit:
    rows, (k, n) = prod(ins.a.shape[:-1]), w.shape

    def emit(g: Graph) -> None:
        one, middle, zero = g.constant(1, np.float32), g.constant(BIAS, np.uint8), g.constant(0, np.int8)
        # rows are pixels, columns channels behind them: no transposition on either side
        x = g.read(a["a"], (1, 1, rows, k))
        weights = g.constant(w.T.reshape(n, k, 1, 1), np.int8)
        y = g.node(
            "QLinearConv",
            *(x, one, middle, weights, g.constant(scales, np.float32), zero, one, middle),
            g.constant(tail.bias, np.int32),
            domain="com.microsoft",
            channels_last=1,
            kernel_shape=(1, 1),
        )
        g.write(a["y"], g.reshape(tail.clamp(g, y), ins.y.shape))

    return emit


def _product(a: Access, scale: float, tail: Tail) -> Emit:
    def emit(g: Graph) -> None:
        one, middle = g.constant(1, np.float32), g.constant(BIAS, np.uint8)
        x, y = g.read(a["a"]), g.read(a["b"])
        factor = g.constant(scale, np.float32)
        value = g.node("QLinearMatMul", x, one, middle, y, factor, middle, one, middle)
        g.write(a["y"], tail.clamp(g, value))

    return emit
