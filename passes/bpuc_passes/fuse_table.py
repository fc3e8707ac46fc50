"""Make one table of a chain of element-wise ops.

    x * Sigmoid(x)                       ->  Table (SiLU)
    x * Clip(x + 3, 0, 6) / 6            ->  Table (HardSwish)
    0.5 * x * (1 + Erf(x / sqrt(2)))     ->  Table (Gelu)

Any ops that are a function of one tensor and scalar constants, whose inner results nobody else reads, are one look-up.
"""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.ir import Graph, Op, Tensor
from bpuc.ops.attrs import EltwiseAttrs, Step, TableAttrs, UnaryAttrs
from bpuc.ops.base import Behaviour
from bpuc.ops.registry import get
from bpuc.passkit import Change, Numerics, Pass, PassContext
from bpuc.passkit.rewrite import fusable, is_scalar, merged_origin, scalar

_BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min")
_LINEAR = ("Add", "Sub", "Mul", "Div")


@dataclass(frozen=True)
class FuseTable(Pass):
    """Two or more element-wise ops on one tensor become a Table."""

    name = "fuse-table"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        roots = _roots(graph)
        changes = []
        for op in reversed(list(graph)):
            if op in graph and len(op.outputs) == 1 and op.out in roots:
                changes += _fuse(graph, op, roots)
        return changes


def _roots(graph: Graph) -> dict[Tensor, Tensor]:
    """For each element-wise result the nearest tensor that it is a function of."""
    roots: dict[Tensor, Tensor] = {}
    for op in graph:
        if len(op.outputs) != 1:
            continue
        operands = [t for t in op.inputs if t is not None and not is_scalar(t)]
        if get(op.kind).behaviour is Behaviour.MAPS and op.kind != "PRelu":
            root: Tensor | None = op.input(0)
        elif op.kind in _BINARY and len(operands) == 1:
            root = operands[0]
        elif op.kind in _BINARY and len(operands) == 2:
            behind = set(_chain(operands[0], roots))
            root = next((t for t in _chain(operands[1], roots) if t in behind), None)
        else:
            continue
        if root is not None and root.const is None and root.shape == op.out.shape:
            roots[op.out] = root
    return roots


def _chain(tensor: Tensor, roots: dict[Tensor, Tensor]) -> list[Tensor]:
    chain = [tensor]
    while chain[-1] in roots:
        chain.append(roots[chain[-1]])
    return chain


def _region(graph: Graph, end: Op, root: Tensor) -> list[Op] | None:
    """The ops between `root` and `end` in topological order; None where an inner result is read elsewhere."""
    found: dict[Op, None] = {}
    stack = [end]
    while stack:
        op = stack.pop()
        found[op] = None
        for t in op.inputs:
            producer = None if t is None or t is root else graph.producer(t)
            if producer is not None and producer not in found:
                stack.append(producer)
    inner = [op.out for op in found if op is not end]
    closed = all(set(graph.consumers(t)) <= set(found) and t not in graph.outputs for t in inner)
    if not closed or not fusable(*found):
        return None
    waiting, ordered, known = list(found), [], {root}
    while waiting:
        ready = [op for op in waiting if all(t is None or t.const is not None or t in known for t in op.inputs)]
        if not ready:
            return None
        ordered += ready
        known |= {op.out for op in ready}
        waiting = [op for op in waiting if op not in ready]
    return ordered


def _fuse(graph: Graph, end: Op, roots: dict[Tensor, Tensor]) -> list[Change]:
    for root in reversed(_chain(end.out, roots)[1:]):
        ops = _region(graph, end, root)
        if ops is None or len(ops) < 2 or all(_is_linear(op) for op in ops):
            continue
        out, attrs = end.out, TableAttrs(_steps(ops, root))
        graph.rebind(end, 0, graph.new_tensor(out, out.name))
        origin = merged_origin(ops)
        graph.add("Table", attrs, [root], [out], name=end.name, origin=origin, like=end)
        for op in reversed(ops):
            graph.erase(op)
        roots[out] = root
        return [
            Change(f"fused {', '.join(op.kind for op in ops)} into one table", end.name, f"function of {root.name}")
        ]
    return []


def _is_linear(op: Op) -> bool:
    return op.kind in _LINEAR and any(is_scalar(t) for t in op.inputs)


def _steps(ops: list[Op], root: Tensor) -> tuple[Step, ...]:
    steps: list[Step] = []
    place: dict[Tensor, int | str] = {root: "x"}

    def arg(t: Tensor | None) -> int | float | str:
        assert t is not None, "element-wise ops have all their operands"
        return scalar(t) if is_scalar(t) else place[t]

    for op in ops:
        attrs = op.attrs
        if isinstance(attrs, TableAttrs):
            base, start = len(steps), place[op.input(0)]
            for s in attrs.steps:
                moved = tuple(a + base if isinstance(a, int) else start if a == "x" else a for a in s.args)
                steps.append(Step(s.fn, moved, s.params))
        else:
            params = attrs.params if isinstance(attrs, UnaryAttrs) else ()
            operands = op.inputs[:1] if isinstance(attrs, UnaryAttrs) else op.inputs
            steps.append(Step(op.kind, tuple(arg(t) for t in operands), params))
            if isinstance(attrs, EltwiseAttrs) and (attrs.low is not None or attrs.high is not None):
                clip = tuple((n, v) for n, v in (("min", attrs.low), ("max", attrs.high)) if v is not None)
                steps.append(Step("Clip", (len(steps) - 1,), clip))
        place[op.out] = len(steps) - 1
    return tuple(steps)
