"""Computing nodes whose operands are all constant, through onnxruntime, and onnx's own evaluator where that cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import NodeProto

from bpuc.frontend.apart import run_apart
from bpuc.frontend.evaluate import evaluate
from bpuc.frontend.order import subgraphs
from bpuc.frontend.types import tensor_proto
from bpuc.ir import Tensor
from bpuc.ops.base import Array

RUN_LIMIT = 1 << 20  # elements of an operand of a Loop or Scan that is run for its shapes
TRIPS = 4096  # iterations of such a Loop


def fold(node: NodeProto, opset: int, inputs: Sequence[Tensor | None]) -> list[Array] | None:
    """The results of a node (absent ones left out), or None where neither evaluator can compute it."""
    return _results(node, opset, {n: t.value() for n, t in zip(node.input, inputs) if t is not None})


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
    if all(t.const is not None for t in given.values()):  # folding has tried that
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
        results = _results(node, opset, values)
        if results is None or any(r.dtype.hasobject for r in results):
            return None
        kinds = [
            onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(r.dtype), r.shape) for r in results
        ]
        found.append(dict(zip((n for n in node.output if n), kinds)))
    return found[0] if found[0] == found[1] else None


def _results(node: NodeProto, opset: int, feeds: Mapping[str, Array]) -> list[Array] | None:
    outputs = [onnx.helper.make_empty_tensor_value_info(n) for n in node.output if n]
    apart = next(subgraphs(node), None) is not None
    types = {n: onnx.helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in feeds.items()}
    infos = [onnx.helper.make_tensor_value_info(n, types[n], a.shape) for n, a in feeds.items()]
    graph = onnx.helper.make_graph([node], "fold", [] if apart else infos, outputs)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)
    if apart:
        graph.initializer.extend(tensor_proto(a, n) for n, a in feeds.items())
        model.graph.CopyFrom(graph)
        return run_apart(model)
    return evaluate(model, feeds)
