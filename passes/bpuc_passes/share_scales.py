"""Decide which concat operands share the concat's scale, and give every quantized tensor its scale.

Structure first, numbers second: classes of tensors that data movement ties together, then the concats that would join
classes, then for each class whether joining costs anything. A class that only its concat reads joins for free: its
producer requantizes once, straight to the shared scale. A class with other readers gets log2(T / t) bits coarser there;
it joins when that is little, or when a measurement on calibration data says that those readers hardly notice. Else it
keeps its own scale and one Rescale. Last, what the network's outputs make of it on calibration data: members that
joined at a price are taken apart again where the outputs gain enough for a Rescale and the time that it takes, and
members that were refused join where the outputs hardly notice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, QuantParams, Tensor
from bpuc.passkit import Change, Group, Numerics, Pass, PassContext, Stage
from bpuc.passkit.context import Avoided, Refusal
from bpuc.passkit.scales import ConcatEdge, ScaleClass
from bpuc.passkit.search import keep_gains
from bpuc.passkit.sharing import USUAL_BITS, Decision, bits_lost
from bpuc_passes.hoist_rescales import passes

# one value of a type of 8 bits beside eight of another: worth telling
TELL_BITS = 3.0
_MOVED = "values only move between them"
# members that lose a whole bit may be better apart; what each must gain at the outputs for its rescale (both chosen by
# hand: below a bit users expect sharing), and trials at most
_PAID_BITS, _LEAST_DB, _TRIALS = 1.0, 0.5, 8
# a rescale that takes a larger part of the network's time on the BPU has to gain that for each such part: what is
# smaller is below the error of the estimate, 2 to 5 % in the mean on the marches that were judged
_CHEAP = 0.03
# what the outputs may lose for each Rescale less
_LOSS_DB = 0.15

# a concat and the number of its operand
Place = tuple[str, int]


@dataclass(frozen=True)
class ShareScales(Pass):
    """Set `quant` of every quantized activation; see the module's docstring for the rule."""

    name = "share-scales"
    numerics = Numerics.DECIDES
    needs = Stage.PLACED

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        decision = _decide(graph, ctx)
        if ctx.judge is not None and ctx.options.share_scales == "auto":
            decision = _judged(graph, ctx, decision)
        if ctx.options.share_scales == "never":
            _tell_how_to_share(graph, ctx, decision)
        for c in decision.classes:
            threshold = decision.shared[c.index]
            for tensor in c.tensors:
                dtype = DType.INT16 if tensor.name in ctx.int16 else DType.INT8
                tensor.quant = QuantParams(dtype, (threshold / dtype.qmax,))
        for i in decision.cut:
            edge = decision.edges[i]
            ctx.cut_reasons[edge.op.name, edge.index] = decision.cut[i]
        for edge in _spared(decision):
            ctx.avoided.append(_avoided(decision, edge))
            ctx.avoided_elements[edge.op.name, edge.tensor.name] = edge.tensor.elements
        return _record(decision)


def _decide(graph: Graph, ctx: PassContext) -> Decision:
    """Cut by bits lost, then by the measured noise of the readers in doubt, where there are data."""
    decision = Decision.start(graph, ctx)
    decision.cut_edges()
    doubtful = decision.doubtful_readers()
    if doubtful and ctx.measure is None:
        ctx.warn(
            "no-measurement",
            "some concat operands keep their own scale by bits lost alone; with --data the error of their other "
            "readers would be measured",
        )
    elif ctx.measure is not None and doubtful:
        ctx.noise = ctx.measure(graph, doubtful)
        decision.cut = {}
        decision.cut_edges()
    return decision


def _tell_how_to_share(graph: Graph, ctx: PassContext, decision: Decision) -> None:
    """Which mode would remove each Rescale of ``--share-scales never``: auto where less than a bit is lost."""
    asked = ctx.options.max_bits_lost
    options = replace(
        ctx.options, share_scales="auto", max_bits_lost=min(_PAID_BITS, USUAL_BITS if asked is None else asked)
    )
    shared = Decision.start(graph, replace(ctx, options=options))
    shared.cut_edges()
    for i in decision.cut:
        mode = "always" if i in shared.cut else "auto"
        decision.cut[i] = replace(decision.cut[i], remedy=f"--share-scales {mode}")


def _judged(graph: Graph, ctx: PassContext, decision: Decision) -> Decision:
    """The decision with members taken apart where the outputs gain by it, and joined where they hardly notice."""
    paid = decision.paid(_PAID_BITS)
    known: dict[tuple[frozenset[Place], frozenset[Place]], np.ndarray] = {}

    def score(twin: PassContext) -> np.ndarray:
        key = frozenset(twin.apart), frozenset(twin.together)
        if key not in known:
            assert twin.judge is not None
            known[key] = twin.judge(graph, twin)
        return known[key]

    def weight(member: int) -> float:
        return max(1.0, _share(graph, decision, [member]) / _CHEAP)

    def apart(members: list[int]) -> np.ndarray:
        twin = ctx.twin()
        twin.apart |= _apart(decision, members, "in a trial")
        return score(twin)

    if ctx.budget.left < 2 or not (paid or decision.refused()):
        return decision
    trials = min(_TRIALS, ctx.budget.left // (2 if decision.refused() else 1) - 1)
    kept, gain = keep_gains(paid, apart, _LEAST_DB, trials, independent=True, budget=ctx.budget, weight=weight)
    if kept:
        ctx.apart |= _apart(decision, kept, _gained(graph, decision, kept, gain))
        decision = _decide(graph, ctx)
    # what was just taken apart is not asked again
    refused = [m for m in decision.refused() if m not in kept]

    def together(members: list[int]) -> np.ndarray:
        twin = ctx.twin()
        twin.together |= {(e.op.name, e.index) for e in decision.cut_from(members)}
        return score(twin)

    joined, _ = keep_gains(refused, together, -_LOSS_DB, _TRIALS, budget=ctx.budget)
    if joined:
        ctx.together |= {(e.op.name, e.index) for e in decision.cut_from(joined)}
        decision = _decide(graph, ctx)
    return decision


def _share(graph: Graph, decision: Decision, members: list[int]) -> float:
    """The part of the time of all ops on the BPU that rescales of these members would take; 0 where it is not known."""
    ctx = decision.ctx
    if ctx.rescale_us is None or ctx.bpu_us <= 0:
        return 0.0
    tensors = dict.fromkeys(_hoisted(graph, e.tensor) for e in decision.widest_of(members))
    return math.fsum(ctx.rescale_us(t.elements) for t in tensors) / ctx.bpu_us


def _hoisted(graph: Graph, tensor: Tensor) -> Tensor:
    """Where the Rescale of a tensor ends: in front of ops that alone make it larger (`HoistRescales`)."""
    while (mover := graph.producer(tensor)) is not None and passes(mover) and graph.sole_consumer(tensor) is not None:
        if len(mover.outputs) > 1 or mover.input(0).elements >= tensor.elements:
            break
        tensor = mover.input(0)
    return tensor


def _gained(graph: Graph, decision: Decision, members: list[int], gain: float) -> str:
    """Why members were taken apart: what that gains, and the time that it takes where that is known."""
    others = f" ({len(members)} such tensors together)" if len(members) > 1 else ""
    share = _share(graph, decision, members)
    price = f" for {100 * share:.2g} % of the time on the BPU (estimate)" if share else ""
    return f"the outputs are {gain:.2f} dB better on calibration data{price}{others}"


def _apart(decision: Decision, members: list[int], gained: str) -> dict[tuple[str, int], Refusal]:
    found = {}
    for e in decision.widest_of(members):
        c = decision.classes[e.member]
        why = f"with {c.tensors[0].name} at its own scale {gained}"
        readers = tuple(decision.readers_of(e))
        found[e.op.name, e.index] = Refusal(why, f"--share {e.tensor.name}", decision.loss(e), readers)
    return found


def _spared(decision: Decision) -> list[ConcatEdge]:
    """Edges that would have a Rescale if every class kept its own scale: one for each tensor and wanted scale.

    Constants are requantized when compiled; where one reader of the Rescale keeps it, the others save nothing.
    """
    found: dict[tuple[Tensor, float], ConcatEdge] = {}
    stays = set()
    for i, edge in enumerate(decision.edges):
        if edge.op.device == "BPU" and edge.tensor.const is None and decision.differs(edge):
            key = edge.tensor, decision.own[edge.target]
            found.setdefault(key, edge)
            stays |= {key} if i in decision.cut else set()
    return [edge for key, edge in found.items() if key not in stays]


def _avoided(decision: Decision, edge: ConcatEdge) -> Avoided:
    """The Rescale that sharing saves, and what joining costs and wins.

    One rounding at the shared step S in place of two, at the own step s and at S: the noise falls by
    10 log10(1 + s^2 / S^2) dB where the concat reads.
    """
    own, shared = decision.own[edge.member], decision.shared[edge.member]
    bits = round(decision.loss(edge), 2)
    joins = f"readers lose {bits:.2f} bits" if bits else "joins for free"
    noise = round(10 * math.log10(1 + (own / shared) ** 2), 2)
    return Avoided(edge.op.name, edge.tensor.name, 0.0, joins, bits, noise)


def _record(decision: Decision) -> list[Change]:
    """Groups of the report, warnings for members that lose many levels, and the changes."""
    members: dict[int, list[ScaleClass]] = {}
    concats: dict[int, dict[str, None]] = {}
    for c in decision.classes:
        members.setdefault(decision.find(c.index), []).append(c)
    for i, e in enumerate(decision.edges):
        if i not in decision.cut:
            concats.setdefault(decision.find(e.member), {})[e.op.name] = None
    changes = []
    for root, group in members.items():
        names = [n for c in group for n in c.names]
        if len(names) < 2:
            continue
        reason = f"joined by Concat {', '.join(concats[root])}" if root in concats else _MOVED
        shared = decision.shared[root]
        lost = {t.name: round(bits_lost(shared, _seen(decision, t)), 4) for c in group for t in c.tensors}
        decision.ctx.groups.append(Group(len(decision.ctx.groups), names, shared, reason, lost))
        changes.append(Change(f"{len(names)} tensors share threshold {shared:.6g}", names[0], reason))
        if root in concats:
            _tell_coarse(decision, group, shared)
    return changes


def _seen(decision: Decision, tensor: Tensor) -> float:
    known = decision.ctx.ranges.get(tensor.name)
    return known.threshold if known is not None and known.threshold > 0 else decision.own[decision.of[tensor]]


def _tell_coarse(decision: Decision, group: list[ScaleClass], shared: float) -> None:
    for c in group:
        ratio, name = shared / decision.own[c.index], c.tensors[0].name
        qmax = (DType.INT16 if name in decision.ctx.int16 else DType.INT8).qmax
        # 16 bits have enough levels for members that 8 would ruin
        if math.log2(ratio * DType.INT8.qmax / qmax) >= TELL_BITS:
            decision.ctx.warn(
                "coarse-member",
                f"{name} has a range {ratio:.3g} times smaller than its concat group: the ratio costs it "
                f"{math.log2(ratio):.1f} bits of precision ({qmax / ratio:.0f} of {qmax} levels are left)",
                name,
            )
