"""Recognise a Softmax that was exported in pieces.

    e = Exp(x - ReduceMax(x)), or Exp(x);  e / ReduceSum(e), or e * Reciprocal(ReduceSum(e))   ->  Softmax(x)

all along one axis. A Softmax has wide integers inside, where each of the pieces would be rounded to 8 bits. Reshape and
Expand may stand where a reduction without its axis gets it back.
"""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.ir import Graph, Op, Tensor
from bpuc.ops.attrs import AxisAttrs, EltwiseAttrs, ReduceAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext
from bpuc.passkit.rewrite import before_placing, before_reshapes, fusable, merged_origin


@dataclass(frozen=True)
class FuseSoftmax(Pass):
    """Exp, ReduceSum and Div, with the maximum taken off or not, become one Softmax."""

    name = "fuse-softmax"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            found = _match(graph, op) if op in graph else None
            if found is None:
                continue
            x, axis, parts = found
            out = op.out
            graph.rebind(op, 0, graph.new_tensor(out, out.name))
            graph.add("Softmax", AxisAttrs(axis), [x], [out], name=op.name, origin=merged_origin(parts), like=op)
            for part in reversed(parts):
                graph.erase(part)
            changes.append(Change(f"fused {len(parts)} ops into Softmax", op.name, "exponentials over their sum"))
        return changes


def _match(graph: Graph, end: Op) -> tuple[Tensor, int, list[Op]] | None:
    """(x, axis, ops in topological order) of the pattern that ends in `end`."""
    if end.kind not in ("Div", "Mul") or not _plain(end):
        return None
    for side in (0, 1) if end.kind == "Mul" else (0,):
        exp = graph.producer(end.input(side))
        if exp is None or exp.kind != "Exp" or exp.out.shape != end.out.shape:
            continue
        total = _reduced(graph, end.input(1 - side), exp.out, "ReduceSum", inverse=end.kind == "Mul")
        if total is None:
            continue
        axis, parts = total
        x = exp.input(0)
        sub = graph.producer(x)
        top = None
        if sub is not None and sub.kind == "Sub" and _plain(sub) and sub.input(0).shape == x.shape:
            top = _reduced(graph, sub.input(1), sub.input(0), "ReduceMax")
        if sub is not None and top is not None and top[0] == axis:
            x, parts = sub.input(0), [*top[1], sub, *parts]
        known = {exp, end, *parts}
        order = [op for op in graph if op in known]
        inner = [t for op in order if op is not end for t in op.outputs]
        closed = all(t not in graph.outputs and set(graph.consumers(t)) <= known for t in inner)
        return (x, axis, order) if x.const is None and closed and fusable(*order) else None
    return None


def _reduced(graph: Graph, tensor: Tensor, x: Tensor, kind: str, inverse: bool = False) -> tuple[int, list[Op]] | None:
    """(axis, ops) where the tensor is x reduced along one axis and placed beside it; `inverse`: one through that."""
    for axis in range(x.rank):
        placed = before_placing(graph, tensor, x, (axis,))
        if placed is None:
            continue
        source, parts = placed
        if inverse:
            reciprocal = graph.producer(source)
            if reciprocal is None or reciprocal.kind != "Reciprocal":
                continue
            source, reshapes = before_reshapes(graph, reciprocal.input(0))
            parts = [*parts, reciprocal, *reshapes]
        reduce = graph.producer(source)
        if reduce is None or reduce.kind != kind or reduce.input(0) is not x:
            continue
        if isinstance(reduce.attrs, ReduceAttrs) and reduce.attrs.axes == (axis,):
            return axis, [*parts, reduce]
    return None


def _plain(op: Op) -> bool:
    return isinstance(op.attrs, EltwiseAttrs) and op.attrs.low is None and op.attrs.high is None
