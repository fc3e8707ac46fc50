"""Give channels scales of their own where their writer and all readers can have it for free.

The writer requantizes every channel with its own multiplier anyway; a reading convolution takes the ratio into its
weights, a Dequantize at an output or before a CPU op into its scale. What is won in activations may be lost in weights
(one scale an output channel), so several strengths are compared by the noise that they predict, from the statistics
that calibration took of every channel, and the best is taken where it is good enough.

The noise of one reader is E|error|^2 over E|output|^2, the mean over its channels, with roundings that are independent
and spread evenly:
    activations  sum over taps of w^2 * min(s_c^2 / 12, E[x_c^2])
    weights      sum over taps of (u_k / s_c)^2 / 12 * E[x_c^2],   u_k = max |w s_c| / 127
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bpuc.base.channels import ChannelStats
from bpuc.ir import Graph, Op, QuantParams, Tensor
from bpuc.ops.attrs import ConvAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.channels import ChannelTies, Floats, channel_ties
from bpuc.passkit.rewrite import as_float32, set_const
from bpuc.passkit.scales import UnionFind, is_mover, quantized_tensors, scale_classes
from bpuc.passkit.weights import by_input, from_input, per_channel, with_weights
from bpuc_passes.share_scales import TELL_BITS

# strengths: 0 leaves one scale, 1 lets every channel use the whole range
_STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
# least ratio of the predicted noise that is worth it, by effort; nothing runs on the machine for it, but a report with
# a scale a channel is harder to read
_WORTH = {1: 1.5, 2: 1.1, 3: 1.05}
# a channel's scale is never below this part of its tensor's, so that no multiplier or weight leaves its range
_LEAST = 2.0**-10
# ratio of the largest value to the root of the mean square that a few thousand normal values have
_USUAL_CREST = 4.0
# so many values of a channel show how far it goes
_MANY = 4096
# a channel that uses this part of the range uses all of it
_FULL = 1 - 1e-6


@dataclass(frozen=True)
class ScaleChannels(Pass):
    """Scales per channel by predicted noise; see the module's docstring."""

    name = "scale-channels"
    numerics = Numerics.DECIDES
    needs = Stage.PLACED
    refines = True

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        options = ctx.options
        worth = _WORTH.get(options.effort)
        if worth is None or not options.channel_scales or not ctx.channels:
            return []
        apart = _joinable(graph, ctx) if options.share_scales == "never" else set()
        tensors = [t for t in quantized_tensors(graph) if t.quant is not None]
        ties = channel_ties(graph, tensors, _whole(tensors, ctx))
        changes: list[Change] = []
        lost = {n: b for g in ctx.groups for n, b in g.bits_lost.items()}
        gains: dict[str, float] = {}
        for part in _parts(ties, tensors):
            if not apart.isdisjoint(part):
                continue
            if options.effort < 2 and not (_alike(graph, part) or _far_tail(graph, lost, part)):
                continue
            found = _strength(graph, ctx, ties, part)
            if found is None or found[0] < worth:
                continue
            gain, factors = found
            changes += _apply(graph, ctx, part, factors, gain)
            gains |= {t.name: gain for t in part}
        _tell_groups(ctx, gains)
        return changes


def _joinable(graph: Graph, ctx: PassContext) -> set[Tensor]:
    """Tensors of classes that a Concat could join: with ``--share-scales never`` each keeps the scale observed."""
    classes, _, edges = scale_classes(graph, ctx.target)
    joined = {i for e in edges if e.member != e.target for i in (e.member, e.target)}
    return {t for i in joined for t in classes[i].tensors}


def _alike(graph: Graph, part: list[Tensor]) -> bool:
    """Whether nothing cuts or joins the channels of the part, so that its tensors keep scales that compare."""
    ops = {op for t in part for op in (graph.producer(t), *graph.consumers(t)) if op is not None}
    return not any(op.kind in ("Concat", "Split", "Slice", "Gather", "Pad", "Tile") and is_mover(op) for op in ops)


def _far_tail(graph: Graph, lost: dict[str, float], part: list[Tensor]) -> bool:
    """Whether a concat that only graph outputs read joins ranges so far apart that sharing would ruin some."""
    if max((lost.get(t.name, 0.0) for t in part), default=0.0) < TELL_BITS:
        return False
    members = set(part)
    return all(
        all(is_mover(op) and members >= set(op.outputs) for op in graph.consumers(t)) for t in part if t.const is None
    )


def _whole(tensors: list[Tensor], ctx: PassContext) -> set[Tensor]:
    """Tensors whose scale is not to be touched: fixed by the user, or already moved into weights."""
    fixed = ctx.options.fixed_scales
    return {t for t in tensors if t.name in fixed or set(t.gain) != {1.0}}


def _parts(ties: ChannelTies, tensors: list[Tensor]) -> list[list[Tensor]]:
    """Tensors whose channels are tied to one another, directly or not."""
    sets = UnionFind(len(tensors))
    seen: dict[int, int] = {}
    for i, t in enumerate(tensors):
        for root in ties.roots(t).tolist():
            sets.union(seen.setdefault(root, i), i)
    parts: dict[int, list[Tensor]] = {}
    for i, t in enumerate(tensors):
        parts.setdefault(sets.find(i), []).append(t)
    return list(parts.values())


def _strength(
    graph: Graph, ctx: PassContext, ties: ChannelTies, part: list[Tensor]
) -> tuple[float, dict[Tensor, Floats]] | None:
    """How many times smaller the predicted noise gets, and the factor of every channel; None where nothing can."""
    if any(t in _whole(part, ctx) for t in part):
        return None
    roots = {t: ties.roots(t) for t in part}
    ratio: dict[int, float] = {}
    for t in part:
        used = _used(t, ctx, ties)
        if used is None:
            return None
        for root, r in zip(roots[t].tolist(), np.broadcast_to(used, roots[t].shape).tolist()):
            ratio[root] = max(ratio.get(root, 0.0), r)
    if len(ratio) == 1 or all(r > 0.9 for r in ratio.values()):
        return None
    least = {root: max(r, _LEAST) if r < _FULL else 1.0 for root, r in ratio.items()}
    weights = {op: ReaderWeights.of(op) for t in part for op, i in graph.uses(t) if _reads_weighted(op, i)}
    best, plain, chosen = math.inf, math.inf, 0.0
    for strength in _STRENGTHS:
        factors = {t: np.array([least[r] for r in roots[t].tolist()]) ** strength for t in part}
        if strength and not all(_clamps_hold(graph, t, factors[t]) for t in part):
            continue
        noise = sum(_noise(graph, ctx, t, factors[t], ties, weights) for t in part)
        if strength == 0.0:
            plain = noise
        if noise < best:
            best, chosen = noise, strength
    if chosen == 0.0 or best <= 0:
        return None
    return plain / best, {t: np.array([least[r] for r in roots[t].tolist()]) ** chosen for t in part}


def _used(t: Tensor, ctx: PassContext, ties: ChannelTies) -> Floats | None:
    """Which part of the range each channel uses, 0..1; None where calibration did not see the channels."""
    assert t.quant is not None
    top = t.quant.threshold
    if t.const is not None:
        return np.array([min(1.0, float(np.abs(t.const).max(initial=0.0)) / top)])
    seen, known = ctx.channels.get(t.name), ctx.ranges.get(t.name)
    own = top if known is None else known.threshold
    if t in ties.axis and seen is not None and seen.axis == ties.axis[t]:
        values = ctx.samples * t.elements // max(len(seen.peak) * ctx.batch_size, 1)
        return np.minimum(1.0, np.minimum(_reach(seen, values), own) / top)
    return None if len(set(ties.roots(t).tolist())) > 1 else np.array([min(1.0, own / top)])


def _reach(seen: ChannelStats, count: int) -> Floats:
    """What a channel may reach on data that calibration did not see; count: of its values that were, 0 if not known.

    A channel that is mostly silent and then loud, such as one that answers to few classes, will be louder than ever
    seen: the range grows with the ratio of its peak to its root mean square, beyond what that is for channels that are
    always alive. And the largest of few values is passed by more: that of n normal ones is about
    sqrt(2 ln n) from their mean.
    """
    few = math.sqrt(math.log(_MANY) / math.log(count)) if 1 < count < _MANY else 1.0
    root = np.sqrt(np.maximum(seen.square, 1e-30))
    middle = np.minimum(np.abs(seen.mean), seen.peak)
    usual = middle + (seen.peak - middle) * few
    return np.maximum(usual, seen.peak**2 / root / _USUAL_CREST)


def _clamps_hold(graph: Graph, t: Tensor, factors: Floats) -> bool:
    """Whether the upper clamp of t's writer is implied by the type's range, in every channel."""
    writer = graph.producer(t)
    high = getattr(writer.attrs, "high", None) if writer is not None else None
    assert t.quant is not None
    uniform = factors.max() == factors.min()
    return high is None or uniform or bool((factors * t.quant.threshold <= high * (1 + 1e-6)).all())


def _noise(
    graph: Graph, ctx: PassContext, t: Tensor, factors: Floats, ties: ChannelTies, weights: dict[Op, ReaderWeights]
) -> float:
    """Predicted noise of all readers of t, each relative to its own signal."""
    seen = ctx.channels.get(t.name)
    if seen is None or t.const is not None or t not in ties.axis or seen.axis != ties.axis[t]:
        return 0.0
    assert t.quant is not None
    square = seen.square
    steps = t.quant.step * np.broadcast_to(factors, square.shape)
    rounding = np.minimum(steps**2 / 12, square)
    direct = float(rounding.sum() / max(square.sum(), 1e-30))
    # a float reader sees every channel on its own: against the peak, since the rest of a score is mostly zero
    peak = np.maximum(seen.peak, 1e-30)
    apart = float(np.where(seen.peak > 0, (steps / peak) ** 2 / 12, 0.0).mean())
    total = apart if t in graph.outputs else 0.0
    for op, index in graph.uses(t):
        if _reads_weighted(op, index):
            total += _reader_noise(weights[op], steps, rounding, square)
        elif op.device == "BPU":
            total += direct
        else:
            total += apart
    return total


def _reads_weighted(op: Op, index: int) -> bool:
    return op.device == "BPU" and index == 0 and with_weights(op)


def _reader_noise(weights: ReaderWeights, steps: Floats, rounding: Floats, square: Floats) -> float:
    """Of a weighted reader: see the module's docstring."""
    unit = weights.joined(weights.largest * steps[:, None], np.max) / 127
    ratio = weights.joined(np.broadcast_to((square / steps**2)[:, None], weights.power.shape), np.sum)
    noise = weights.joined(weights.power * rounding[:, None], np.sum) + weights.taps * unit**2 / 12 * ratio
    signal = weights.joined(weights.power * square[:, None], np.sum)
    alive = signal > 0
    return float(np.minimum(noise[alive] / signal[alive], 1.0).sum() / max(signal.size, 1))


@dataclass(frozen=True)
class ReaderWeights:
    """Of each input channel and output channel of its group, over the taps: sum of squares and largest magnitude."""

    power: Floats
    largest: Floats
    taps: int
    groups: int

    @classmethod
    def of(cls, op: Op) -> ReaderWeights:
        w = by_input(op, op.input(1).value())  # [C, its output channels, taps]
        groups = len(w) if op.kind == "Affine" else op.attrs.group if isinstance(op.attrs, ConvAttrs) else 1
        power = np.einsum("cot,cot->co", w, w, dtype=np.float64)
        return cls(power, np.abs(w).max(2).astype(np.float64), w.shape[2], groups)

    def joined(self, values: Floats, over: Callable[..., Floats]) -> Floats:
        """A value an output channel of [C, output channels of the group]."""
        return np.asarray(over(values.reshape(self.groups, -1, values.shape[1]), axis=1)).reshape(-1)


def _apply(
    graph: Graph, ctx: PassContext, part: list[Tensor], factors: dict[Tensor, Floats], gain: float
) -> list[Change]:
    changes = []
    for t in part:
        assert t.quant is not None
        f = factors[t]
        scale = tuple(float(t.quant.step * v) for v in f)
        one = len(set(scale)) == 1
        if one and scale[0] == t.quant.step:
            continue
        seen, dtype = ctx.channels.get(t.name), t.quant.dtype
        t.quant = QuantParams(dtype, scale[:1]) if one or seen is None else QuantParams(dtype, scale, seen.axis)
        changes.append(
            Change(
                f"{len(scale)} channels, scales {min(scale):.3g} to {max(scale):.3g}",
                t.name,
                f"predicted noise of the readers {gain:.2f} times smaller",
            )
        )
        if one or seen is None:
            continue
        for op, index in graph.uses(t):
            if op.device == "BPU" and index == 0 and with_weights(op):
                _scale_weights(graph, ctx, op, f / f.max())
    return changes


def _scale_weights(graph: Graph, ctx: PassContext, op: Op, ratio: Floats) -> None:
    """Move the ratio of the operand's channels into the weights; thresholds from a calibration file follow."""
    old = op.input(1)
    before = np.abs(per_channel(op)).max(1)
    scaled = from_input(op, by_input(op, old.value().astype(np.float64)) * ratio[:, None, None])
    set_const(graph, op, 1, as_float32(scaled), f"{op.name}_weights")
    asked = ctx.weights.get(old.name)
    if asked is not None and asked.shape == before.shape:
        after = np.abs(per_channel(op)).max(1)
        factor = np.where(before > 0, after / np.where(before > 0, before, 1), 1.0)
        ctx.weights[op.input(1).name] = asked * np.where(factor > 0, factor, 1.0)


def _tell_groups(ctx: PassContext, gains: dict[str, float]) -> None:
    """A scale a channel takes back what a shared one costs: bits lost and warnings of these tensors go.

    Args:
        gains: tensor -> how many times smaller the noise of its readers is.
    """
    for group in ctx.groups:
        for gain in dict.fromkeys(gains[n] for n in group.tensors if n in gains):
            group.reason += f"; scales differ by channel, noise of the readers {gain:.2f} times smaller"
        group.bits_lost = {n: 0.0 if n in gains else b for n, b in group.bits_lost.items()}
    ctx.warnings = [w for w in ctx.warnings if not (w.code == "coarse-member" and w.where in gains)]
