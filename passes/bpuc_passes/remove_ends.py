"""Delete ops at the ends of the program: remove_node_type and remove_node_name of the configuration.

As with the vendor's tools, for callers that do the first or last steps themselves: without the Quantize at an input
the program takes integers, without the Dequantize at an output it gives them, with the scale in the report. Only what
touches an input or output goes, in the order asked for, again and again until nothing more does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bpuc.base.errors import ConfigError, did_you_mean
from bpuc.ir import Graph, Op
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage

REMOVABLE = ("Quantize", "Transpose", "Dequantize", "Cast", "Reshape", "Softmax")


@dataclass(frozen=True)
class RemoveEnds(Pass):
    """Quantize, Transpose, Dequantize, Cast, Reshape and Softmax ops that touch an input or output."""

    name = "remove-ends"
    numerics = Numerics.DECIDES
    needs = Stage.LEGAL

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes: list[Change] = []
        names = ctx.options.remove_names
        known = {n for op in graph for n in (op.name, *op.origin)}
        for name in names:
            if name not in known:
                where = did_you_mean(name, sorted(known))
                raise ConfigError(f"remove_node_name {name}: no node of that name is left in the program", hint=where)
        removed: set[str] = set()
        while True:
            gone = [c for word in ctx.options.remove_types for c in _remove(graph, _of_kind(word))]
            for name in names:
                found = _remove(graph, _named(name))
                removed |= {name} if found else set()
                gone += found
            if not gone:
                break
            changes += gone
        for name in names:
            if name not in removed:
                ctx.warn(
                    "remove-node",
                    f"remove_node_name {name}: it stays; only {', '.join(REMOVABLE)} at an input or output can go",
                    name,
                )
        return changes


def _of_kind(word: str) -> Callable[[Op], bool]:
    return lambda op: _kind(op) == word


def _named(name: str) -> Callable[[Op], bool]:
    return lambda op: _kind(op) in REMOVABLE and (op.name == name or name in op.origin)


def _kind(op: Op) -> str:
    return op.onnx_type if op.onnx_type in REMOVABLE else op.kind


def _remove(graph: Graph, wanted: Callable[[Op], bool]) -> list[Change]:
    """Delete one wanted op at each end where there is one; a conversion at the border is looked through."""
    changes = []
    for index, tensor in enumerate(graph.outputs):
        op = graph.producer(tensor)
        if op is None or graph.uses(tensor) or graph.outputs.count(tensor) > 1 or len(op.outputs) > 1:
            continue
        inner = graph.producer(op.input(0)) if op.kind == "Dequantize" else None
        if wanted(op) and op.input(0).const is None:
            source = op.input(0)
            graph.outputs = [*graph.outputs[:index], source, *graph.outputs[index + 1 :]]
            graph.erase(op)
        elif inner is not None and wanted(inner) and graph.sole_consumer(inner.out) is op and inner.input(0).quant:
            graph.set_input(op, 0, inner.input(0))
            tensor.shape = inner.input(0).shape
            graph.erase(inner)
            op = inner
        else:
            continue
        changes.append(Change(f"removed {_kind(op)} at output {graph.output_names[index]}", op.name, "asked for"))
    for index, tensor in enumerate(graph.inputs):
        op = graph.sole_consumer(tensor)
        if op is None or op.input(0) is not tensor or len(op.outputs) > 1 or op.out in graph.outputs:
            continue
        inner = graph.sole_consumer(op.out) if op.kind == "Quantize" else None
        if wanted(op):
            result = op.out
            _erase(graph, op)
            graph.inputs = [*graph.inputs[:index], result, *graph.inputs[index + 1 :]]
        elif inner is not None and wanted(inner) and len(inner.outputs) == 1 and inner.out not in graph.outputs:
            result = inner.out
            if result.quant is None or result.quant != op.out.quant:
                continue
            _erase(graph, inner)
            graph.rebind(op, 0, result)
            tensor.shape = result.shape
            op = inner
        else:
            continue
        changes.append(Change(f"removed {_kind(op)} at input {graph.input_names[index]}", op.name, "asked for"))
    return changes


def _erase(graph: Graph, op: Op) -> None:
    """Remove an op; its result stays, with nobody who gives it."""
    graph.rebind(op, 0, graph.new_tensor(op.out, op.out.name))
    graph.erase(op)
