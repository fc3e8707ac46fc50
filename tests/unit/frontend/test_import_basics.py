"""First things: one small network in and out."""

import numpy as np
import onnx

from bpuc.frontend import export_float
from tests.unit.ops.onnx_cases import assert_kinds, imported, model, run, values

node = onnx.helper.make_node


def test_small_network_keeps_names_and_values(tmp_path):
    proto = model(
        [
            node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1]),
            node("Relu", ["c"], ["r"], name="relu"),
            node("GlobalAveragePool", ["r"], ["p"], name="pool"),
            node("Flatten", ["p"], ["f"], name="flat"),
            node("Gemm", ["f", "g"], ["y"], name="fc", transB=1),
        ],
        {"x": [1, 3, 8, 8]},
        ["y"],
        {"w": values((4, 3, 3, 3)), "b": np.ones(4, np.float32), "g": values((5, 4))},
    )
    result = assert_kinds(proto, tmp_path, ["Conv", "Relu", "ReduceMean", "Reshape", "MatMul"])
    assert [op.onnx_type for op in result.graph] == ["Conv", "Relu", "GlobalAveragePool", "Flatten", "Gemm"]
    assert [op.origin for op in result.graph] == [("conv",), ("relu",), ("pool",), ("flat",), ("fc",)]
    assert [op.out.name for op in result.graph] == ["c", "r", "p", "f", "y"]


def test_slopes_of_an_old_prelu_are_those_of_channels(tmp_path):
    """Opset 6: one dimension of slopes, where opset 7 wants a shape that broadcasts."""
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("PRelu", ["x", "slopes"], ["y"])],
        "old",
        [onnx.helper.make_tensor_value_info("x", 1, [2, 3, 4]), onnx.helper.make_tensor_value_info("slopes", 1, [3])],
        [onnx.helper.make_tensor_value_info("y", 1, [2, 3, 4])],
        [onnx.numpy_helper.from_array(np.array([0.5, 0.25, 2.0], np.float32), "slopes")],
    )
    old = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 6)], ir_version=3)
    x = values((2, 3, 4), 5)
    found = run(export_float(imported(old, tmp_path).graph), {"x": x})["y"]
    assert np.array_equal(found, np.where(x < 0, x * np.array([0.5, 0.25, 2.0], np.float32)[:, None], x))
