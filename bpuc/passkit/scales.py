"""Which tensors must carry one scale: classes by union-find, and the concats that join classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from bpuc.ir import Graph, Op, QuantParams, Tensor
from bpuc.ops.attrs import AxisAttrs
from bpuc.ops.base import Behaviour
from bpuc.ops.registry import get
from bpuc.passkit.weights import with_weights
from bpuc.target.model import Target

T = TypeVar("T")


class UnionFind:
    """Disjoint sets of integers 0..n-1 with path halving; the smallest member stands for its set."""

    def __init__(self, n: int):
        self.parent = list(range(n))

    def find(self, i: int) -> int:
        while self.parent[i] != i:
            self.parent[i] = self.parent[self.parent[i]]
            i = self.parent[i]
        return i

    def union(self, a: int, b: int) -> None:
        a, b = self.find(a), self.find(b)
        if a != b:
            self.parent[max(a, b)] = min(a, b)


@dataclass
class ScaleClass:
    """Tensors that data movement ties together: values pass unchanged, so the scale does.

    readers: (member, op) of ops that compute with a member (not those that only move it on, and not concats), with None
    for a graph output: whoever would see a coarser tensor.
    """

    index: int
    tensors: list[Tensor] = field(default_factory=list)
    readers: list[tuple[Tensor, Op | None]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [t.name for t in self.tensors]

    @property
    def reader_names(self) -> list[str]:
        return list(dict.fromkeys("the graph output" if op is None else op.name for _, op in self.readers))


@dataclass(frozen=True)
class ConcatEdge:
    """Operand `index` of a concat (or another op that wants one scale): class `member` is to join class `target`."""

    op: Op
    index: int
    tensor: Tensor
    member: int
    target: int


def is_mover(op: Op) -> bool:
    """An op on the BPU that hands on values unchanged."""
    return op.device == "BPU" and moves(op)


def moves(op: Op) -> bool:
    """An op that hands on values unchanged, wherever it runs."""
    return get(op.kind).behaves(op) is Behaviour.MOVES


def one_scale(op: Op, target: Target | None) -> bool:
    """Whether the march wants one scale for all operands and the result of an op that computes (`all-equal`)."""
    rule = None if target is None else target.scale_rules.get(op.onnx_type)
    if rule is None or rule.rule != "all-equal" or op.device != "BPU" or moves(op):
        return False
    facts = get(op.kind).facts(op)
    return all(facts.get(key) in values for key, values in rule.when.items())


def operand_quant(op: Op, index: int) -> QuantParams | None:
    """What operand `index` of an op that moves values must have, given its result; None where that is not one fact.

    Where channels have scales of their own, that is their part of a Concat's; other ops were tied channel by channel
    when the scales were given, and are held only to the scales being the same ones.
    """
    operand, out = op.input(index), op.outputs[0].quant
    have = operand.quant
    if out is None or have is None or (len(out.scale) == 1 and len(have.scale) == 1):
        return out
    if isinstance(op.attrs, AxisAttrs) and op.kind == "Concat":
        size = operand.shape[op.attrs.axis]
        start = sum(op.input(i).shape[op.attrs.axis] for i in range(index))
        part = out.scale[start : start + size] if out.axis == op.attrs.axis else out.scale
        return QuantParams(out.dtype, part[:1]) if len(set(part)) == 1 else QuantParams(out.dtype, part, out.axis)
    same = out.dtype == have.dtype and (set(out.scale) <= set(have.scale) or len(op.outputs) > 1)
    return have if same else out


def quantized_tensors(graph: Graph) -> list[Tensor]:
    """Float activations that a BPU op reads or gives, and constants that a BPU op reads as data, not as weights."""
    found: dict[Tensor, None] = {}
    for op in graph:
        if op.device != "BPU":
            continue
        found |= dict.fromkeys(t for t in op.outputs if t.dtype.is_float)
        for index, t in enumerate(op.inputs):
            if t is not None and t.dtype.is_float and (t.const is None or is_data(op, index)):
                found[t] = None
    return list(found)


def is_data(op: Op, index: int) -> bool:
    """Whether operand `index`, if constant, is quantized like an activation (one scale a tensor)."""
    if op.kind in ("Concat", "Add", "Sub", "Mul", "Div", "Max", "Min"):
        return True
    if op.kind == "MatMul":
        return index == 0 or (index == 1 and not with_weights(op))
    return index == 0 or (index == 3 and op.kind in ("Conv", "ConvTranspose", "MatMul"))


def scale_classes(
    graph: Graph, target: Target | None = None
) -> tuple[list[ScaleClass], dict[Tensor, int], list[ConcatEdge]]:
    """The classes, the class of each quantized tensor, and the concat edges between classes.

    Other ops for which the target wants one scale have edges as a Concat has. Movers on the CPU count too where both
    ends are quantized: with one scale the way through float loses nothing.
    """
    tensors = quantized_tensors(graph)
    number = {t: i for i, t in enumerate(tensors)}
    sets = UnionFind(len(tensors))
    movers = [op for op in graph if moves(op) and all(t is None or t in number for t in (*op.inputs[:1], *op.outputs))]
    for op in movers:
        if op.kind != "Concat":
            for out in op.outputs:
                sets.union(number[op.input(0)], number[out])
    classes, of = _collect(tensors, lambda t: sets.find(number[t]))
    edges = [
        ConcatEdge(op, i, t, of[t], of[op.out])
        for op in movers
        if op.kind == "Concat"
        for i, t in enumerate(op.inputs)
        if t is not None and t in number
    ]
    joining = [op for op in graph if one_scale(op, target) and all(t in number for t in op.inputs if t is not None)]
    edges += [
        ConcatEdge(op, i, t, of[t], of[op.out]) for op in joining for i, t in enumerate(op.inputs) if t is not None
    ]
    moving = {*movers, *joining}
    outputs = set(graph.outputs)
    for scale_class in classes:
        for tensor in scale_class.tensors:
            scale_class.readers += [(tensor, op) for op in graph.consumers(tensor) if op not in moving]
            scale_class.readers += [(tensor, None)] if tensor in outputs else []
    return classes, of, edges


def moved_together(graph: Graph, *, concats: bool = False) -> list[list[Tensor]]:
    """All activations in groups between which values only move, wherever the ops run.

    Args:
        concats: whether a concat ties its operands to its result.
    """
    tensors = [t for t in graph.tensors() if t.const is None]
    number = {t: i for i, t in enumerate(tensors)}
    sets = UnionFind(len(tensors))
    for op in graph:
        if get(op.kind).behaves(op) is not Behaviour.MOVES or (op.kind == "Concat" and not concats):
            continue
        for operand in op.inputs if op.kind == "Concat" else op.inputs[:1]:
            if operand is not None and operand in number:
                for out in op.outputs:
                    sets.union(number[operand], number[out])
    groups: dict[int, list[Tensor]] = {}
    for t, i in number.items():
        groups.setdefault(sets.find(i), []).append(t)
    return list(groups.values())


def _collect(tensors: Iterable[Tensor], root: Callable[[Tensor], int]) -> tuple[list[ScaleClass], dict[Tensor, int]]:
    by_root: dict[int, ScaleClass] = {}
    of: dict[Tensor, int] = {}
    for tensor in tensors:
        found = by_root.setdefault(root(tensor), ScaleClass(len(by_root)))
        found.tensors.append(tensor)
        of[tensor] = found.index
    return list(by_root.values()), of
