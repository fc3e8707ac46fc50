"""First things: one small network in and out."""

import numpy as np
import onnx

from tests.unit.ops.onnx_cases import assert_kinds, model, values

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
