"""Reductions, softmax and normalizations against onnxruntime."""

import numpy as np
import onnx
import pytest

from bpuc.base.dtypes import DType
from bpuc.frontend import export_float
from bpuc.ir import Graph, Tensor
from bpuc.ops.attrs import NormAttrs
from tests.unit.ops.onnx_cases import assert_kinds, model, run, values

node = onnx.helper.make_node


@pytest.mark.parametrize("kind", ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("axes", [None, [1], [-1, 1], [2, 3]])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("opset", [11, 18])
def test_reduce(kind, axes, keepdims, opset, tmp_path):
    constants, attrs, operands = {}, {"keepdims": keepdims}, ["x"]
    if axes is not None and opset == 18:
        constants, operands = {"a": np.array(axes, np.int64)}, ["x", "a"]
    elif axes is not None:
        attrs["axes"] = axes
    proto = model([node(kind, operands, ["y"], **attrs)], {"x": [2, 3, 4, 5]}, ["y"], constants, opset)
    (op,) = assert_kinds(proto, tmp_path, [kind]).graph
    assert op.attrs.axes == tuple(sorted(a % 4 for a in (range(4) if axes is None else axes)))


def test_reduce_of_no_axis_is_a_name(tmp_path):
    nodes = [node("Relu", ["x"], ["r"]), node("ReduceSum", ["r"], ["y"], noop_with_empty_axes=1)]
    assert_kinds(model(nodes, {"x": [2, 3]}, ["y"]), tmp_path, ["Relu"])


@pytest.mark.parametrize(("op_type", "kind"), [("GlobalAveragePool", "ReduceMean"), ("GlobalMaxPool", "ReduceMax")])
@pytest.mark.parametrize("shape", [(1, 3, 7), (2, 3, 4, 5)])
def test_global_pools(op_type, kind, shape, tmp_path):
    proto = model([node(op_type, ["x"], ["y"])], {"x": shape}, ["y"])
    result = assert_kinds(proto, tmp_path, [kind])
    (op,) = result.graph
    assert op.onnx_type == op_type
    assert op.attrs.axes == tuple(range(2, len(shape)))
    assert [n.op_type for n in export_float(result.graph).graph.node] == [op_type]


@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("attrs", [{}, {"axis": 1}, {"axis": -1, "keepdims": 0}, {"axis": 1, "select_last_index": 1}])
def test_arg_reduce(kind, attrs, tmp_path):
    nodes = [node("Round", ["x"], ["r"]), node(kind, ["r"], ["y"], **attrs)]  # rounded, so that values repeat
    proto = model(nodes, {"x": [2, 6, 4]}, ["y"])
    _, op = assert_kinds(proto, tmp_path, ["Round", kind]).graph
    assert op.out.dtype is DType.INT64


@pytest.mark.parametrize("axis", [None, 1, -1, 2])
def test_softmax(axis, tmp_path):
    proto = model([node("Softmax", ["x"], ["y"], **({} if axis is None else {"axis": axis}))], {"x": [2, 3, 4]}, ["y"])
    (op,) = assert_kinds(proto, tmp_path, ["Softmax"]).graph
    assert op.attrs.axis == (2 if axis is None else axis % 3)


@pytest.mark.parametrize(
    ("shape", "axis", "kinds"),
    [
        ((2, 5), None, ["Softmax"]),
        ((1, 5, 1, 1), None, ["Softmax"]),
        ((1, 1, 4, 1), 1, ["Softmax"]),
        ((2, 3, 4), -1, ["Softmax"]),
        ((2, 3, 4), None, ["Reshape", "Softmax", "Reshape"]),
        ((2, 3, 4), 0, ["Reshape", "Softmax", "Reshape"]),
    ],
)
def test_softmax_of_old_opsets(shape, axis, kinds, tmp_path):
    attrs = {} if axis is None else {"axis": axis}
    assert_kinds(model([node("Softmax", ["x"], ["y"], **attrs)], {"x": shape}, ["y"], opset=11), tmp_path, kinds)


@pytest.mark.parametrize(("axis", "gain"), [(-1, (4,)), (1, (3, 4)), (2, (4,))])
@pytest.mark.parametrize("bias", [True, False])
def test_layer_normalization(axis, gain, bias, tmp_path):
    constants = {"g": values(gain)} | ({"b": values(gain, 1)} if bias else {})
    norm = node("LayerNormalization", ["x", *constants], ["y"], axis=axis, epsilon=1e-3)
    proto = model([norm], {"x": [2, 3, 4]}, ["y"], constants)
    (op,) = assert_kinds(proto, tmp_path, ["LayerNormalization"]).graph
    assert op.attrs.axes == tuple(range(axis % 3, 3))
    assert op.input(1).rank == op.input(2).rank == 3


def test_instance_normalization(tmp_path):
    constants = {"g": values((3,)), "b": values((3,), 1)}
    proto = model([node("InstanceNormalization", ["x", "g", "b"], ["y"])], {"x": [2, 3, 4, 5]}, ["y"], constants)
    (op,) = assert_kinds(proto, tmp_path, ["InstanceNormalization"]).graph
    assert op.attrs.axes == (2, 3)


def test_normalization_over_channels_exports_as_steps():
    x, gain, bias = values((2, 6, 3, 4)), values((1, 6, 1, 1), 1), values((1, 6, 1, 1), 2)
    graph = Graph()
    source, out = Tensor("x", x.shape, DType.FLOAT32), Tensor("y", x.shape, DType.FLOAT32)
    constants = [Tensor(n, a.shape, DType.FLOAT32, a) for n, a in (("g", gain), ("b", bias))]
    graph.inputs, graph.outputs, graph.output_names = [source], [out], ["y"]
    graph.add("LayerNormalization", NormAttrs((1,), 1e-3), [source, *constants], [out], name="norm")
    wanted = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-3) * gain + bias
    np.testing.assert_allclose(run(export_float(graph), {"x": x})["y"], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("shape", [(2, 6, 3, 4), (1, 6, 5)])
def test_group_normalization(shape, opset, tmp_path):
    """Its first form has a gain a group, the second a gain a channel."""
    constants = {"g": values((6 if opset == 21 else 3,)), "b": values((6 if opset == 21 else 3,), 1)}
    norm = node("GroupNormalization", ["x", "g", "b"], ["y"], name="gn", num_groups=3, epsilon=1e-3)
    kinds = ["Reshape", "InstanceNormalization", "Reshape", "Affine"]
    ops = list(assert_kinds(model([norm], {"x": shape}, ["y"], constants, opset), tmp_path, kinds).graph)
    assert ops[-1].name == "gn"
