"""Choose BPU or CPU for every op, with the reason."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bpuc.ir import Graph, Op, Tensor
from bpuc.isa.core import MAX_RANK
from bpuc.ops.base import Behaviour
from bpuc.ops.registry import get
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.alternative import alternatives
from bpuc.passkit.context import MASKED
from bpuc.passkit.masks import masked_tensors
from bpuc.passkit.opcost import OpCost
from bpuc.passkit.placement import divide
from bpuc.support.check import supports
from bpuc.support.facts import OpFacts, TensorFacts
from bpuc.target.hardware import Hardware
from bpuc.target.model import Target


@dataclass(frozen=True)
class PlaceOps(Pass):
    """An op runs on the BPU where the target allows it, the user does not forbid it, and it is not cheaper on the CPU.

    Who may run there is decided here, op by op; what is cheaper is `bpuc.passkit.placement`, over the whole graph.
    """

    name = "place-ops"
    numerics = Numerics.DECIDES
    gives = Stage.PLACED

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        target = ctx.need_target()
        masked = masked_tensors(graph) | {n for n, r in ctx.ranges.items() if r.observer == MASKED}
        for op in graph:
            op.device, op.reason = _judge(graph, op, target)
            hidden = next((t.name for t in (*op.inputs, *op.outputs) if t is not None and t.name in masked), None)
            if op.device == "BPU" and hidden is not None:
                op.device = "CPU"
                op.reason = f"{hidden} is -Inf, or as good as that, where a mask hides its values: no integer can be"
            if op.device == "CPU" and (remedy := _remedy(graph, op, ctx, hidden)):
                ctx.remedies[op.name] = remedy
            if op.pin == "BPU" and op.device == "CPU":
                ctx.warn("pin", f"{op.name} cannot be pinned to the BPU: {op.reason}", op.name)
        free = [op for op in graph if op.device == "BPU"]
        cost = OpCost(Hardware.of(target))
        divide(graph, cost)
        ctx.bpu_us = math.fsum(cost.bpu_us(op) for op in graph if op.device == "BPU")
        ctx.alternatives = alternatives(graph, cost)
        ctx.remedies |= {op.name: f"--run-on-bpu {op.name}" for op in free if op.device == "CPU"}
        if not any(op.device == "BPU" for op in graph):
            ctx.warn(
                "no-bpu-op",
                f"no op of this model runs on the BPU of {target.march}: everything is on the CPU",
                graph.name,
            )
        return [Change("placed on the CPU", op.name, op.reason) for op in graph if op.device == "CPU"]


def facts_of(graph: Graph, op: Op) -> OpFacts:
    """The op as the target rules see it."""

    def of(t: Tensor) -> TensorFacts:
        small = t.const if t.const is not None and t.const.size <= 4096 else None
        return TensorFacts(t.name, t.shape, t.dtype.value, t.const is not None, small)

    attrs = get(op.kind).facts(op)
    if op.kind in ("Conv", "ConvTranspose", "MatMul"):
        attrs = {**attrs, "fused_add": op.maybe(3) is not None}
    attrs = {**attrs, "feeds_output": any(t in graph.outputs for t in op.outputs)}
    inputs = tuple(None if t is None else of(t) for t in op.inputs)
    # An Affine may stem from a Mul, an Add or a BatchNormalization, and is none of them any more.
    op_type = op.kind if op.kind == "Affine" else op.onnx_type
    return OpFacts(op.name, op_type, inputs, tuple(of(t) for t in op.outputs), attrs)


def _judge(graph: Graph, op: Op, target: Target) -> tuple[str, str]:
    if op.pin == "CPU":
        return "CPU", "pinned to the CPU by the user (--run-on-cpu)"
    facts = facts_of(graph, op)
    verdict = supports(facts, target)
    if not verdict.ok:
        return "CPU", verdict.reason
    if get(op.kind).behaviour is Behaviour.FLOAT:
        why = getattr(op.attrs, "why", "") or f"this form of {op.onnx_type} has no integer form in bpuc"
        return "CPU", f"{op.onnx_type} is not supported on the BPU here: {why}"
    odd = next((t for t in op.inputs if t is not None and t.const is None and not t.dtype.is_float), None)
    if odd is not None:
        return "CPU", f"its operand {odd.name} is {odd.dtype}, the BPU computes on int8 and int16 activations"
    deep = next((t for t in (*op.inputs, *op.outputs) if t is not None and t.rank > MAX_RANK), None)
    if deep is not None:
        return "CPU", f"{deep.name} has rank {deep.rank}, the simulated machine addresses at most {MAX_RANK} axes"
    if not any(t is not None and t.const is None for t in op.inputs):
        return "CPU", "all its operands are constant"
    if verdict.manual and op.pin != "BPU":
        return "CPU", f"{op.onnx_type} runs on the BPU of {target.march} only on request (--run-on-bpu {op.name})"
    return "BPU", ""


def _remedy(graph: Graph, op: Op, ctx: PassContext, masked: str | None) -> str | None:
    """What brings an op that has to be on the CPU to the BPU; None where nothing is known."""
    if op.pin == "CPU":
        return f"leave out --run-on-cpu for {op.name}"
    if masked is not None:
        return "mask with a number little below the least score in place of -Inf: -16 hides as well"
    facts, target = facts_of(graph, op), ctx.need_target()
    verdict = supports(facts, target)
    if verdict.ok:
        return f"--run-on-bpu {op.name}" if verdict.manual else None
    others = [m for m, t in ctx.marches.items() if m != target.march and supports(facts, t).ok]
    integer = get(op.kind).behaviour is not Behaviour.FLOAT
    here = any(rule.place != "cpu" for rule in target.rules.get(facts.op_type, ())) and integer
    found = ["change the model so that the limit holds"] if here else []
    if others and integer:
        found.append(f"the BPU of {', '.join(others)} takes it as it is")
    return (
        "; ".join(found)
        or f"write it with operators that the BPU of {target.march} takes (bpuc targets {target.march})"
    )
