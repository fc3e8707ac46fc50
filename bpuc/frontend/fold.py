"""Computing nodes whose operands are all constant, through onnxruntime, and onnx's own evaluator where that cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
RUN_LIMIT = 1 << 20  # elements of an operand of a Loop or Scan that is run for its shapes
TRIPS = 4096  # iterations of such a Loop


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
    return _run(model, feeds)


def runs_long(trips: Tensor | None) -> bool:
    """Whether a Loop of this trip count may go round more than `TRIPS` times."""
    return trips is None or trips.const is None or int(trips.const.reshape(-1)[0]) > TRIPS


def types_by_running(node: NodeProto, opset: int, given: Mapping[str, Tensor]) -> dict[str, onnx.TypeProto] | None:
    """Types of a Loop's or Scan's results, found by running it on zeros and on ones.

    Args:
        given: every value that it reads, also within its body; constants keep their values.

    Returns:
        None where it does not run, runs for long, or gives other shapes for other values.
    """
    if any(not t.elements or t.elements > RUN_LIMIT for t in given.values()):
        return None
    if node.op_type == "Loop" and runs_long(given.get(node.input[0]) if node.input else None):
        return None
    found: list[dict[str, onnx.TypeProto]] = []
    for fill in (0, 1):
        values = {
            n: t.const if t.const is not None else np.full(t.shape, fill, t.dtype.numpy) for n, t in given.items()
        }
        # a loop's condition is true at its start
        if node.op_type == "Loop" and len(node.input) > 1 and node.input[1] in values:
            name = node.input[1]
            values[name] = values[name] if given[name].const is not None else np.ones_like(values[name])
        infos = [onnx.helper.make_value_info(n, type_proto(t)) for n, t in given.items()]
        outputs = [onnx.helper.make_empty_tensor_value_info(n) for n in node.output if n]
        graph = onnx.helper.make_graph([node], "run", infos, outputs)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)
        results = _run(model, values)
        if results is None or any(r.dtype.hasobject for r in results):
            return None
        kinds = [
            onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(r.dtype), r.shape) for r in results
        ]
        found.append(dict(zip((n for n in node.output if n), kinds)))
    return found[0] if found[0] == found[1] else None


def _run(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array] | None:
    """Results in float32 or as they are, None where neither evaluator can compute them."""
    try:
        return _by_onnxruntime(model, feeds)
    except Exception:
        try:
            with np.errstate(all="ignore"):
                results = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
            return [np.asarray(r) for r in results]
        except Exception:
            return None


def _by_onnxruntime(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(r) for r in session.run(None, feeds)]
