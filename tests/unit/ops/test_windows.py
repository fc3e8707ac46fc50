"""Conv, ConvTranspose and the pools against onnxruntime over their attributes."""

import numpy as np
import onnx
import pytest

from tests.unit.ops.onnx_cases import assert_kinds, assert_same, model, values

node = onnx.helper.make_node

CONVS = [
    {},
    {"strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"strides": [2, 1], "pads": [0, 1, 2, 1], "dilations": [2, 1]},
    {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    {"auto_pad": "SAME_LOWER", "strides": [2, 3]},
    {"auto_pad": "VALID", "strides": [1, 2]},
]


@pytest.mark.parametrize("attrs", CONVS)
@pytest.mark.parametrize("group", [1, 2, 4])
def test_conv(attrs, group, tmp_path):
    proto = model(
        [node("Conv", ["x", "w", "b"], ["y"], group=group, **attrs)],
        {"x": [2, 4, 9, 8]},
        ["y"],
        {"w": values((8, 4 // group, 3, 3)), "b": values((8,))},
    )
    (op,) = assert_kinds(proto, tmp_path, ["Conv"]).graph
    assert op.input(1).name == "w"
    assert op.input(2).name == "b"


@pytest.mark.parametrize("shape", [(1, 2, 10), (1, 2, 4, 5, 6)])
def test_conv_of_one_and_three_axes(shape, tmp_path):
    kernel = (3, 2, *(3,) * (len(shape) - 2))
    proto = model([node("Conv", ["x", "w"], ["y"])], {"x": shape}, ["y"], {"w": values(kernel)})
    assert_kinds(proto, tmp_path, ["Conv"])


@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"strides": [2, 2]},
        {"strides": [2, 3], "pads": [1, 0, 1, 2]},
        {"strides": [2, 2], "output_padding": [1, 1], "pads": [1, 1, 1, 1]},
        {"strides": [2, 2], "dilations": [2, 1]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [3, 2], "auto_pad": "SAME_LOWER"},
        {"strides": [2, 2], "output_shape": [10, 9]},
        {"strides": [2, 2], "output_shape": [10, 9], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 2], "auto_pad": "VALID"},
    ],
)
@pytest.mark.parametrize("group", [1, 2])
def test_conv_transpose(attrs, group, tmp_path):
    proto = model(
        [node("ConvTranspose", ["x", "w", "b"], ["y"], group=group, **attrs)],
        {"x": [1, 4, 5, 4]},
        ["y"],
        {"w": values((4, 3, 3, 3)), "b": values((3 * group,))},
    )
    assert_kinds(proto, tmp_path, ["ConvTranspose"])


def test_conv_with_computed_weights_stays_opaque(tmp_path):
    proto = model([node("Conv", ["x", "w"], ["y"])], {"x": [1, 2, 5, 5], "w": [3, 2, 3, 3]}, ["y"])
    (op,) = assert_kinds(proto, tmp_path, ["Onnx"]).graph
    assert op.onnx_type == "Conv"
    assert op.attrs.why == "Conv whose weights are not constant"


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    "attrs",
    [
        {"kernel_shape": [2, 2]},
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 0, 1], "ceil_mode": 1},
        {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1},
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 1, 1], "ceil_mode": 1},
        # a fifth window would lie on the border as a whole
        {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 0, 1, 1], "ceil_mode": 1},
        {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
        {"kernel_shape": [3, 3], "strides": [2, 1], "auto_pad": "VALID"},
    ],
)
def test_pools(op_type, attrs, tmp_path):
    proto = model([node(op_type, ["x"], ["y"], **attrs)], {"x": [1, 2, 8, 7]}, ["y"], opset=19)
    assert_kinds(proto, tmp_path, [op_type])


def test_average_pool_that_counts_the_padding(tmp_path):
    attrs = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}
    proto = model([node("AveragePool", ["x"], ["y"], **attrs)], {"x": [1, 2, 6, 6]}, ["y"])
    (op,) = assert_kinds(proto, tmp_path, ["AveragePool"]).graph
    assert op.attrs.count_include_pad


@pytest.mark.parametrize(("op_type", "shape"), [("MaxPool", (1, 2, 9)), ("AveragePool", (1, 2, 5, 4, 6))])
def test_pools_of_one_and_three_axes(op_type, shape, tmp_path):
    proto = model([node(op_type, ["x"], ["y"], kernel_shape=[2] * (len(shape) - 2))], {"x": shape}, ["y"])
    assert_kinds(proto, tmp_path, [op_type])


def test_dilated_max_pool(tmp_path):
    proto = model([node("MaxPool", ["x"], ["y"], kernel_shape=[2, 3], dilations=[2, 2])], {"x": [1, 1, 8, 9]}, ["y"])
    assert_kinds(proto, tmp_path, ["MaxPool"])


def test_max_pool_whose_indices_are_read_stays_opaque(tmp_path):
    proto = model(
        [node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2]), node("Cast", ["i"], ["z"], to=1)],
        {"x": [1, 1, 4, 4]},
        ["y", "z"],
    )
    ops = list(assert_same(proto, tmp_path).graph)
    assert [op.onnx_type for op in ops] == ["MaxPool", "Cast"]
    assert ops[0].attrs.why == "MaxPool whose indices are read"
    assert np.dtype("int64") == ops[0].outputs[1].dtype.numpy


def test_dilated_average_pool(tmp_path):
    pool = node("AveragePool", ["x"], ["y"], kernel_shape=[2, 3], dilations=[2, 2])
    assert_kinds(model([pool], {"x": [1, 1, 8, 9]}, ["y"], opset=19), tmp_path, ["AveragePool"])
