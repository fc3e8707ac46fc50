"""Join what was never apart.

    a, b = Split(x);  Concat(a, b, c)   ->  Concat(x, c), with the parts kept only for other readers
    the same where a and b are Slices that together are x

The usual shape of C2f blocks. One copy instead of two, and at most one rescale where the scales differ.
"""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.ir import Graph, Op, Tensor
from bpuc.ops.attrs import AxisAttrs, SliceAttrs, SplitAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext
from bpuc.passkit.rewrite import fusable


@dataclass(frozen=True)
class MergeSplitConcat(Pass):
    """A Concat that takes all parts of a tensor in order takes the tensor itself."""

    name = "merge-split-concat"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            if op.kind != "Concat" or not isinstance(op.attrs, AxisAttrs):
                continue
            operands = _merged(graph, op, op.attrs.axis)
            if len(operands) == len(op.inputs) or len(operands) < 2:
                continue
            old = list(op.inputs)
            graph.add("Concat", op.attrs, operands, [_take(graph, op)], name=op.name, origin=op.origin, like=op)
            graph.erase(op)
            parts = {p for t in old if t is not None for p in [graph.producer(t)] if p is not None}
            for part in sorted(parts, key=lambda p: p.serial):
                if part.kind in ("Split", "Slice") and not _needed(graph, part):
                    graph.erase(part)
            changes.append(Change(f"merged {len(old)} operands into {len(operands)}", op.name, "all parts of a tensor"))
        return changes


def _needed(graph: Graph, op: Op) -> bool:
    return any(graph.uses(t) or t in graph.outputs for t in op.outputs)


def _take(graph: Graph, op: Op) -> Tensor:
    """The op's result, freed for another producer."""
    out = op.out
    graph.rebind(op, 0, graph.new_tensor(out, out.name))
    return out


def _merged(graph: Graph, concat: Op, axis: int) -> list[Tensor]:
    """The operands, with every run that is a whole tensor replaced by it."""
    operands = [t for t in concat.inputs if t is not None]
    found: list[Tensor] = []
    at = 0
    while at < len(operands):
        whole, taken = _whole(graph, concat, operands[at:], axis)
        found.append(operands[at] if whole is None else whole)
        at += max(taken, 1)
    return found


def _whole(graph: Graph, concat: Op, operands: list[Tensor], axis: int) -> tuple[Tensor | None, int]:
    """The tensor that the first operands make up in order, and how many they are; (None, 0) where they do not."""
    source: Tensor | None = None
    end = 0
    for taken, operand in enumerate(operands, 1):
        part = _part(graph, concat, operand, axis)
        if part is None or part[1] != end or (source is not None and part[0] is not source):
            break
        source, end = part[0], part[2]
        if end == source.shape[axis]:
            return source, taken
    return None, 0


def _part(graph: Graph, concat: Op, tensor: Tensor, axis: int) -> tuple[Tensor, int, int] | None:
    """(tensor it is cut from, first, past last index along the axis) of a Split's part or a plain Slice."""
    op = graph.producer(tensor)
    if op is None or not fusable(op, concat):
        return None
    if isinstance(op.attrs, SplitAttrs) and op.attrs.axis == axis:
        index = op.outputs.index(tensor)
        start = sum(op.attrs.sizes[:index])
        return op.input(0), start, start + op.attrs.sizes[index]
    if isinstance(op.attrs, SliceAttrs) and set(op.attrs.steps) == {1}:
        x, start = op.input(0), op.attrs.starts[axis]
        if all(a == axis or d == x.shape[a] for a, d in enumerate(tensor.shape)):
            return x, start, start + tensor.shape[axis]
    return None
