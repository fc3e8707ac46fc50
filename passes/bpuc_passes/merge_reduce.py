"""Make one reduction of two.

    ReduceMean(ReduceMean(x, axes a), axes b)  ->  ReduceMean(x, axes a and b)   (ReduceSum, ReduceMax, ReduceMin too)

as x.mean(3).mean(2) is written: the mean of a map is one op then, and nothing is rounded in between.
"""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.ir import Graph, Op
from bpuc.ops.attrs import ReduceAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext
from bpuc.passkit.rewrite import fusable, merged_origin

_KINDS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")


@dataclass(frozen=True)
class MergeReduce(Pass):
    """A reduction of a reduction of the same kind becomes one over the axes of both."""

    name = "merge-reduce"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            inner = graph.producer(op.input(0)) if op.kind in _KINDS and op.out.dtype.is_float else None
            if inner is None or inner.kind != op.kind or graph.sole_consumer(inner.out) is not op:
                continue
            attrs = _joined(inner, op)
            if attrs is None or not fusable(inner, op):
                continue
            out, origin = op.out, merged_origin((inner, op))
            graph.rebind(op, 0, graph.new_tensor(out, out.name))
            graph.add(op.kind, attrs, [inner.input(0)], [out], name=op.name, origin=origin, like=op)
            graph.erase(op)
            graph.erase(inner)
            changes.append(Change(f"merged {inner.kind} {inner.name} into {op.kind}", op.name, "of the same kind"))
        return changes


def _joined(inner: Op, outer: Op) -> ReduceAttrs | None:
    """Axes of both as those of the inner operand; None where one keeps its axes and the other does not."""
    a, b = inner.attrs, outer.attrs
    assert isinstance(a, ReduceAttrs), "reductions have axes"
    assert isinstance(b, ReduceAttrs), "reductions have axes"
    left = [i for i in range(inner.input(0).rank) if a.keepdims or i not in a.axes]
    axes = tuple(sorted({*a.axes, *(left[i] for i in b.axes)}))
    return ReduceAttrs(axes, a.keepdims) if a.keepdims == b.keepdims else None
