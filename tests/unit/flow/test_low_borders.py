"""A border of -Inf or nearly so before a MaxPool, as exporters write it, takes no steps from the values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto
from onnx import helper as h

from bpuc.base.errors import BpucError
from bpuc.flow.compile import compile_model
from bpuc.flow.request import make_request
from bpuc.sim.run import run_program


def model(path: Path, value: float, reader: str) -> None:
    """A Pad of 1 around x with the value, then a 3x3 pooling of stride 2."""
    x = h.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 6, 6])
    y = h.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 3, 3])
    nodes = [
        h.make_node("Relu", ["x"], ["r"], "relu"),
        h.make_node("Pad", ["r", "pads", "value"], ["p"], "border"),
        h.make_node(reader, ["p"], ["y"], "pool", kernel_shape=[3, 3], strides=[2, 2]),
    ]
    constants = {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "value": np.float32(value)}
    initializers = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    graph = h.make_graph(nodes, "g", [x], [y], initializers)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)


@pytest.fixture
def data(tmp_path: Path) -> np.ndarray:
    data = np.random.default_rng(4).uniform(-1, 1, (8, 1, 2, 6, 6)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=data)
    return data


@pytest.mark.parametrize("value", [-np.inf, -3.4e38, -1e30, -65504.0])
def test_the_border_is_the_max_pools_own(tmp_path: Path, data: np.ndarray, value: float) -> None:
    model(tmp_path / "m.onnx", value, "MaxPool")
    request = make_request(str(tmp_path / "m.onnx"), march="bayes-e", data=str(tmp_path / "d.npz"))
    program = compile_model(request).program
    got = run_program(program, {"x": data})["y"]
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    want = np.stack([session.run(None, {"x": sample})[0] for sample in data])
    assert np.abs(got - want).max() <= 1.5 / 127  # a rounding at the input, and clipping of as much


def test_where_it_cannot_be_the_tensor_is_named(tmp_path: Path, data: np.ndarray) -> None:
    model(tmp_path / "m.onnx", -np.inf, "AveragePool")
    request = make_request(str(tmp_path / "m.onnx"), march="bayes-e", data=str(tmp_path / "d.npz"))
    with pytest.raises(BpucError, match="tensor p NaN or infinite"):
        compile_model(request)
