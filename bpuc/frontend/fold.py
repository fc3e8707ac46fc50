"""Computing nodes whose operands are all constant, through onnxruntime, and onnx's own evaluator where that cannot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnx.reference
import onnxruntime as ort
from onnx import NodeProto

from bpuc.base.errors import ModelError
from bpuc.frontend.types import type_proto
from bpuc.ir import Tensor
from bpuc.ops.base import Array

LIMIT = 256 << 20  # bytes of one folded result


def check_size(node: NodeProto, name: str, shape: Sequence[int], itemsize: int) -> None:
    """Refuse a constant that would be very large.

    Raises:
        ModelError: it would have more than 256 MB.
    """
    size = itemsize
    for d in shape:
        size *= d
    if size > LIMIT:
        raise ModelError(
            f"node '{name}' ({node.op_type}) gives a constant of {size >> 20} MB",
            where=f"node '{name}'",
            want=f"constants up to {LIMIT >> 20} MB",
        )


def fold(node: NodeProto, opset: int, inputs: Sequence[Tensor | None]) -> list[Array] | None:
    """The results of a node (absent ones left out), or None where neither evaluator can compute it."""
    given = {n: t for n, t in zip(node.input, inputs) if t is not None}
    outputs = [onnx.helper.make_empty_tensor_value_info(n) for n in node.output if n]
    infos = [onnx.helper.make_value_info(n, type_proto(t)) for n, t in given.items()]
    graph = onnx.helper.make_graph([node], "fold", infos, outputs)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)
    feeds = {n: t.value() for n, t in given.items()}
    try:
        return _by_onnxruntime(model, feeds)
    except Exception:
        try:
            with np.errstate(all="ignore"):
                results = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
        except Exception:
            return None
        return [np.asarray(r) for r in results]


def _by_onnxruntime(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(r) for r in session.run(None, feeds)]
