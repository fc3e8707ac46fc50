"""Conv and MatMul as onnxruntime nodes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.isa import Conv, MatMul
from bpuc.sim.engine import Array
from bpuc.sim.fast.graph import Graph
from bpuc.sim.fast.kernels.accumulate import is_table
from bpuc.sim.fast.plans.finish import Tail
from bpuc.sim.fast.plans.geometry import Geometry, geometry
from bpuc.sim.fast.plans.sums import (
    WHOLE,
    bytes_of,
    convolution_sums,
    halves_of,
    integer_product,
    stored_weights,
    weight_halves,
)
from bpuc.sim.fast.probe import trusted
from bpuc.sim.fast.storage import BIAS, Access

Emit = Callable[[Graph], None]


def conv(ins: Conv, a: Access) -> Emit | None:
    shape = geometry(ins)
    if shape is None or not a["w"].constant or is_table(ins):
        return None
    w = a["w"].load().astype(np.int64).reshape(shape.out[1], -1, *shape.kernel)
    bound = np.abs(w).reshape(len(w), -1).sum(1) * -ins.x.dtype.qmin
    tail = Tail.of(ins, a, bound, shape.out, 1)
    if tail is None:
        return None
    whole = convolution(shape, w, ins.x.dtype, ins.w.dtype, tail)
    if whole is None:
        return None

    def emit(g: Graph) -> None:
        value = whole(g, g.read(a["x"], shape.size))
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
    sums = convolution_sums(shape, w, xtype, wtype)
    way = None if sums is None else tail.way(sums.parts)
    if sums is None or way is None:
        return None

    def wide(g: Graph, x: str) -> str:
        value = tail.wide(g, way, sums.emit(g, x), [power for _, power in sums.parts], sums.last)
        return g.channels_first(value) if sums.last else value

    return wide


def _fused(g: Graph, x: str, shape: Geometry, w: Array, scales: Array, bias: Array, signed: bool) -> str:
    right, zero = stored_weights(g, w, WHOLE[0], signed)
    one, middle = g.constant(1, np.float32), g.constant(BIAS, np.uint8)
    last = (g.constant(bias, np.int32),) if bias.any() else ()
    return g.node(
        "QLinearConv",
        *(x, one, middle, right, g.constant(scales, np.float32), zero, one, middle),
        *last,
        **shape.attributes,
    )


def matmul(ins: MatMul, a: Access) -> Emit | None:
    """Constant weights become a pointwise convolution over rows; two activations an integer matrix product."""
    (m, k), (kb, n) = ins.a.shape[-2:], ins.b.shape[-2:]
    lead = np.broadcast_shapes(ins.a.shape[:-2], ins.b.shape[:-2])
    if len(ins.a.shape) < 2 or len(ins.b.shape) < 2 or k != kb or ins.y.shape != (*lead, m, n):
        return None
    b = a["b"]
    w = b.load().astype(np.int64) if b.constant else None
    bound = _column_sums(w, n, k, -ins.b.dtype.qmin) * -ins.a.dtype.qmin
    tail = Tail.of(ins, a, bound, ins.y.shape, len(ins.y.shape) - 1)
    if tail is None:
        return None
    scales = tail.scales() if ins.a.dtype is DType.INT8 and ins.b.dtype is DType.INT8 else None
    if scales is not None and w is not None and w.size == k * n and trusted("linear signed"):
        return _linear(ins, a, w.reshape(k, n), scales, tail)
    same = scales is not None and bool((scales == scales[0]).all())
    if scales is not None and same and w is None and not tail.bias.any() and trusted("QLinearMatMul"):
        return _product(a, float(scales[0]), tail)
    return _wide_product(ins, a, w, tail)


def _column_sums(w: Array | None, n: int, k: int, peak: int) -> Array:
    """Per column the greatest sum of magnitudes; without weights, that of `k` values of `peak`."""
    return np.full(n, k * peak, np.int64) if w is None else np.abs(w).sum(-2).reshape(-1, n).max(0)


def _wide_product(ins: MatMul, a: Access, w: Array | None, tail: Tail) -> Emit | None:
    k, n = ins.b.shape[-2:]
    signed = w is not None and trusted("MatMulInteger signed")
    if not (signed and ins.b.dtype is DType.INT8) and not trusted("MatMulInteger"):
        return None
    constants = None if w is None else weight_halves(w, ins.b.dtype)
    rows = []
    for i, left in enumerate(halves_of(ins.a.dtype)):
        for j, right in enumerate(halves_of(ins.b.dtype)):
            part = None if constants is None else constants[j][0]
            rows.append((left.power + right.power, _column_sums(part, n, k, right.peak) * left.peak, i, j))
    rows.sort(key=lambda r: -r[0])
    way = tail.way([(size, power) for power, size, _, _ in rows])
    if way is None:
        return None

    def emit(g: Graph) -> None:
        lefts = bytes_of(g, g.read(a["a"]), ins.a.dtype)
        if constants is None:
            halves = zip(bytes_of(g, g.read(a["b"]), ins.b.dtype), halves_of(ins.b.dtype))
            rights = [(name, g.constant(half.zero, np.uint8)) for name, half in halves]
        else:
            rights = [stored_weights(g, part, half, signed) for part, half in constants]
        names = [integer_product(g, lefts[i], halves_of(ins.a.dtype)[i], *rights[j]) for _, _, i, j in rows]
        g.write(a["y"], tail.wide(g, way, names, [power for power, *_ in rows]))

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
