"""Join what was never apart.

    a, b = Split(x);  Concat(a, b, c)   ->  Concat(x, c), with Split kept only for other readers of a and b

The usual shape of C2f blocks. One copy instead of two, and at most one rescale where the scales differ.
"""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.ir import Graph, Op, Tensor
from bpuc.ops.attrs import AxisAttrs, SplitAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext
from bpuc.passkit.rewrite import fusable


@dataclass(frozen=True)
class MergeSplitConcat(Pass):
    """A Concat that takes all parts of a Split in order takes the Split's operand."""

    name = "merge-split-concat"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            if op.kind != "Concat" or not isinstance(op.attrs, AxisAttrs):
                continue
            operands = _merged(graph, op)
            if len(operands) == len(op.inputs) or len(operands) < 2:
                continue
            old = list(op.inputs)
            graph.add("Concat", op.attrs, operands, [_take(graph, op)], name=op.name, origin=op.origin, like=op)
            graph.erase(op)
            splits = {
                p for t in old if t is not None for p in [graph.producer(t)] if p is not None and p.kind == "Split"
            }
            for split in sorted(splits, key=lambda s: s.serial):
                if not any(graph.uses(t) or t in graph.outputs for t in split.outputs):
                    graph.erase(split)
            changes.append(Change(f"merged {len(old)} operands into {len(operands)}", op.name, "all parts of a Split"))
        return changes


def _take(graph: Graph, op: Op) -> Tensor:
    """The op's result, freed for another producer."""
    out = op.out
    graph.rebind(op, 0, graph.new_tensor(out, out.name))
    return out


def _merged(graph: Graph, concat: Op) -> list[Tensor]:
    assert isinstance(concat.attrs, AxisAttrs)
    operands = [t for t in concat.inputs if t is not None]
    found: list[Tensor] = []
    at = 0
    while at < len(operands):
        split = graph.producer(operands[at])
        whole = (
            split is not None
            and split.kind == "Split"
            and isinstance(split.attrs, SplitAttrs)
            and split.attrs.axis == concat.attrs.axis
            and tuple(operands[at : at + len(split.outputs)]) == split.outputs
            and fusable(split, concat)
        )
        if whole and split is not None:
            found.append(split.input(0))
            at += len(split.outputs)
        else:
            found.append(operands[at])
            at += 1
    return found
