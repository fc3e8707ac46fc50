"""int16 at the ends of the network where 8 bits ruin what the network takes or gives.

Behind the last op that multiplies and accumulates, int16 costs no multiplications. Yet that is where a head joins boxes
with scores in one output, whose ranges differ by a factor of 8 or more, or tears the channels of a convolution apart,
so that its accumulator cannot be the output. And a network input whose channels differ so much (raw features, unlike
pixels) has one scale, as a border gives no other. Decided by the measured error of the network's outputs, whole and
channel by channel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from bpuc.ir import Graph, Tensor
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.macs import macs_of
from bpuc.passkit.requests import asked_dtypes
from bpuc.passkit.scales import quantized_tensors
from bpuc.passkit.search import keep_gains
from bpuc_passes.choose_dtypes import ChooseDtypes
from bpuc_passes.keep_accumulators import may_stay
from bpuc_passes.share_scales import TELL_BITS
from bpuc_passes.widen_parts import widen
from bpuc_passes.widen_sensitive import may_widen, type_groups

# what int16 has to gain at the outputs for each group of tensors, chosen by hand; trials at most
_LEAST_DB, _TRIALS = 0.25, 6


@dataclass(frozen=True)
class WidenEnds(Pass):
    """Ask for int16 behind the last multiplications, and for inputs of uneven channels, where the outputs gain."""

    name = "widen-ends"
    numerics = Numerics.DECIDES
    needs = Stage.PLACED
    refines = True

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        if ctx.judge is None or not ctx.options.auto_int16 or not ctx.need_target().int16_activations:
            return []
        found = _candidates(graph, ctx)
        trials = min(_TRIALS, ctx.budget.left // 2 - 1)
        kept, gain = keep_gains([*found], partial(_score, graph, ctx, found), _LEAST_DB, trials, budget=ctx.budget)
        changes = []
        for name in kept:
            widen(ctx, found[name])
            what = "int16 for an input of uneven channels" if name in _inputs(graph) else "int16 at the end"
            changes.append(Change(what, name, f"the outputs gain {gain:.2f} dB by all {len(kept)}"))
        return changes


def _candidates(graph: Graph, ctx: PassContext) -> dict[str, list[Tensor]]:
    """Groups of one type by the name of a tensor in each: uneven inputs, then ends, those next to the outputs first."""
    taken = {t.name for t in asked_dtypes(graph, ctx, quantized_tensors(graph), lambda *_: None)}
    taken |= {*ctx.file_scales, *ctx.prefer_int16}
    free = [g for g in type_groups(graph) if not taken & {t.name for t in g} and may_widen(graph, ctx, g)]
    inputs = {*graph.inputs}
    # an observer that was named decides alone: wider integers would undo what it cuts off
    uneven = [
        g for g in free if ctx.options.tune and any(t in inputs and _bits_apart(ctx, [t]) >= TELL_BITS for t in g)
    ]
    place = {t: i for i, op in enumerate(graph) for t in op.outputs}
    kept, torn = may_stay(graph, ctx)
    ruined = [t for g in free if torn & {*g} or _bits_apart(ctx, g) >= TELL_BITS for t in g if t in graph.outputs]
    between = _behind_products(graph) & _before(graph, ruined) - _before_products(graph) - kept - inputs
    ends = [g for g in free if between >= {*g}]
    ends.sort(key=lambda g: -max(place.get(t, -1) for t in g))
    return {g[0].name: g for g in (*uneven, *ends)}


def _bits_apart(ctx: PassContext, group: list[Tensor]) -> float:
    """log2 of the largest over the smallest range of tensors of one type and their channels; silent ones aside."""
    peaks = [ctx.ranges[t.name].threshold for t in group if t.name in ctx.ranges]
    for t in group:
        seen = ctx.channels.get(t.name)
        peaks += seen.peak[seen.peak > 0].tolist() if seen is not None else []
    return math.log2(max(peaks) / min(peaks)) if peaks and min(peaks) > 0 else 0.0


def _behind_products(graph: Graph) -> set[Tensor]:
    """What an op with multiply-accumulates gives, and all that is computed from it."""
    found: set[Tensor] = set()
    for op in graph:
        if macs_of(op) > 0 or any(t in found for t in op.inputs):
            found.update(op.outputs)
    return found


def _before(graph: Graph, tensors: list[Tensor]) -> set[Tensor]:
    """The tensors, and all that they are computed from."""
    found = {*tensors}
    for op in reversed(list(graph)):
        if any(t in found for t in op.outputs):
            found.update(t for t in op.inputs if t is not None)
    return found


def _before_products(graph: Graph) -> set[Tensor]:
    """All that ops with multiply-accumulates read, directly or not."""
    return _before(graph, [t for op in graph if macs_of(op) > 0 for t in op.inputs if t is not None])


def _inputs(graph: Graph) -> set[str]:
    return {t.name for t in graph.inputs}


def _score(graph: Graph, ctx: PassContext, found: dict[str, list[Tensor]], names: list[str]) -> np.ndarray:
    graph, ctx = graph.copy(), ctx.twin()
    for name in names:
        widen(ctx, found[name])
    ChooseDtypes().run(graph, ctx)
    assert ctx.judge is not None
    return ctx.judge(graph, ctx, by_channel=True)
