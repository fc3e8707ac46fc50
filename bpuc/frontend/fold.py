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


def fold(node: NodeProto, opset: int, given: Mapping[str, Tensor]) -> list[Array] | None:
    """The results of a node (absent ones left out) from the constants that it reads, also within its body.

    None where neither evaluator can compute it.
    """
    results = _results(node, opset, [{n: t.value() for n, t in given.items()}])
    return None if results is None else results[0]


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
    if any(not t.elements or t.elements > RUN_LIMIT or t.host for t in given.values()):
        return None
    if all(t.const is not None for t in given.values()):  # folding has tried that
        return None
    if node.op_type == "Loop" and runs_long(given.get(node.input[0]) if node.input else None):
        return None
    tries = []
    for fill in (0, 1):
        values = {
            n: t.const if t.const is not None else np.full(t.shape, fill, t.dtype.numpy) for n, t in given.items()
        }
        # a loop's condition is true at its start
        if node.op_type == "Loop" and len(node.input) > 1 and node.input[1] in values:
            name = node.input[1]
            values[name] = values[name] if given[name].const is not None else np.ones_like(values[name])
        tries.append(values)
    results = _results(node, opset, tries)
    if results is None or any(r.dtype.hasobject for r in results[0] + results[1]):
        return None
    found = [
        [onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(r.dtype), r.shape) for r in one]
        for one in results
    ]
    return dict(zip((n for n in node.output if n), found[0])) if found[0] == found[1] else None


def _results(node: NodeProto, opset: int, tries: Sequence[Mapping[str, Array]]) -> list[list[Array]] | None:
    """The results of a node for each set of operands."""
    apart = next(subgraphs(node), None) is not None
    models = [_model(node, opset, feeds, apart) for feeds in tries]
    if apart:
        return run_apart(models)
    found = [evaluate(model, feeds) for model, feeds in zip(models, tries)]
    complete = [results for results in found if results is not None]
    return complete if len(complete) == len(tries) else None


def _model(node: NodeProto, opset: int, feeds: Mapping[str, Array], constants: bool) -> onnx.ModelProto:
    """The node alone; its operands are inputs, or constants."""
    outputs = [onnx.helper.make_empty_tensor_value_info(n) for n in node.output if n]
    types = {n: onnx.helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in feeds.items()}
    infos = [onnx.helper.make_tensor_value_info(n, types[n], a.shape) for n, a in feeds.items()]
    graph = onnx.helper.make_graph([node], "fold", [] if constants else infos, outputs)
    if constants:
        graph.initializer.extend(tensor_proto(a, n) for n, a in feeds.items())
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)
