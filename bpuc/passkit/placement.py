"""Divide the ops that may run on either device between CPU and BPU, and say why.

Three classes, after the vendor's own:

- *active* ops (convolutions, matrix products, pooling) are what one buys a BPU for; cost never takes them off it.
- *manual* ops go there only when the user asks, which is the target's business.
- all others (tables, element-wise arithmetic, reductions, Softmax, norms, Resize, data movement) are *free*: cost
  decides, as `bpuc.passkit.division` counts it. (The vendor counts Add as active; here a lone Add between CPU ops
  may stay there.)

Cost is asked only where a chain of free ops meets an op that has to be on the CPU. A chain that meets none is part of a
piece that the BPU runs whole; cutting that up would trade a certain number of segments for an estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bpuc.ir import Graph, Op, Tensor
from bpuc.ops.attrs import ReduceAttrs
from bpuc.ops.base import Behaviour
from bpuc.ops.registry import get
from bpuc.passkit import division
from bpuc.passkit.opcost import OpCost
from bpuc.passkit.partition import Bill, Problem, Value
from bpuc.passkit.scales import UnionFind

# costs are integers of this many to a microsecond
UNITS = 1000
_ACTIVE = frozenset(("Conv", "ConvTranspose", "MatMul", "MaxPool", "AveragePool"))


def is_active(op: Op) -> bool:
    """Whether cost never moves the op off the BPU: convolutions, matrix products, pooling (global too)."""
    plane = isinstance(op.attrs, ReduceAttrs) and op.attrs.axes == (2, 3) and op.kind == "ReduceMean"
    return op.kind in _ACTIVE or op.onnx_type.startswith("Global") or plane


def divide(graph: Graph, cost: OpCost) -> None:
    """Move those ops from the BPU to the CPU that are cheaper there, with the reason.

    On entry `device` says where an op may run: CPU where it must be there, BPU where it may be there.
    """
    ops = list(graph)
    number = {op: i for i, op in enumerate(ops)}
    free = {op for op in ops if op.device == "BPU" and op.pin != "BPU" and not is_active(op)}
    undecided: list[Op] = []
    for region in _regions(graph, [op for op in ops if op in free]):
        near = [n for op in region for n in _neighbours(graph, op) if n not in free]
        if any(n.device == "CPU" for n in near):
            undecided += region
        elif not near and all(get(op.kind).behaves(op) is Behaviour.MOVES for op in region):
            for op in region:
                op.device, op.reason = "CPU", _idle(op)
    if not undecided:
        return
    problem = problem_of(graph, ops, set(undecided), cost)
    best = division.divide(problem)
    moved = [number[op] for op in undecided if not best.on_bpu[number[op]]]
    for together in division.regions(problem, moved):
        more = best.more(together)
        for i in together:
            ops[i].device, ops[i].reason = "CPU", _dearer(ops[i], len(together), more)


def _regions(graph: Graph, ops: Sequence[Op]) -> list[list[Op]]:
    """The ops in groups that hand values to one another."""
    number = {op: i for i, op in enumerate(ops)}
    sets = UnionFind(len(ops))
    for op in ops:
        for near in _neighbours(graph, op):
            if near in number:
                sets.union(number[op], number[near])
    found: dict[int, list[Op]] = {}
    for op in ops:
        found.setdefault(sets.find(number[op]), []).append(op)
    return list(found.values())


def _neighbours(graph: Graph, op: Op) -> Iterable[Op]:
    for t in op.inputs:
        producer = None if t is None else graph.producer(t)
        if producer is not None:
            yield producer
    for t in op.outputs:
        yield from graph.consumers(t)


def problem_of(graph: Graph, ops: list[Op], undecided: set[Op], cost: OpCost) -> Problem:
    """Costs of the undecided ops and of the tensors about them; all others are fixed where they are, at no cost."""
    number = {op: i for i, op in enumerate(ops)}
    outputs = set(graph.outputs)
    touched: dict[Tensor, None] = {}
    cpu: list[int | None] = [None if op.device == "BPU" else 0 for op in ops]
    bpu: list[int | None] = [0 if op.device == "BPU" else None for op in ops]
    for op in undecided:
        cpu[number[op]], bpu[number[op]] = _units(cost.cpu_us(op)), _units(cost.bpu_us(op))
        touched |= dict.fromkeys(t for t in op.inputs if t is not None and t.const is None)
        touched |= dict.fromkeys(op.outputs)
    values = []
    for tensor in graph.tensors():
        if tensor.const is not None:
            continue
        producer = graph.producer(tensor)
        readers = tuple(number[op] for op in graph.consumers(tensor))
        to_bpu, to_cpu = (cost.quantize_us(tensor), cost.dequantize_us(tensor)) if tensor in touched else (0.0, 0.0)
        values.append(
            Value(
                None if producer is None else number[producer],
                readers,
                tensor in outputs,
                _units(to_bpu),
                _units(to_cpu),
            )
        )
    return Problem(cpu, bpu, values, _units(cost.call_us))


def _units(us: float) -> int:
    return round(us * UNITS)


def _idle(op: Op) -> str:
    return (
        f"{op.onnx_type} only moves data and no neighbour computes on the BPU: "
        "going there would cost a Quantize and a Dequantize and save nothing"
    )


def _dearer(op: Op, together: int, more: Bill) -> str:
    """Why an op that could run on the BPU is not there: what moving it and the ops moved with it would add and save."""
    parts = {
        "Quantize": more.quantize,
        "Dequantize": more.dequantize,
        "call": more.calls,
        "the op itself" if together == 1 else "the ops themselves": more.cpu + more.bpu,
    }
    added = ", ".join(f"{name} {units / UNITS:.1f}" for name, units in parts.items() if units > 0)
    saved = -sum(units for units in parts.values() if units < 0) / UNITS
    company = "" if together == 1 else f" (moved with {together - 1} of its neighbours)"
    return (
        f"{op.onnx_type}{company} would cost {more.total / UNITS:.1f} us more on the BPU: "
        f"{added} against {saved:.1f} saved (estimate)"
    )
