"""Pools, reductions, data movement and the borders."""

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

from bpuc.base.dtypes import DType
from bpuc.isa import ArgReduce, Dequantize, Fill, Gather, Move, Pool, PoolKind, Quantize, Reduce, ReduceKind


def max_pool(x, **attributes):
    node = helper.make_node("MaxPool", ["x"], ["y"], **attributes)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [helper.make_empty_tensor_value_info("y")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x.astype(np.float32)})[0].astype(np.int64)


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
@pytest.mark.parametrize(
    ("shape", "kernel", "strides", "pads", "dilations", "ceil"),
    [
        ((1, 2, 7, 6), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 0),
        ((2, 1, 7, 6), (3, 2), (2, 3), (0, 1, 1, 0), (1, 1), 1),
        ((1, 2, 9), (3,), (1,), (2, 2), (2,), 0),
        ((1, 1, 5, 4, 6), (2, 2, 3), (1, 2, 2), (1, 0, 1, 0, 0, 1), (1, 1, 1), 0),
        ((1, 3, 8, 8), (5, 5), (1, 1), (2, 2, 2, 2), (1, 1), 0),
    ],
)
def test_max_pool_takes_nothing_from_the_border(bench, rng, shape, kernel, strides, pads, dilations, ceil, dtype):
    # negative values only: a border of zeros would win
    x = rng.integers(np.iinfo(dtype).min, 0, shape).astype(dtype)
    want = max_pool(x, kernel_shape=kernel, strides=strides, pads=pads, dilations=dilations, ceil_mode=ceil)
    ins = Pool(
        op=0, x=bench.put(x), y=bench.out(want.shape, DType.of(x)), kind=PoolKind.MAX, kernel=kernel, strides=strides,
        pads=pads, dilations=dilations, shift=0, lo=0, hi=0,
    )  # fmt: skip
    assert np.array_equal(bench.run(ins), want)


@pytest.mark.parametrize("include_border", [False, True])
def test_average_pool(bench, rng, requant, include_border):
    x = rng.integers(-128, 128, (1, 2, 5, 4)).astype(np.int8)
    kernel, strides, begin, out, shift = (3, 2), (2, 2), (1, 1), (3, 3), 24
    taps = kernel[0] * kernel[1]
    mult = [0] + [round(2**shift / (taps if include_border else k)) for k in range(1, taps + 1)]
    total, count = np.zeros((1, 2, *out), object), np.zeros((1, 2, *out), int)
    for c in range(2):
        for i in range(out[0]):
            for j in range(out[1]):
                for u in range(kernel[0]):
                    for v in range(kernel[1]):
                        a, b = i * strides[0] + u - begin[0], j * strides[1] + v - begin[1]
                        if 0 <= a < 5 and 0 <= b < 4:
                            total[0, c, i, j] += int(x[0, c, a, b])
                            count[0, c, i, j] += 1
    assert count.min() < taps  # some windows do reach beyond
    want = requant(total * np.array(mult, object)[count], shift, -128, 127)
    ins = Pool(
        op=0, x=bench.put(x), mult=bench.const(mult, np.int32), y=bench.out((1, 2, *out)), kind=PoolKind.AVERAGE,
        kernel=kernel, strides=strides, pads=(*begin, 1, 1), dilations=(1, 1), shift=shift, lo=-128, hi=127,
    )  # fmt: skip
    assert np.array_equal(bench.run(ins), want)


@pytest.mark.parametrize(("kind", "python"), [(ReduceKind.SUM, sum), (ReduceKind.MAX, max), (ReduceKind.MIN, min)])
def test_reduce(bench, rng, requant, kind, python):
    x = rng.integers(-128, 128, (2, 3, 4)).astype(np.int8)
    ins = Reduce(
        op=0, x=bench.put(x), y=bench.out((1, 3, 1)), kind=kind, axes=(0, 2), mult=-77, shift=7, lo=-128, hi=127
    )
    want = [python(int(v) for v in x[:, c].ravel()) * -77 for c in range(3)]
    assert np.array_equal(bench.run(ins).ravel(), requant(want, 7, -128, 127))


@pytest.mark.parametrize(("largest", "last", "index"), [(1, 0, [1, 0]), (1, 1, [3, 2]), (0, 0, [2, 0]), (0, 1, [4, 2])])
def test_arg_reduce_and_its_ties(bench, largest, last, index):
    x = np.array([[0, 9, -5, 9, -5], [7, 7, 7, 6, 6]], np.int8)
    if largest == 0:
        x[1] = [1, 1, 1, 2, 2]
    ins = ArgReduce(op=0, x=bench.put(x), y=bench.out((2, 1), DType.INT64), axis=1, largest=largest, last=last)
    assert bench.run(ins).ravel().tolist() == index


def test_move_transposes_slices_and_repeats(bench):
    x = bench.put(np.arange(12).reshape(3, 4), np.int8)
    transposed = Move(op=0, x=replace(x, shape=(4, 3), strides=(1, 4)), y=bench.out((4, 3)))
    assert np.array_equal(bench.run(transposed), np.arange(12).reshape(3, 4).T)
    backwards = Move(op=0, x=replace(x, address=x.address + 3, shape=(3, 2), strides=(4, -2)), y=bench.out((3, 2)))
    assert bench.run(backwards).tolist() == [[3, 1], [7, 5], [11, 9]]
    repeated = Move(op=0, x=replace(x, shape=(2, 2, 2), strides=(1, 0, 4)), y=bench.out((2, 2, 2)))
    assert bench.run(repeated).tolist() == [[[0, 4], [0, 4]], [[1, 5], [1, 5]]]
    y = bench.out((2, 2, 4))
    part = replace(y, address=y.address + 4, shape=(2, 4), strides=(8, 1))
    second = Move(op=0, x=replace(x, shape=(2, 4), strides=(4, 1)), y=part)
    assert bench.run(second).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_move_reads_all_before_it_writes(bench):
    x = bench.put([1, 2, 3, 4, 5], np.int16)
    ins = Move(op=0, x=replace(x, shape=(4,)), y=replace(x, address=x.address + 2, shape=(4,)))
    assert bench.run(ins).tolist() == [1, 2, 3, 4]


def test_fill_and_gather(bench):
    assert bench.run(Fill(op=0, y=bench.out((2, 2), DType.INT16), value=-300)).tolist() == [[-300] * 2] * 2
    x = bench.put([[1, 2, 3], [4, 5, 6]], np.int8)
    ins = Gather(op=0, x=x, indices=bench.const([2, 0, 2], np.int32), y=bench.out((2, 3)), axis=1)
    assert bench.run(ins).tolist() == [[3, 1, 3], [6, 4, 6]]


@pytest.mark.parametrize("index", [-1, 3])
def test_gather_outside_is_refused(bench, index):
    ins = Gather(
        op=0, x=bench.put([1, 2, 3], np.int8), indices=bench.const([index], np.int32), y=bench.out((1,)), axis=0
    )
    with pytest.raises(IndexError):
        bench.run(ins)


def test_a_value_that_does_not_fit_is_refused(bench):
    with pytest.raises(ValueError, match="does not fit int8"):
        bench.run(Fill(op=0, y=bench.out((2,)), value=200))


def test_quantize_rounds_half_up_and_saturates(bench):
    x = np.array([-0.75, -0.25, 0.25, 0.75, 0.2499999, 1e30, -np.inf, np.nan, 63.75, -64.0], np.float32)
    ins = Quantize(op=0, x=bench.put(x), y=bench.out((10,)), scale=0.5, lo=-128, hi=127)
    assert bench.run(ins).tolist() == [-1, 0, 1, 2, 0, 127, -128, 0, 127, -128]


def test_quantize_divides_in_float64(bench):
    # 0.05 as float32 is 0.0500000007...: a hair above 0.5 steps of 0.1, and float32 division gives exactly 0.5
    above, below = np.float32(0.05), np.nextafter(np.float32(0.05), np.float32(0))
    ins = Quantize(op=0, x=bench.put([above, below], np.float32), y=bench.out((2,)), scale=0.1, lo=-128, hi=127)
    assert bench.run(ins).tolist() == [1, 0]


def test_dequantize_by_tensor_and_by_channel(bench):
    x = bench.put([[-3, 2], [100000, -1]], np.int32)
    one = Dequantize(op=0, x=x, scale=bench.const([0.1]), y=bench.out((2, 2), DType.FLOAT32), axis=0)
    want = [[np.float32(-3 * 0.1), np.float32(0.2)], [np.float32(100000 * 0.1), np.float32(-0.1)]]
    assert bench.run(one).tolist() == [[float(v) for v in r] for r in want]
    many = Dequantize(op=0, x=x, scale=bench.const([0.5, 2.0]), y=bench.out((2, 2), DType.FLOAT32), axis=1)
    assert bench.run(many).tolist() == [[-1.5, 4.0], [50000.0, -2.0]]
