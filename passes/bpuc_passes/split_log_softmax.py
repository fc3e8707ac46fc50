"""Take the logarithm of a Softmax apart.

    Log(Softmax(x))  ->  d - Log(ReduceSum(Exp(d))), d = x - ReduceMax(x)

A probability in 8 bits is a multiple of 1/127, so that all below 1/254 have one logarithm, if any. The parts never
leave the logarithmic scale but for the sum, which is 1 or more. LogSoftmax itself stays whole: targets say where it
runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.ir import Attrs, Graph, Op, Tensor
from bpuc.ops.attrs import AxisAttrs, EltwiseAttrs, ReduceAttrs, UnaryAttrs
from bpuc.ops.reduce import reduced
from bpuc.passkit import Change, Numerics, Pass, PassContext
from bpuc.passkit.rewrite import fusable


@dataclass(frozen=True)
class SplitLogSoftmax(Pass):
    """The logarithm of a Softmax becomes differences and the logarithm of a sum."""

    name = "split-log-softmax"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            softmax = graph.producer(op.input(0)) if op in graph and op.kind == "Log" else None
            if softmax is None or softmax.kind != "Softmax" or op.pin == "CPU" or not fusable(softmax, op):
                continue
            ctx.prefer_int16 |= {t.name for t in _split(graph, softmax, op)}
            changes.append(
                Change("took the logarithm of a Softmax apart", op.name, "small probabilities have no steps")
            )
        return changes


def _split(graph: Graph, softmax: Op, log: Op) -> list[Tensor]:
    """Put the parts in the place of `log`, and of `softmax` where nobody else reads it; returns the inner results."""
    assert isinstance(softmax.attrs, AxisAttrs)
    x, out, axes = softmax.input(0), log.out, (softmax.attrs.axis,)
    origin = softmax.origin + log.origin
    graph.rebind(log, 0, graph.new_tensor(out, out.name))
    row = reduced(x.shape, axes, True)
    inner: list[Tensor] = []

    def part(kind: str, attrs: Attrs, *operands: Tensor, suffix: str) -> Tensor:
        shape = row if suffix in ("max", "sum", "log") else x.shape
        result = Tensor(graph.unique(f"{out.name}_{suffix}"), shape, out.dtype) if suffix else out
        name = graph.unique(f"{log.name}_{suffix}") if suffix else log.name
        graph.add(kind, attrs, list(operands), [result], name=name, origin=origin, like=log)
        inner.extend([result] if suffix else [])
        return result

    top = part("ReduceMax", ReduceAttrs(axes), x, suffix="max")
    below = part("Sub", EltwiseAttrs(), x, top, suffix="below")
    powers = part("Exp", UnaryAttrs(), below, suffix="exp")
    total = part("ReduceSum", ReduceAttrs(axes), powers, suffix="sum")
    part("Sub", EltwiseAttrs(), below, part("Log", UnaryAttrs(), total, suffix="log"), suffix="")
    graph.erase(log)
    if not graph.consumers(softmax.out) and softmax.out not in graph.outputs:
        graph.erase(softmax)
    return inner[1:]
