"""Instructions but convolutions and products, in the forms that take different ways through the engine."""

from __future__ import annotations

import numpy as np
import pytest

from bpuc.base.dtypes import DType
from bpuc.isa import (
    ArgReduce,
    Eltwise,
    EltwiseKind,
    Fill,
    Gather,
    Image,
    Norm,
    Reduce,
    ReduceKind,
    Rescale,
    ResizeLinear,
    Softmax,
)
from tests.unit.sim_fast.fast_build import Builder, part, turned
from tests.unit.sim_fast.fast_check import same

I8, I16, I32 = DType.INT8, DType.INT16, DType.INT32


@pytest.mark.parametrize("xtype", [I8, I16])
@pytest.mark.parametrize("ytype", [I8, I16])
@pytest.mark.parametrize(("shape", "axis"), [((1, 5, 20, 20), -1), ((2, 5, 20, 20), 1), ((3, 7), 1), ((4, 3, 2), 0)])
def test_lut(xtype: DType, ytype: DType, shape: tuple[int, ...], axis: int) -> None:
    b = Builder(17)
    b.output("y", b.lut(b.input("x", shape, xtype), axis, ytype))
    same(b.program())


@pytest.mark.parametrize("xtype", [I8, I16])
@pytest.mark.parametrize("ytype", [I8, I16])
@pytest.mark.parametrize("real", [0.3, 1.7, -0.9])
def test_rescale(xtype: DType, ytype: DType, real: float) -> None:
    from bpuc.base.rounding import quantize_multiplier

    b = Builder(19)
    x = b.input("x", (1, 5, 30), xtype)
    mult, shift = quantize_multiplier(real * ytype.qmax / xtype.qmax)
    y = b.alloc(x.shape, ytype)
    b.output("y", b.emit(Rescale(op=0, x=x, y=y, mult=mult, shift=shift, lo=ytype.qmin, hi=ytype.qmax - 2)))
    same(b.program())


BROADCASTS = [
    ((1, 6, 20, 20), (1, 6, 20, 20)),
    ((1, 6, 20, 20), (1, 6, 1, 1)),
    ((1, 6, 1, 1), (1, 6, 20, 20)),
    ((1, 6, 20, 20), (1,)),
    ((1, 6, 20, 20), (20,)),
    ((2, 6, 20, 20), (1, 6, 1, 1)),
    ((1, 1, 20, 20), (1, 6, 1, 1)),
]


@pytest.mark.parametrize("kind", list(EltwiseKind))
@pytest.mark.parametrize(("left", "right"), BROADCASTS, ids=str)
@pytest.mark.parametrize("constant", [False, True])
def test_eltwise(kind: EltwiseKind, left: tuple[int, ...], right: tuple[int, ...], constant: bool) -> None:
    for types in ((I8, I8, I8), (I16, I16, I16), (I8, I16, I8), (I8, I8, I16), (I16, I8, I16)):
        b = Builder(23)
        x = b.input("x", left, types[0])
        other = b.const(b.ints(right, types[1])) if constant else b.input("z", right, types[1])
        b.output("y", b.eltwise(kind, x, other, types[2], lo=0 if constant else None))
        same(b.program(), samples=1, threads=(1,))


def test_subtraction() -> None:
    b = Builder(24)
    x, z = b.input("x", (1, 6, 20, 20)), b.input("z", (1, 6, 20, 20))
    b.output("y", b.eltwise(EltwiseKind.ADD, x, z, reals=(0.9, -0.8)))
    same(b.program())


def test_wide_eltwise_multipliers() -> None:
    """Multipliers that leave int32: the sum needs 64 bits."""
    b = Builder(25)
    x, z = b.input("x", (1, 6, 9, 9), I16), b.input("z", (1, 6, 9, 9))
    y = b.alloc(x.shape)
    b.output(
        "y",
        b.emit(
            Eltwise(
                op=0,
                a=x,
                b=z,
                y=y,
                kind=EltwiseKind.ADD,
                mult_a=4_000_001,
                mult_b=-(2**35) + 1,
                shift=41,
                lo=-128,
                hi=127,
            )
        ),
    )
    same(b.program())


POOLS = {
    "2x2": ((2, 2), (2, 2), (0, 0, 0, 0), (5, 6), None),
    "3x3 padded": ((3, 3), (2, 2), (1, 1, 1, 1), (5, 6), None),
    "ceil": ((3, 3), (2, 2), (0, 0, 0, 0), (5, 6), None),
    "same": ((5, 5), (1, 1), (2, 2, 2, 2), (10, 12), None),
    "lopsided": ((2, 3), (1, 2), (1, 0, 0, 2), (10, 6), None),
    "dilated": ((2, 2), (1, 1), (0, 0, 0, 0), (7, 10), (3, 2)),
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("dtype", [I8, I16])
def test_max_pool(name: str, dtype: DType) -> None:
    kernel, strides, pads, out, dilations = POOLS[name]
    b = Builder(29)
    b.output("y", b.max_pool(b.input("x", (2, 5, 10, 12), dtype), kernel, strides, pads, out, dilations))
    same(b.program())


@pytest.mark.parametrize("name", [n for n in POOLS if n != "dilated"])
@pytest.mark.parametrize("include_pad", [False, True])
@pytest.mark.parametrize("dtype", [I8, I16])
def test_average_pool(name: str, include_pad: bool, dtype: DType) -> None:
    kernel, strides, pads, out, _ = POOLS[name]
    b = Builder(31)
    b.output("y", b.average_pool(b.input("x", (2, 5, 10, 12), dtype), kernel, strides, pads, out, include_pad))
    same(b.program())


def test_pools_over_one_and_three_axes() -> None:
    b = Builder(33)
    x, z = b.input("x", (1, 4, 15)), b.input("z", (1, 2, 6, 6, 6))
    b.output("a", b.max_pool(x, (3,), (2,), (1, 1), (8,)))
    b.output("b", b.max_pool(z, (2, 2, 2), (2, 2, 2), (0,) * 6, (3, 3, 3)))
    b.output("c", b.average_pool(z, (3, 3, 3), (1, 1, 1), (1,) * 6, (6, 6, 6)))
    same(b.program())


@pytest.mark.parametrize("kind", list(ReduceKind))
@pytest.mark.parametrize("axes", [(2, 3), (1,), (0, 1, 2, 3), (3,)], ids=str)
@pytest.mark.parametrize("dtype", [I8, I16])
def test_reduce(kind: ReduceKind, axes: tuple[int, ...], dtype: DType) -> None:
    b = Builder(37)
    x = b.input("x", (2, 5, 7, 8), dtype)
    count = int(np.prod([x.shape[a] for a in axes])) if kind is ReduceKind.SUM else 1
    y = b.alloc(tuple(1 if i in axes else d for i, d in enumerate(x.shape)), dtype)
    mult, shift = round(1.9 * 2**20 / count), 20
    b.output(
        "y", b.emit(Reduce(op=0, x=x, y=y, kind=kind, axes=axes, mult=mult, shift=shift, lo=dtype.qmin, hi=dtype.qmax))
    )
    same(b.program())


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("axis", [1, 3])
@pytest.mark.parametrize("ytype", [I32, DType.INT64])
def test_arg_reduce(largest: int, last: int, axis: int, ytype: DType) -> None:
    b = Builder(41)
    x = b.input("x", (2, 9, 7, 300))
    y = b.alloc(tuple(1 if i == axis else d for i, d in enumerate(x.shape)), ytype)
    b.output("y", b.emit(ArgReduce(op=0, x=x, y=y, axis=axis, largest=largest, last=last)))
    same(b.program())


@pytest.mark.parametrize("xtype", [I8, I16])
@pytest.mark.parametrize("ytype", [I8, I16])
@pytest.mark.parametrize("axis", [1, 2])
def test_softmax(xtype: DType, ytype: DType, axis: int) -> None:
    b = Builder(43)
    x = b.input("x", (2, 30, 17), xtype)
    step = 1 if xtype is I8 else 64
    scale = 4.0 / xtype.qmax
    n = 256 if xtype is I8 else 1025
    table = b.const(np.rint(2.0**15 * np.exp(-np.arange(n) * step * scale)), I32)
    y = b.alloc(x.shape, ytype)
    b.output(
        "y",
        b.emit(Softmax(op=0, x=x, table=table, y=y, axis=axis, mult=2**16 * ytype.qmax, lo=ytype.qmin, hi=ytype.qmax)),
    )
    same(b.program())


@pytest.mark.parametrize("dtype", [I8, I16])
@pytest.mark.parametrize(
    ("axes", "gain"), [((3,), (1, 1, 1, 24)), ((2, 3), (1, 6, 1, 1)), ((1,), (1, 6, 1, 1))], ids=str
)
def test_norm(dtype: DType, axes: tuple[int, ...], gain: tuple[int, ...]) -> None:
    b = Builder(47)
    x = b.input("x", (2, 6, 5, 24), dtype)
    n = int(np.prod([x.shape[a] for a in axes]))
    pre = max(0, (n * 2 * dtype.qmax).bit_length() - 20)
    fields = {
        "gain": b.const(b.rng.integers(-(2**20), 2**20, gain), I32),
        "bias": b.const(b.rng.integers(-(2**36), 2**36, gain), DType.INT64),
    }
    y = b.alloc(x.shape, dtype)
    b.output(
        "y",
        b.emit(
            Norm(
                op=0,
                x=x,
                y=y,
                axes=axes,
                eps=0.5,
                pre_shift=pre,
                shift=26 if dtype is I8 else 18,
                lo=dtype.qmin,
                hi=dtype.qmax,
                **fields,
            )
        ),
    )
    same(b.program())


@pytest.mark.parametrize("dtype", [I8, I16])
def test_resize_linear(dtype: DType) -> None:
    b = Builder(53)
    x = b.input("x", (2, 3, 5, 7), dtype)
    y = b.alloc((2, 3, 11, 14), dtype)

    def axis(n: int, m: int) -> tuple:
        at = np.clip((np.arange(m) + 0.5) * n / m - 0.5, 0, n - 1)
        low = np.floor(at).astype(int)
        return b.const(np.stack([low, np.minimum(low + 1, n - 1)]), I32), b.const(np.rint((at - low) * 256), I32)

    (ih, wh), (iw, ww) = axis(5, 11), axis(7, 14)
    b.output(
        "y",
        b.emit(
            ResizeLinear(
                op=0,
                x=x,
                y=y,
                index_h=ih,
                weight_h=wh,
                index_w=iw,
                weight_w=ww,
                mult=70,
                shift=22,
                lo=dtype.qmin,
                hi=dtype.qmax,
            )
        ),
    )
    same(b.program())


@pytest.mark.parametrize("dtype", [I8, I16])
@pytest.mark.parametrize("scale", [0.0078125, 0.0123456789, 1 / 3, 1e-4])
def test_quantize_and_back(dtype: DType, scale: float) -> None:
    b = Builder(59)
    x = b.input("x", (1, 3, 40, 50), DType.FLOAT32)
    q = b.quantize(x, scale if dtype is I8 else scale / 256, dtype)
    b.output("q", q)
    b.output("y", b.dequantize(q, b.rng.uniform(0.001, 2, 3), axis=1))
    b.output("z", b.dequantize(q, scale))
    same(b.program())


def test_quantize_at_ties_and_beyond_the_range() -> None:
    from bpuc.sim.fast import FastEngine

    b = Builder(61)
    q = b.quantize(b.input("x", (10,), DType.FLOAT32), 0.5)
    b.output("q", q)
    x = np.array([0.25, -0.25, 0.75, -0.75, 1e30, -1e30, np.nan, np.inf, -np.inf, 63.75], np.float32)
    got = FastEngine(b.program()).run({"x": x})["q"]
    np.testing.assert_array_equal(got, [1, 0, 2, -1, 127, -128, 0, 127, -128, 127])


def test_moves() -> None:
    b = Builder(67)
    x = b.input("x", (1, 6, 8, 10))
    b.output("transposed", b.move(turned(x, (0, 2, 3, 1)), b.alloc((1, 8, 10, 6))))
    b.output("inner concat", b.concat([x, part(x, 3, 2, 4), part(x, 3, 0, 1)], 3))
    b.output("outer concat", b.concat([x, part(x, 1, 2, 3)], 1))
    up = b.alloc((1, 6, 16, 20))
    view = type(up)(up.space, up.dtype, up.address, (1, 6, 8, 2, 10, 2), (up.strides[0], up.strides[1], 40, 20, 2, 1))
    spread = type(x)(x.space, x.dtype, x.address, view.shape, (x.strides[0], x.strides[1], x.strides[2], 0, 1, 0))
    b.move(spread, view)
    b.output("nearest", up)
    backwards = type(x)(x.space, x.dtype, x.address + 9, x.shape, (*x.strides[:3], -1))
    b.output("flipped", b.move(backwards, b.alloc(x.shape)))
    same(b.program())


def test_move_onto_itself() -> None:
    """Source and target overlap: all is read before anything is written."""
    b = Builder(71)
    x = b.input("x", (8, 8))
    b.move(turned(x, (1, 0)), x)
    b.move(part(x, 0, 0, 7), part(x, 0, 1, 7))
    b.output("y", x)
    same(b.program())


def test_fill_and_gather() -> None:
    b = Builder(73)
    y = b.alloc((2, 4, 6), I16)
    b.emit(Fill(op=0, y=y, value=-300))
    b.emit(Fill(op=0, y=part(y, 2, 1, 3), value=17))
    b.output("y", y)
    x = b.input("x", (3, 5, 4))
    b.output("g", b.emit(Gather(op=0, x=x, indices=b.const([4, 0, 0, 2], I32), y=b.alloc((3, 4, 4)), axis=1)))
    same(b.program())


@pytest.mark.parametrize("nv12", [0, 1])
@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 0, 2, 3)])
def test_images(nv12: int, pads: tuple[int, int, int, int]) -> None:
    b = Builder()
    x = b.input("x", (2, 9, 8) if nv12 else (2, 6, 8, 3), DType.UINT8)
    y = b.alloc((2, 3, 6 + pads[0] + pads[2], 8 + pads[1] + pads[3]))
    view = x if nv12 else turned(x, (0, 3, 1, 2))
    b.emit(Image(op=0, x=view, y=y, nv12=nv12, pyramid=0, pads=pads, border=(-128, 0, 5)))
    b.output("y", y)
    same(b.program())
