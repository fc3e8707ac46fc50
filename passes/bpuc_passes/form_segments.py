"""Cut the graph into segments of one device each, without cycles, and say what makes each begin."""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.ir import Graph, Op
from bpuc.ops.base import Behaviour
from bpuc.ops.registry import get
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.segments import segments_of


@dataclass(frozen=True)
class FormSegments(Pass):
    """Set `segment` of every op: 0, 1, 2 ... in the order of execution."""

    name = "form-segments"
    numerics = Numerics.EXACT
    needs = Stage.PLACED

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        ops = list(graph)
        number = {op: i for i, op in enumerate(ops)}
        needs = [[number[p] for t in op.inputs if t is not None and (p := graph.producer(t)) is not None] for op in ops]
        segments = segments_of(needs, [op.device == "BPU" for op in ops])
        for op, segment in zip(ops, segments):
            op.segment = segment
        ctx.segment_reasons = _reasons(graph, ops)
        return [Change(f"{max(segments, default=-1) + 1} segments", graph.name)]


def _reasons(graph: Graph, ops: list[Op]) -> dict[int, str]:
    """Why each segment begins: the op on the CPU that ends the one before it, or the ports of the network."""
    members: dict[int, list[Op]] = {}
    for op in ops:
        members.setdefault(op.segment, []).append(op)
    return {
        number: _why_cpu(inside) if inside[0].device == "CPU" else _why_bpu(graph, inside)
        for number, inside in members.items()
    }


def _why_cpu(inside: list[Op]) -> str:
    work = [op for op in inside if not _is_border(op)]
    if not work:
        kinds = {op.kind for op in inside}
        what = "inputs are quantized" if "Quantize" in kinds else "outputs are dequantized"
        return f"the network's {what}"
    more = f", and {len(work) - 1} more on the CPU" if len(work) > 1 else ""
    return _with_reason(f"{work[0].name} ({work[0].onnx_type})", work[0]) + more


def _why_bpu(graph: Graph, inside: list[Op]) -> str:
    """The op on the CPU whose result this segment had to wait for: of all the one that comes latest."""
    before = [(p, op) for op in inside for p in _makers(graph, op) if p.device == "CPU" and not _is_border(p)]
    if not before:
        return "the network's inputs"
    maker, reader = max(before, key=lambda pair: pair[0].segment)
    text = f"{reader.name} needs the result of {maker.name} ({maker.onnx_type}), which is on the CPU"
    return _with_reason(text, maker)


def _with_reason(text: str, op: Op) -> str:
    return f"{text}: {op.reason}" if op.reason else text


def _makers(graph: Graph, op: Op) -> list[Op]:
    """The ops that make an op's operands, seen through conversions."""
    found = []
    for tensor in op.inputs:
        producer = None if tensor is None else graph.producer(tensor)
        if producer is not None and _is_border(producer) and producer.device == "CPU":
            producer = graph.producer(producer.input(0))
        if producer is not None:
            found.append(producer)
    return found


def _is_border(op: Op) -> bool:
    return get(op.kind).behaviour is Behaviour.BORDER
