"""Let every branch of a concat use the whole range of the shared scale (cross-branch equalization).

Where a branch reaches only t of the group's threshold T, the ratio r moves into weights: the convolution that produces
the branch gets weights and bias times r, the slices of the concat's readers that see it get weights divided by r.
Everything between must be positively homogeneous: f(r*x) = r*f(x). No rescale, and the branch keeps its bits; the price
is paid in the readers' weights, whose slices get smaller beside the others. So a ratio is proposed where the measured
error at the readers falls, and kept where that of the network's outputs does. After Nagel et al., "Data-Free
Quantization Through Weight Equalization and Bias Correction" (2019), applied across a concat.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bpuc.base.channels import ChannelStats
from bpuc.ir import Graph, Op, Tensor
from bpuc.ops.attrs import AxisAttrs, ConvAttrs, MatMulAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.context import Range
from bpuc.passkit.rewrite import as_float32, set_const
from bpuc.passkit.scales import is_mover
from bpuc.passkit.search import keep_gains
from bpuc.passkit.weights import with_weights

# kinds between a producer and its concat that scale with their operand
_HOMOGENEOUS = {
    *("Relu", "LeakyRelu", "PRelu", "MaxPool", "AveragePool", "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"),
    *("Reshape", "Transpose", "Slice", "Resize", "Pad", "DepthToSpace", "SpaceToDepth", "Gather", "Expand", "Tile"),
}
_INSIDE_CHANNEL = ("MaxPool", "Resize", "Pad")
# ratios worth trying, and the least gain at the readers (relative mean squared error) that is worth a change
_LEAST_RATIO, _LEAST_GAIN = 1.2, 0.03
# gain at the network's outputs that is worth a change, and how many times they are measured at most
_LEAST_DB, _TRIALS = 0.02, 12


@dataclass(frozen=True)
class EqualizeBranches(Pass):
    """Move range ratios between the branches of a concat into the weights around it (``--equalize``)."""

    name = "equalize-branches"
    numerics = Numerics.DECIDES
    needs = Stage.PLACED
    refines = True

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        if not ctx.options.equalize or ctx.trial is None:
            return []
        plans = _plans(graph.copy(), ctx.twin())
        kept, gain = plans, 0.0
        if ctx.judge is not None and plans:
            judge = ctx.judge

            def score(some: list[Plan]) -> np.ndarray:
                twin, after = graph.copy(), ctx.twin()
                for plan in some:
                    _apply(twin, after, plan)
                return judge(twin, after)

            best_first = sorted(plans, key=lambda p: (-p.gain_db, p.concat))
            kept, gain = keep_gains(best_first, score, _LEAST_DB, _TRIALS, budget=ctx.budget)
            kept = [p for p in plans if p in kept]
        changes = []
        for plan in kept:
            _apply(graph, ctx, plan)
            ratios = ", ".join(f"{name} x{r:.3g}" for name, r in plan.ratios.items())
            why = f"error at its readers falls by {plan.gain_db:.2f} dB on calibration data"
            if ctx.judge is not None:
                why += f", that of the outputs by {gain:.2f} dB for all concats together"
            changes.append(Change(f"equalized {ratios}", plan.concat, why))
        return changes


@dataclass(frozen=True)
class Plan:
    """Ratios for the operands of one concat, and what they gain at its readers."""

    concat: str
    ratios: dict[str, float]
    gain_db: float


@dataclass(frozen=True)
class Branch:
    """One operand of a concat: its channels, threshold, the chain up to the producer whose weights can scale it."""

    start: int
    stop: int
    threshold: float
    producer: Op
    tensors: tuple[Tensor, ...]

    @property
    def name(self) -> str:
        return self.tensors[0].name


def _plans(graph: Graph, ctx: PassContext) -> list[Plan]:
    """A plan for every concat whose readers gain, each made with the ones before it in place; changes its arguments."""
    found = []
    for concat in graph:
        if concat.kind == "Concat" and concat.device == "BPU":
            plan = _plan(graph, ctx, concat)
            if plan is not None:
                _apply(graph, ctx, plan)
                found.append(plan)
    return found


def _plan(graph: Graph, ctx: PassContext, concat: Op) -> Plan | None:
    readers = _readers(graph, concat.out, _axis(concat), [])
    if not readers or ctx.trial is None or concat.out.name not in ctx.ranges:
        return None
    branches = _branches(graph, ctx, concat)
    top = max([ctx.ranges[concat.out.name].threshold, *(b.threshold for b in branches)])
    candidates = [b for b in branches if top / b.threshold >= _LEAST_RATIO]
    if not candidates:
        return None
    trial = ctx.trial(graph, readers)
    gains = np.ones(concat.out.shape[_axis(concat)])

    def error(g: np.ndarray) -> float:
        return sum(trial(op, top / g, _reader_weights(op, g)) for op in readers)

    before = best = error(gains)
    chosen: dict[str, float] = {}
    for branch in candidates:
        ratio = top / branch.threshold
        for r in (ratio, ratio**0.5):
            tried = gains.copy()
            tried[branch.start : branch.stop] = r
            found = error(tried)
            if found < best * (1 - _LEAST_GAIN):
                best, chosen[branch.name] = found, r
                kept = tried
        if branch.name in chosen:
            gains = kept
    return Plan(concat.name, chosen, float(10 * np.log10(before / max(best, 1e-30)))) if chosen else None


def _apply(graph: Graph, ctx: PassContext, plan: Plan) -> None:
    """Move the plan's ratios into the weights of producers and readers."""
    concat = next(op for op in graph if op.name == plan.concat)
    joined: list[Tensor] = []
    readers = _readers(graph, concat.out, _axis(concat), joined)
    gains = np.ones(concat.out.shape[_axis(concat)])
    for branch in _branches(graph, ctx, concat):
        if branch.name in plan.ratios:
            gains[branch.start : branch.stop] = plan.ratios[branch.name]
            _scale_branch(graph, ctx, branch, plan.ratios[branch.name])
    for tensor in joined:
        tensor.gain, tensor.gain_axis = tuple(float(g) for g in gains), _axis(concat)
        _scale_statistics(ctx, tensor, gains)
    for op in readers:
        set_const(graph, op, 1, as_float32(_reader_weights(op, gains)), f"{op.name}_weight")
        ctx.weights.pop(op.input(1).name, None)


def _axis(concat: Op) -> int:
    assert isinstance(concat.attrs, AxisAttrs)
    return concat.attrs.axis


def _readers(graph: Graph, joined: Tensor, axis: int, seen: list[Tensor]) -> list[Op]:
    """Who computes with the joined channels, where all are linear with one weight slice per channel; else none.

    Ops that move values inside their channel (MaxPool, nearest Resize, zero Pad) may stand between; the tensors up to
    the readers are appended to `seen`.
    """
    if joined in graph.outputs:
        return []
    seen.append(joined)
    found = []
    for op in graph.consumers(joined):
        if _linear(op, joined, axis):
            found.append(op)
            continue
        inside = op.kind in _INSIDE_CHANNEL and axis == 1 and is_mover(op) and not getattr(op.attrs, "value", 0.0)
        behind = _readers(graph, op.out, axis, seen) if inside else []
        if not behind:
            return []
        found += behind
    return list(dict.fromkeys(found))


def _linear(op: Op, x: Tensor, axis: int) -> bool:
    if op.device != "BPU" or not with_weights(op) or op.inputs.count(x) != 1 or op.input(0) is not x:
        return False
    if isinstance(op.attrs, ConvAttrs):
        return op.kind == "Conv" and op.attrs.group == 1 and axis == 1
    return isinstance(op.attrs, MatMulAttrs) and axis == x.rank - 1


def _reader_weights(op: Op, gains: np.ndarray) -> np.ndarray:
    """The reader's weights with each input channel's slice divided by that channel's gain."""
    w = op.input(1).value().astype(np.float64)
    if op.kind == "MatMul":
        return np.asarray(w / gains[:, None])
    return np.asarray(w / gains.reshape(1, -1, *[1] * (w.ndim - 2)))


def _branches(graph: Graph, ctx: PassContext, concat: Op) -> list[Branch]:
    axis, start, found = _axis(concat), 0, []
    for tensor in concat.inputs:
        assert tensor is not None, "Concat has no optional operands"
        stop = start + tensor.shape[axis]
        chain = _chain(graph, tensor, concat)
        if chain is not None and tensor.name in ctx.ranges and ctx.ranges[tensor.name].threshold > 0:
            seen = ctx.ranges[tensor.name]
            # the whole range, not the observer's threshold: scaling must not clip what the shared scale kept
            found.append(Branch(start, stop, max(seen.threshold, -seen.low, seen.high), *chain))
        start = stop
    return found


def _chain(graph: Graph, tensor: Tensor, reader: Op) -> tuple[Op, tuple[Tensor, ...]] | None:
    """The producer with weights behind a tensor and the tensors between, where only `reader` sees them."""
    tensors = []
    while tensor.const is None and graph.sole_consumer(tensor) is reader:
        tensors.append(tensor)
        producer = graph.producer(tensor)
        if producer is None or producer.device != "BPU" or len(producer.outputs) != 1:
            return None
        if with_weights(producer):
            return (producer, tuple(tensors)) if producer.maybe(3) is None else None
        if producer.kind not in _HOMOGENEOUS or getattr(producer.attrs, "value", 0.0) != 0.0:
            return None
        tensor, reader = producer.input(0), producer
    return None


def _scale_branch(graph: Graph, ctx: PassContext, branch: Branch, r: float) -> None:
    op = branch.producer
    for index in (1, 2):
        operand = op.maybe(index)
        if operand is not None:
            set_const(graph, op, index, as_float32(operand.value().astype(np.float64) * r), f"{op.name}_{index}")
    if op.input(1).name in ctx.weights:
        ctx.weights[op.input(1).name] = ctx.weights[op.input(1).name] * r
    attrs = op.attrs
    if isinstance(attrs, ConvAttrs | MatMulAttrs):
        low, high = (None if v is None else v * r for v in (attrs.low, attrs.high))
        op.attrs = replace(attrs, low=low, high=high)
    for tensor in branch.tensors:
        tensor.gain = tuple(g * r for g in tensor.gain)
        _scale_statistics(ctx, tensor, r)
        seen = ctx.ranges.get(tensor.name)
        if seen is not None:
            ctx.ranges[tensor.name] = Range(
                seen.low * r, seen.high * r, seen.threshold * r, seen.observer, seen.assumed
            )


def _scale_statistics(ctx: PassContext, tensor: Tensor, gain: np.ndarray | float) -> None:
    """What calibration saw of the tensor's channels, now that they hold `gain` times as much."""
    seen = ctx.channels.get(tensor.name)
    if seen is not None and (np.ndim(gain) == 0 or np.shape(gain) == seen.peak.shape):
        scaled = ChannelStats(seen.axis, seen.peak * gain, seen.mean * gain, seen.square * np.square(gain))
        ctx.channels[tensor.name] = scaled
    else:
        ctx.channels.pop(tensor.name, None)
