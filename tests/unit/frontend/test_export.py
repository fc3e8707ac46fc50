"""Writing graphs: fused forms, taps, quantized borders, older opaque nodes; and the float executor."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper

from bpuc.base.dtypes import DType
from bpuc.base.errors import DataError, ModelError
from bpuc.execute import ort
from bpuc.execute.ort import FloatExecutor
from bpuc.frontend import export_float, export_op, onnx_export
from bpuc.ir import Graph, QuantParams, Tensor
from bpuc.ops.attrs import ConvAttrs, EltwiseAttrs, MatMulAttrs, NoAttrs
from tests.unit.ops.onnx_cases import imported, model, run, values

node = onnx.helper.make_node
CONV = ConvAttrs((1, 1), (0, 0, 0, 0), (1, 1))


def graph_of(kind, attrs, arrays, constants, out):
    """A graph of one op; operands named by position, those in `constants` constant."""
    graph = Graph("one")
    operands = []
    for index, array in enumerate(arrays):
        const = array if index in constants else None
        operands.append(Tensor(f"i{index}", array.shape, DType.FLOAT32, const))
    graph.inputs = [t for t in operands if t.const is None]
    graph.outputs, graph.output_names = [Tensor("y", out, DType.FLOAT32)], ["y"]
    graph.add(kind, attrs, operands, graph.outputs, name="op")
    return graph, {t.name: a for t, a in zip(operands, arrays) if t.const is None}


@pytest.mark.parametrize(
    ("bounds", "last"), [((None, None), "Add"), ((0.0, None), "Relu"), ((0.0, 6.0), "Clip"), ((None, 1.0), "Clip")]
)
def test_fused_convolution(bounds, last):
    x, w, b, residual = values((1, 3, 4, 4)), values((2, 3, 1, 1), 1), values((2,), 2), values((1, 2, 4, 4), 3)
    low, high = bounds
    graph, feeds = graph_of("Conv", replace(CONV, low=low, high=high), [x, w, b, residual], {1, 2}, residual.shape)
    wanted = np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0]) + b.reshape(1, 2, 1, 1) + residual
    wanted = np.clip(wanted, -np.inf if low is None else low, np.inf if high is None else high)
    proto = export_float(graph)
    np.testing.assert_allclose(run(proto, feeds)["y"], wanted, rtol=1e-5, atol=1e-5)
    assert [n.op_type for n in proto.graph.node] == ["Conv", "Add"] + ([last] if last != "Add" else [])
    assert [n.name for n in proto.graph.node][:2] == ["op", "op/Add_1"]


def test_fused_product():
    a, b, bias, residual = values((5, 3)), values((3, 4), 1), values((4,), 2), values((5, 4), 3)
    graph, feeds = graph_of("MatMul", MatMulAttrs(0.0, None), [a, b, bias, residual], {1, 2}, (5, 4))
    wanted = np.maximum(a @ b + bias + residual, 0)
    np.testing.assert_allclose(run(export_float(graph), feeds)["y"], wanted, rtol=1e-5, atol=1e-6)


def test_clamped_addition():
    graph, feeds = graph_of("Add", EltwiseAttrs(-0.5, 0.5), [values((4,)), values((4,), 1)], set(), (4,))
    wanted = np.clip(feeds["i0"] + feeds["i1"], -0.5, 0.5)
    np.testing.assert_allclose(run(export_float(graph), feeds)["y"], wanted, rtol=1e-6)


def test_borders_carry_their_scales():
    quant = QuantParams(DType.INT8, (0.5,))
    other = QuantParams(DType.INT8, (0.25,))
    graph = Graph("borders")
    x, y = Tensor("x", (3,), DType.FLOAT32), Tensor("y", (3,), DType.FLOAT32)
    q, r = Tensor("q", (3,), DType.INT8, quant=quant), Tensor("r", (3,), DType.INT8, quant=other)
    graph.inputs, graph.outputs, graph.output_names = [x], [y], ["y"]
    graph.add("Quantize", NoAttrs(), [x], [q], name="quantize")
    graph.add("Rescale", NoAttrs(), [q], [r], name="rescale")
    graph.add("Dequantize", NoAttrs(), [r], [y], name="dequantize")
    # 100 saturates at 63.5 in steps of a half, then at 31.75 in steps of a quarter
    got = run(export_float(graph), {"x": np.array([0.6, -1.4, 100], np.float32)})["y"]
    assert got.tolist() == [0.5, -1.5, 31.75]


def test_per_channel_dequantize():
    graph = Graph("border")
    q = Tensor("q", (1, 2, 1), DType.INT32, quant=QuantParams(DType.INT32, (0.5, 2.0), 1))
    y = Tensor("y", (1, 2, 1), DType.FLOAT32)
    graph.inputs, graph.outputs, graph.output_names = [q], [y], ["y"]
    graph.add("Dequantize", NoAttrs(), [q], [y], name="dequantize")
    got = run(export_float(graph), {"q": np.array([[[3], [3]]], np.int32)})["y"]
    assert got.reshape(-1).tolist() == [1.5, 6.0]


def two_ops(folder):
    nodes = [node("Relu", ["x"], ["r"]), node("Neg", ["r"], ["y"])]
    return imported(model(nodes, {"x": [2, 3]}, ["y"]), folder).graph


def test_taps_become_outputs(tmp_path):
    proto = export_float(two_ops(tmp_path), ["r", "y"])
    assert [o.name for o in proto.graph.output] == ["y", "r"]
    with pytest.raises(ModelError, match="'nothing'"):
        export_float(two_ops(tmp_path), ["nothing"])


def test_names_of_helpers_never_meet_names_of_the_model(tmp_path):
    nodes = [node("Clip", ["x", "y_min"], ["y"]), node("Neg", ["y"], ["y_min_1"])]
    graph = imported(model(nodes, {"x": [2]}, ["y", "y_min_1"], {"y_min": np.float32(0)}), tmp_path).graph
    assert run(export_float(graph), {"x": np.array([-1, 1], np.float32)})["y_min_1"].tolist() == [0, -1]


def test_one_op_reads_an_operand_once():
    graph = Graph("square")
    x, y = Tensor("x", (2,), DType.FLOAT32), Tensor("y", (2,), DType.FLOAT32)
    op = graph.add("Mul", EltwiseAttrs(), [x, x], [y], name="square")
    part = onnx.load_model_from_string(export_op(op))
    assert [i.name for i in part.graph.input] == ["x"]
    assert run(part, {"x": np.array([3, -4], np.float32)})["y"].tolist() == [9, 16]


def test_executor_yields_taps_inputs_first(tmp_path):
    executor = FloatExecutor(two_ops(tmp_path), ["y", "x", "r"], 1)
    x = values((2, 3))
    got = list(executor.run({"x": x}))
    assert [name for name, _ in got] == ["x", "y", "r"]
    arrays = dict(got)
    np.testing.assert_array_equal(arrays["r"], np.maximum(x, 0))
    np.testing.assert_array_equal(arrays["y"], -np.maximum(x, 0))
    np.testing.assert_array_equal(arrays["x"], x)


def test_executor_shares_large_constants(tmp_path):
    w = values((64, 32))
    graph = imported(
        model([helper.make_node("MatMul", ["x", "w"], ["y"], "m")], {"x": (3, 32)}, ["y"], {"w": w.T}), tmp_path
    ).graph
    executor = FloatExecutor(graph, ["y"], 1)
    (array,) = executor._parts[0].arrays.values()
    assert np.shares_memory(array, next(t.const for op in graph for t in op.inputs if t.const is not None))
    x = values((3, 32))
    ((_, got),) = executor.run({"x": x})
    np.testing.assert_allclose(got, x @ w.T, rtol=1e-5, atol=1e-5)


def test_executor_in_parts_gives_what_one_session_gives(tmp_path, monkeypatch):
    graph = two_ops(tmp_path)
    names = [t.name for t in graph.tensors() if t.const is None]
    x = values((2, 3))
    want = dict(FloatExecutor(graph, names, 1).run({"x": x}))
    monkeypatch.setattr(ort, "ROOM", 1)
    executor = FloatExecutor(graph, names, 1)
    assert len(executor._parts) == len(graph)
    got = dict(executor.run({"x": x}))
    assert list(got) == names
    for name in names:
        np.testing.assert_array_equal(got[name], want[name])


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32])
def test_executor_takes_other_numbers(dtype, tmp_path):
    executor = FloatExecutor(two_ops(tmp_path), ["r"])
    ((_, got),) = executor.run({"x": np.ones((2, 3), dtype)})
    assert got.dtype == np.float32


def test_executor_without_computed_taps(tmp_path):
    x = values((2, 3))
    ((name, got),) = FloatExecutor(two_ops(tmp_path), ["x"]).run({"x": x})
    assert name == "x"
    np.testing.assert_array_equal(got, x)


def test_executor_refuses_wrong_feeds(tmp_path):
    executor = FloatExecutor(two_ops(tmp_path), ["r"])
    with pytest.raises(DataError, match="no data for input 'x'"):
        list(executor.run({}))
    with pytest.raises(DataError, match=r"'x' has shape \[3, 2\]"):
        list(executor.run({"x": np.zeros((3, 2), np.float32)}))


def test_executor_names_what_onnxruntime_refuses(tmp_path):
    nodes = [node("GatherElements", ["x", "i"], ["y"])]  # an index beyond the axis shows only at run time
    proto = model(nodes, {"x": [2, 3]}, ["y"], {"i": np.array([[7, 7, 7]])})
    executor = FloatExecutor(imported(proto, tmp_path).graph, ["y"])
    with pytest.raises(ModelError, match="onnxruntime cannot run test"):
        list(executor.run({"x": values((2, 3))}))


def two_products(tmp_path):
    nodes = [node("MatMul", ["x", "a"], ["h"]), node("MatMul", ["h", "b"], ["y"])]
    constants = {"a": values((4, 4), 1), "b": values((4, 4), 2)}
    return model(nodes, {"x": [2, 4]}, ["y"], constants)


def test_constants_too_large_for_one_session_are_held_by_several(tmp_path, monkeypatch):
    monkeypatch.setattr(ort, "CONSTANTS", 100)  # bytes: one of the two
    monkeypatch.setattr(onnx_export, "MOST_BYTES", 100)
    proto = two_products(tmp_path)
    graph, x = imported(proto, tmp_path).graph, values((2, 4), 3)
    found = dict(FloatExecutor(graph, ["h", "y"]).run({"x": x}))
    np.testing.assert_allclose(found["y"], run(proto, {"x": x})["y"], rtol=1e-6)
    with pytest.raises(ModelError, match="too much for one ONNX model") as caught:
        export_float(graph)
    assert caught.value.where == "node 'MatMul_y'"
