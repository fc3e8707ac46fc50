"""Let a convolution add the shortcut while its result is still in the accumulator.

    Conv(x) + r  ->  Conv with residual r         (ConvTranspose and Linear too)

One requantization instead of two. Of two candidates the later one takes the other as its residual. A result that a
quantized model file rounds to a scale of its own stays apart: the network was made with that rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bpuc.ir import Graph, Op
from bpuc.ops.attrs import ConvAttrs, EltwiseAttrs, MatMulAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext
from bpuc.passkit.rewrite import fusable


@dataclass(frozen=True)
class FuseResidual(Pass):
    """An Add behind a convolution becomes its residual operand."""

    name = "fuse-residual"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        order = {op: i for i, op in enumerate(graph)}
        for add in list(order):
            if add.kind != "Add":
                continue
            sides = [(i, graph.producer(add.input(i))) for i in (0, 1)]
            able = [(order[p], i, p) for i, p in sides if p is not None and _can_take(graph, p, add)]
            able = [c for c in able if c[2].out.name not in ctx.rounded_by_file]
            if not able:
                continue
            _, index, op = max(able, key=lambda c: c[0])
            residual = add.input(1 - index)
            if residual.const is not None or residual.shape != add.out.shape or residual is op.out:
                continue
            if isinstance(add.attrs, EltwiseAttrs) and isinstance(op.attrs, ConvAttrs | MatMulAttrs):
                op.attrs = replace(op.attrs, low=add.attrs.low, high=add.attrs.high)
            graph.absorb(op, add)
            graph.set_input(op, 3, residual)
            changes.append(Change(f"fused Add {add.name} into {op.kind}", op.name, "shortcut added in the accumulator"))
        return changes


def _can_take(graph: Graph, op: Op, add: Op) -> bool:
    if not isinstance(op.attrs, ConvAttrs | MatMulAttrs) or op.kind not in ("Conv", "ConvTranspose", "MatMul"):
        return False
    weights = op.input(1)
    free = op.attrs.low is None and op.attrs.high is None and op.maybe(3) is None
    linear = weights.const is not None and (op.kind != "MatMul" or weights.rank == 2)
    return free and linear and fusable(op, add) and graph.sole_consumer(op.out) is add and op.out.shape == add.out.shape
