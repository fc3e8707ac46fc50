"""Conv, ConvTranspose and MatMul against onnxruntime (sums) and Python integers (requantization)."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

from bpuc.base.dtypes import DType
from bpuc.isa import Conv, ConvTranspose, MatMul


def float_op(op, feeds, **attributes):
    """One ONNX node in float32: exact on small integers."""
    node = helper.make_node(op, list(feeds), ["y"], **attributes)
    ins = [helper.make_tensor_value_info(k, onnx.TensorProto.FLOAT, v.shape) for k, v in feeds.items()]
    graph = helper.make_graph([node], "g", ins, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {k: v.astype(np.float32) for k, v in feeds.items()})[0].astype(np.int64)


CONVS = [
    # x, w, strides, pads, dilations, group
    ((1, 3, 7, 6), (4, 3, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    ((2, 4, 7, 6), (6, 2, 3, 2), (2, 1), (0, 1, 2, 0), (1, 2), 2),
    ((1, 5, 6, 6), (5, 1, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 5),
    ((1, 2, 9), (3, 2, 4), (3,), (2, 1), (1,), 1),
    ((1, 2, 4, 5, 4), (2, 2, 2, 3, 2), (1, 2, 1), (1, 0, 1, 0, 1, 1), (2, 1, 1), 1),
    ((1, 3, 4, 4), (2, 3, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
]


@pytest.mark.parametrize(("xs", "ws", "strides", "pads", "dilations", "group"), CONVS)
@pytest.mark.parametrize("types", [(np.int8, np.int8), (np.int16, np.int8), (np.int16, np.int16)])
def test_conv(bench, rng, requant, xs, ws, strides, pads, dilations, group, types):
    x = rng.integers(-128, 128, xs).astype(types[0])
    w = rng.integers(-127, 128, ws).astype(types[1])
    channels = ws[0]
    bias = rng.integers(-5000, 5000, channels).astype(np.int64 if np.int16 in types else np.int32)
    mult = rng.integers(1 << 21, 1 << 22, channels).astype(np.int32)
    shift = rng.integers(30, 34, channels).astype(np.int32)
    acc = float_op("Conv", {"x": x, "w": w}, strides=strides, pads=pads, dilations=dilations, group=group)
    column = (-1,) + (1,) * (len(xs) - 2)
    acc = acc + bias.reshape(column)
    res = rng.integers(-128, 128, acc.shape).astype(np.int8)
    res_mult = rng.integers(-(1 << 33), 1 << 33, channels)
    common = {
        "op": 0, "x": bench.put(x), "w": bench.const(w), "bias": bench.const(bias), "strides": strides,
        "pads": pads, "dilations": dilations, "group": group,
    }  # fmt: skip

    plain = Conv(**common, y=bench.out(acc.shape, DType.INT32), lo=-(2**31), hi=2**31 - 1)
    assert np.array_equal(bench.run(plain), acc)
    clamped = Conv(**common, y=bench.out(acc.shape, DType.INT32), lo=-4000, hi=3000)
    assert np.array_equal(bench.run(clamped), np.clip(acc, -4000, 3000))

    scale = {"mult": bench.const(mult), "shift": bench.const(shift)}
    product = acc.astype(object) * mult.astype(object).reshape(column)
    relu = Conv(**common, **scale, y=bench.out(acc.shape), lo=0, hi=100)
    assert np.array_equal(bench.run(relu), requant(product, shift.reshape(column), 0, 100))

    both = Conv(
        **common, **scale, res=bench.put(res), res_mult=bench.const(res_mult), y=bench.out(acc.shape), lo=-128, hi=127
    )
    product = product + res.astype(object) * res_mult.astype(object).reshape(column)
    assert np.array_equal(bench.run(both), requant(product, shift.reshape(column), -128, 127))


def test_conv_sums_beyond_float32_are_exact(bench):
    # 300 * 32767**2 = 3.2e11 plus one: float32 would lose the one
    x = np.full((1, 301, 1, 1), 32767, np.int16)
    w = np.full((1, 301, 1, 1), 32767, np.int16)
    w[0, 300] = 1
    x[0, 300] = 1
    ins = Conv(
        op=0, x=bench.put(x), w=bench.const(w), bias=bench.const([-(300 * 32767**2)], np.int64),
        y=bench.out((1, 1, 1, 1), DType.INT32), strides=(1, 1), pads=(0,) * 4, dilations=(1, 1), group=1, lo=-99, hi=99,
    )  # fmt: skip
    assert bench.run(ins).item() == 1


@pytest.mark.parametrize(("bias", "fits"), [(2**31 - 1 - 127 * 127, True), (2**31 - 127 * 127, False)])
def test_an_int8_accumulator_must_stay_int32(bench, bias, fits):
    ins = Conv(
        op=0, x=bench.put([[[[127]]]], np.int8), w=bench.const([[[[127]]]], np.int8),
        bias=bench.const([bias], np.int32), y=bench.out((1, 1, 1, 1), DType.INT32), strides=(1, 1), pads=(0,) * 4,
        dilations=(1, 1), group=1, lo=-(2**31), hi=2**31 - 1,
    )  # fmt: skip
    if fits:
        assert bench.run(ins).item() == 2**31 - 1
    else:
        with pytest.raises(ValueError, match="does not fit int32"):
            bench.run(ins)


def test_a_residual_product_must_stay_int64(bench):
    ins = Conv(
        op=0, x=bench.put([[[[1]]]], np.int8), w=bench.const([[[[1]]]], np.int8), mult=bench.const([1], np.int32),
        shift=bench.const([1], np.int32), res=bench.put([[[[-128]]]], np.int8), res_mult=bench.const([1 << 56]),
        y=bench.out((1, 1, 1, 1)), strides=(1, 1), pads=(0,) * 4, dilations=(1, 1), group=1, lo=-128, hi=127,
    )  # fmt: skip
    with pytest.raises(ValueError, match="leaves int64"):
        bench.run(ins)


TRANSPOSED = [
    # x, w, strides, pads, dilations, group, output_padding
    ((1, 3, 4, 5), (3, 2, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 1, (0, 0)),
    ((2, 4, 3, 3), (4, 3, 2, 2), (2, 2), (0, 0, 0, 0), (1, 1), 2, (0, 0)),
    ((1, 4, 3, 4), (4, 1, 4, 3), (1, 3), (0, 1, 2, 0), (2, 1), 4, (0, 0)),
    ((1, 2, 5), (2, 3, 3), (2,), (0, 1), (1,), 1, (0,)),
    ((1, 2, 3, 3), (2, 2, 2, 2), (2, 2), (0, 0, 0, 0), (1, 1), 1, (1, 1)),
]


@pytest.mark.parametrize(("xs", "ws", "strides", "pads", "dilations", "group", "extra"), TRANSPOSED)
def test_conv_transpose(bench, rng, requant, xs, ws, strides, pads, dilations, group, extra):
    x = rng.integers(-128, 128, xs).astype(np.int8)
    w = rng.integers(-127, 128, ws).astype(np.int8)
    channels = ws[1] * group
    bias = rng.integers(-500, 500, channels).astype(np.int32)
    attributes = {"strides": strides, "pads": pads, "dilations": dilations, "group": group}
    acc = float_op("ConvTranspose", {"x": x, "w": w}, **attributes, output_padding=extra)
    column = (-1,) + (1,) * (len(xs) - 2)
    acc = acc + bias.reshape(column)
    common = {"op": 0, "x": bench.put(x), "w": bench.const(w), "bias": bench.const(bias), **attributes}
    plain = ConvTranspose(**common, y=bench.out(acc.shape, DType.INT32), lo=-(2**31), hi=2**31 - 1)
    assert np.array_equal(bench.run(plain), acc)
    mult = rng.integers(1 << 21, 1 << 22, channels).astype(np.int32)
    shift = np.full(channels, 31, np.int32)
    scaled = ConvTranspose(
        **common, mult=bench.const(mult), shift=bench.const(shift), y=bench.out(acc.shape), lo=-128, hi=127
    )
    assert np.array_equal(bench.run(scaled), requant(acc * mult.astype(object).reshape(column), 31, -128, 127))


def test_conv_transpose_beyond_the_cut_holds_the_bias(bench):
    # full result 1*3 .. 2*5 of a 1-D case by hand: x = [1, 2], w = [3, 4, 5], stride 2 -> [3, 4, 5+6, 8, 10]
    ins = ConvTranspose(
        op=0, x=bench.put([[[1, 2]]], np.int8), w=bench.const([[[3, 4, 5]]], np.int8), bias=bench.const([7], np.int32),
        y=bench.out((1, 1, 6), DType.INT32), strides=(2,), pads=(1, 1), dilations=(1,), group=1, lo=-99, hi=99,
    )  # fmt: skip
    assert bench.run(ins).ravel().tolist() == [4 + 7, 11 + 7, 8 + 7, 7, 7, 7]


@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [((3, 5), (5, 4)), ((2, 3, 5), (5, 4)), ((2, 1, 3, 5), (4, 5, 2)), ((1, 5), (5, 1))],
)
@pytest.mark.parametrize("types", [(np.int8, np.int8), (np.int16, np.int8), (np.int16, np.int16)])
def test_matmul(bench, rng, requant, a_shape, b_shape, types):
    a = rng.integers(np.iinfo(types[0]).min, np.iinfo(types[0]).max + 1, a_shape).astype(types[0])
    b = rng.integers(np.iinfo(types[1]).min, np.iinfo(types[1]).max + 1, b_shape).astype(types[1])
    n = b_shape[-1]
    bias = rng.integers(-5000, 5000, n).astype(np.int64 if np.int16 in types else np.int32)
    acc = a.astype(object) @ b.astype(object) + bias.astype(object)
    mult, shift = 3000000, 36
    res = rng.integers(-128, 128, acc.shape).astype(np.int8)
    ins = MatMul(
        op=0, a=bench.put(a), b=bench.put(b), bias=bench.const(bias), mult=bench.const([mult], np.int32),
        shift=bench.const([shift], np.int32), res=bench.put(res), res_mult=bench.const(np.arange(n) << 34),
        y=bench.out(acc.shape, DType.INT16), lo=-32768, hi=32767,
    )  # fmt: skip
    product = acc * mult + res.astype(object) * (np.arange(n).astype(object) << 34)
    assert np.array_equal(bench.run(ins), requant(product, shift, -32768, 32767))


def test_matmul_of_a_transposed_view(bench):
    from dataclasses import replace

    b = bench.put([[1, 2, 3], [4, 5, 6]], np.int8)  # seen as [3, 2]
    view = replace(b, shape=(3, 2), strides=(1, 3))
    ins = MatMul(op=0, a=bench.put([[1, 10, 100]], np.int8), b=view, y=bench.out((1, 2), DType.INT32), lo=-999, hi=999)
    assert bench.run(ins).tolist() == [[321, 654]]
