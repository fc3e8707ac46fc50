"""Small ONNX models for tests: one node or a few, run in onnxruntime, and through import and export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import NodeProto, TensorProto

from bpuc.frontend import ImportedModel, export_float, import_model
from bpuc.ops import registry

Array = np.ndarray[Any, np.dtype[Any]]


def model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """A model with float32 inputs; the outputs' shapes are left to inference."""
    h = onnx.helper
    graph = h.make_graph(
        list(nodes),
        "test",
        [h.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in inputs.items()],
        [h.make_empty_tensor_value_info(n) for n in outputs],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )
    made = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


def run(proto: onnx.ModelProto, feeds: Mapping[str, Array], optimize: bool = False) -> dict[str, Array]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds))))


def imported(proto: onnx.ModelProto, folder: Path, **arguments: Any) -> ImportedModel:
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return import_model(path, **arguments)


def values(shape: Sequence[int], seed: int = 0, low: float = -2.0, high: float = 2.0) -> Array:
    return np.random.default_rng(seed).uniform(low, high, tuple(shape)).astype(np.float32)


def assert_same(
    proto: onnx.ModelProto, folder: Path, low: float = -2.0, high: float = 2.0, rtol: float = 1e-5
) -> ImportedModel:
    """The model, imported and exported, gives what it gave before; every op's shape rule agrees."""
    result = imported(proto, folder)
    for op in result.graph:
        assert registry.get(op.kind).infer(op) == [t.shape for t in op.outputs], op
        registry.get(op.kind).facts(op)
    feeds = {t.name: values(t.shape, i, low, high) for i, t in enumerate(result.graph.inputs)}
    before, after = run(proto, feeds), run(export_float(result.graph), feeds)
    assert list(before) == list(after)
    for name, array in before.items():
        assert after[name].shape == array.shape
        np.testing.assert_allclose(after[name], array, rtol=rtol, atol=1e-6, err_msg=name)
    return result


def assert_kinds(proto: onnx.ModelProto, folder: Path, kinds: Sequence[str], **ranges: float) -> ImportedModel:
    """As `assert_same`, and the graph holds ops of these kinds in this order."""
    result = assert_same(proto, folder, **ranges)
    assert [op.kind for op in result.graph] == list(kinds)
    return result
