"""Convolutions and matrix products, in the forms that take different ways through the engine, against the reference."""

from __future__ import annotations

import pytest

from bpuc.base.dtypes import DType
from tests.unit.sim_fast.fast_build import Builder, turned
from tests.unit.sim_fast.fast_check import same

I8, I16, I32 = DType.INT8, DType.INT16, DType.INT32


CONVS = {
    "3x3": {"shape": (1, 8, 9, 10), "channels": 12, "kernel": (3, 3)},
    "3x3 relu": {"shape": (1, 8, 9, 10), "channels": 12, "kernel": (3, 3), "lo": 0},
    "clamp": {"shape": (1, 8, 9, 10), "channels": 12, "kernel": (3, 3), "lo": -5, "hi": 99},
    "1x1": {"shape": (1, 33, 7, 5), "channels": 17, "kernel": (1, 1)},
    "stride": {"shape": (1, 3, 17, 17), "channels": 16, "kernel": (3, 3), "strides": (2, 2), "pads": (0, 0, 1, 1)},
    "even": {"shape": (1, 5, 12, 11), "channels": 4, "kernel": (2, 4), "pads": (1, 0, 0, 3)},
    "dilated": {"shape": (1, 6, 13, 13), "channels": 6, "kernel": (3, 3), "dilations": (2, 3), "pads": (2, 3, 2, 3)},
    "depthwise": {"shape": (1, 20, 9, 9), "channels": 20, "kernel": (3, 3), "group": 20},
    "depthwise 5x5": {"shape": (1, 16, 11, 11), "channels": 16, "kernel": (5, 5), "group": 16, "strides": (2, 2)},
    "multiplier 2": {"shape": (1, 6, 8, 8), "channels": 12, "kernel": (3, 3), "group": 6},
    "groups": {"shape": (1, 12, 8, 8), "channels": 18, "kernel": (3, 3), "group": 3},
    "batch": {"shape": (3, 7, 6, 6), "channels": 9, "kernel": (3, 3)},
    "1d": {"shape": (1, 6, 40), "channels": 10, "kernel": (5,)},
    "3d": {"shape": (1, 3, 5, 6, 7), "channels": 4, "kernel": (3, 3, 3)},
    "no bias": {"shape": (1, 8, 6, 6), "channels": 8, "kernel": (3, 3), "bias": False},
    "int32 out": {
        "shape": (1, 8, 6, 6),
        "channels": 8,
        "kernel": (3, 3),
        "quantized": False,
        "lo": -(2**31),
        "hi": 2**31 - 1,
    },
    "int32 relu": {
        "shape": (1, 8, 6, 6),
        "channels": 8,
        "kernel": (3, 3),
        "quantized": False,
        "lo": 0,
        "hi": 2**31 - 1,
    },
    "int16 out": {"shape": (1, 8, 6, 6), "channels": 8, "kernel": (3, 3), "ytype": I16, "lo": -32768, "hi": 32767},
    "int16 in": {
        "shape": (1, 8, 6, 6),
        "xtype": I16,
        "channels": 8,
        "kernel": (3, 3),
        "ytype": I16,
        "lo": -32768,
        "hi": 32767,
    },
    "int16 to int8": {"shape": (1, 8, 6, 6), "xtype": I16, "channels": 8, "kernel": (3, 3), "lo": 0},
    "int16 depthwise": {
        "shape": (1, 8, 6, 6),
        "xtype": I16,
        "channels": 8,
        "kernel": (3, 3),
        "group": 8,
        "ytype": I16,
        "lo": -32768,
        "hi": 32767,
    },
    "int16 weights": {"shape": (1, 8, 6, 6), "channels": 8, "kernel": (3, 3), "wtype": I16},
    "int16 both": {
        "shape": (1, 8, 6, 6),
        "xtype": I16,
        "channels": 8,
        "kernel": (3, 3),
        "wtype": I16,
        "ytype": I16,
        "lo": -32768,
        "hi": 32767,
    },
    "large": {"shape": (1, 256, 8, 8), "channels": 32, "kernel": (3, 3)},
    "steep": {"shape": (1, 4, 8, 8), "channels": 8, "kernel": (1, 1), "gain": 0.4},
    "flat": {"shape": (1, 64, 8, 8), "channels": 8, "kernel": (3, 3), "gain": 1e-6},
}


@pytest.mark.parametrize("name", CONVS)
def test_conv(name: str) -> None:
    fields = dict(CONVS[name])
    b = Builder(len(name))
    x = b.input("x", fields.pop("shape"), fields.pop("xtype", I8))
    b.output("y", b.conv(x, **fields))
    same(b.program())


@pytest.mark.parametrize("lo", [-128, 0])
@pytest.mark.parametrize("xtype", [I8, I16])
@pytest.mark.parametrize("rtype", [I8, I16])
@pytest.mark.parametrize(("kernel", "group"), [((3, 3), 1), ((1, 1), 1), ((3, 3), 8)])
def test_conv_residual(lo: int, xtype: DType, rtype: DType, kernel: tuple[int, int], group: int) -> None:
    b = Builder(3)
    x, r = b.input("x", (1, 8, 7, 9), xtype), b.input("r", (1, 8, 7, 9), rtype)
    b.output("y", b.conv(x, 8, kernel, group=group, res=r, lo=lo))
    same(b.program())


def test_conv_residual_without_multiplier_for_it_is_ignored_like_in_the_reference() -> None:
    b = Builder(3)
    x, r = b.input("x", (1, 8, 7, 9)), b.input("r", (1, 8, 7, 9))
    y = b.conv(x, 8, (3, 3), res=r)
    import dataclasses

    b.instructions[-1] = dataclasses.replace(b.instructions[-1], res_mult=None)
    b.output("y", y)
    same(b.program())


TRANSPOSED = {
    "2x2 stride 2": {"kernel": (2, 2), "strides": (2, 2), "pads": (0, 0, 0, 0), "out": (12, 14)},
    "3x3 stride 2": {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1), "out": (11, 13)},
    "output padding": {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1), "out": (12, 14)},
    "far output padding": {"kernel": (1, 1), "strides": (3, 3), "pads": (0, 0, 0, 0), "out": (18, 21)},
    "4x4 stride 2": {"kernel": (4, 4), "strides": (2, 2), "pads": (1, 1, 1, 1), "out": (12, 14)},
    "stride 1": {"kernel": (3, 3), "strides": (1, 1), "pads": (1, 1, 1, 1), "out": (6, 7)},
    "stride 3 of 2": {"kernel": (2, 5), "strides": (3, 2), "pads": (0, 1, 0, 2), "out": (17, 14)},
    "dilated": {"kernel": (3, 3), "strides": (2, 1), "pads": (0, 0, 0, 0), "out": (15, 13), "dilations": (2, 3)},
    "groups": {"kernel": (4, 4), "strides": (2, 2), "pads": (1, 1, 1, 1), "out": (12, 14), "group": 2},
    "depthwise": {"kernel": (4, 4), "strides": (2, 2), "pads": (1, 1, 1, 1), "out": (12, 14), "group": 4},
    "relu": {"kernel": (2, 2), "strides": (2, 2), "pads": (0, 0, 0, 0), "out": (12, 14), "lo": 0},
    "residual": {"kernel": (2, 2), "strides": (2, 2), "pads": (0, 0, 0, 0), "out": (12, 14), "res": True},
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_conv_transpose(name: str) -> None:
    b = Builder(5)
    x = b.input("x", (1, 4, 6, 7))
    b.output("y", b.conv_transpose(x, 8, **TRANSPOSED[name]))
    same(b.program())


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"bias": False},
        {"one": True},
        {"lo": 0},
        {"quantized": False},
        {"ytype": I16},
        {"ytype": I16, "one": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("atype", [I8, I16])
@pytest.mark.parametrize("shape", [(1, 40), (9, 40), (2, 3, 5, 40)], ids=str)
def test_linear(fields: dict, atype: DType, shape: tuple[int, ...]) -> None:
    b = Builder(7)
    a = b.input("a", shape, atype)
    b.output("y", b.matmul(a, 21, **fields))
    same(b.program())


@pytest.mark.parametrize("one", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("atype", "btype"), [(I8, I8), (I16, I8), (I8, I16), (I16, I16)])
def test_matmul_of_activations(one: bool, bias: bool, transposed: bool, atype: DType, btype: DType) -> None:
    b = Builder(11)
    x = b.input("x", (2, 3, 6, 16), atype)
    z = turned(b.input("z", (1, 3, 10, 16), btype), (0, 1, 3, 2)) if transposed else b.input("z", (1, 3, 16, 10), btype)
    b.output("y", b.matmul(x, z, bias=bias, one=one))
    same(b.program())


@pytest.mark.parametrize("rows", [1, 6])
def test_matmul_residual(rows: int) -> None:
    b = Builder(12)
    x, r = b.input("x", (rows, 16)), b.input("r", (rows, 8))
    b.output("y", b.matmul(x, 8, res=r))
    same(b.program())


def test_linear_with_transposed_weights() -> None:
    b = Builder(13)
    x = b.input("x", (4, 16))
    w = turned(b.const(b.ints((8, 16), low=-127)), (1, 0))
    b.output("y", b.matmul(x, w))
    same(b.program())


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("types", [(I16, I8), (I8, I16), (I16, I16)])
def test_sums_beyond_what_float64_holds(types: tuple[DType, DType], residual: bool) -> None:
    """Products of more than 53 bits in total: only sums that end outside of the clamp may be rounded."""
    from bpuc.sim.fast.plans import plan
    from bpuc.sim.fast.storage import resolve

    b = Builder(83)
    x = b.input("x", (1, 512, 3, 3), types[0])
    res = b.input("r", (1, 16, 3, 3), I16) if residual else None
    gain = b._gain(x, types[1], 512 * 9, I16) * 4  # many results clamp
    b.output("y", b.conv(x, 16, (3, 3), wtype=types[1], ytype=I16, res=res, gain=gain, lo=-32768, hi=32767))
    program = b.program()
    same(program)
    if types == (I16, I8):
        assert plan(resolve(program).accesses[0]) is not None
