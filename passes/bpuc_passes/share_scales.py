"""Decide which concat operands share the concat's scale, and give every quantized tensor its scale.

Structure first, numbers second: classes of tensors that data movement ties together, then the concats that would join
classes, then for each class whether joining costs anything. A class that only its concat reads joins for free: its
producer requantizes once, straight to the shared scale. A class with other readers loses log2(T / t) bits there and
joins when that is at most `max_bits_lost`; else it keeps its own scale and one Rescale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, QuantParams, Tensor
from bpuc.passkit import Change, Group, Numerics, Pass, PassContext, Stage
from bpuc.passkit.context import Avoided
from bpuc.passkit.scales import ConcatEdge, ScaleClass, UnionFind, scale_classes

# one value of a type of 8 bits beside one hundred of another: worth telling
_TELL_BITS = 3.0
_MOVED = "values only move between them"


@dataclass(frozen=True)
class ShareScales(Pass):
    """Set `quant` of every quantized activation; see the module's docstring for the rule."""

    name = "share-scales"
    numerics = Numerics.DECIDES
    needs = Stage.PLACED

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        classes, _, edges = scale_classes(graph)
        own = [_threshold(c, ctx) for c in classes]
        fixed = [_fixed(c, ctx) for c in classes]
        own = [o if f is None else f for o, f in zip(own, fixed)]
        cut = _cut_edges(classes, edges, own, fixed, ctx)
        joined = [e for i, e in enumerate(edges) if i not in cut]
        sets = _components(len(classes), joined)
        top = _group_thresholds(classes, sets, own, fixed)
        for scale_class in classes:
            root = sets.find(scale_class.index)
            for tensor in scale_class.tensors:
                dtype = DType.INT16 if tensor.name in ctx.int16 else DType.INT8
                tensor.quant = QuantParams(dtype, (top[root] / dtype.qmax,))
        changes = _record_groups(classes, sets, own, top, joined, ctx)
        for edge in joined:
            if own[edge.member] != own[edge.target]:
                ctx.avoided.append(Avoided(edge.op.name, edge.tensor.name))
                ctx.avoided_elements[edge.op.name, edge.tensor.name] = edge.tensor.elements
        ctx.cut_reasons.update({(edges[i].op.name, edges[i].index): why for i, why in cut.items()})
        return changes


def _threshold(scale_class: ScaleClass, ctx: PassContext) -> float:
    """Largest threshold among the members; constants count with their largest value."""
    values = []
    for tensor in scale_class.tensors:
        if tensor.const is not None:
            values.append(float(abs(tensor.const).max()) if tensor.const.size else 0.0)
        elif tensor.name in ctx.ranges:
            values.append(ctx.ranges[tensor.name].threshold)
    best = max(values, default=0.0)
    return best if best > 0 and math.isfinite(best) else 1.0


def _fixed(scale_class: ScaleClass, ctx: PassContext) -> float | None:
    """Threshold that the user fixed for a member."""
    for tensor in scale_class.tensors:
        if tensor.name in ctx.options.fixed_scales:
            dtype = DType.INT16 if tensor.name in ctx.int16 else DType.INT8
            return ctx.options.fixed_scales[tensor.name] * dtype.qmax
    return None


def _components(n: int, edges: list[ConcatEdge]) -> UnionFind:
    sets = UnionFind(n)
    for edge in edges:
        sets.union(edge.member, edge.target)
    return sets


def _group_thresholds(
    classes: list[ScaleClass], sets: UnionFind, own: list[float], fixed: list[float | None]
) -> dict[int, float]:
    top: dict[int, float] = {}
    pinned: dict[int, float] = {}
    for c in classes:
        root = sets.find(c.index)
        top[root] = max(top.get(root, 0.0), own[c.index])
        value = fixed[c.index]
        if value is not None:
            pinned[root] = max(pinned.get(root, 0.0), value)
    return {root: pinned.get(root, t) for root, t in top.items()}


def bits_lost(shared: float, own: float) -> float:
    """How many bits coarser a tensor of threshold `own` gets at the shared threshold: log2(T / t), at least 0."""
    return max(0.0, math.log2(shared / own))


def _cut_edges(
    classes: list[ScaleClass],
    edges: list[ConcatEdge],
    own: list[float],
    fixed: list[float | None],
    ctx: PassContext,
) -> dict[int, str]:
    """Edges that do not join, each with the reason. Only edges are removed from round to round, so it ends."""
    mode = ctx.options.share_scales
    if mode == "never":
        return {
            i: "--share-scales never: every tensor keeps its own scale"
            for i, e in enumerate(edges)
            if e.member != e.target
        }
    cut: dict[int, str] = {}
    while True:
        live = [(i, e) for i, e in enumerate(edges) if i not in cut and e.member != e.target]
        sets = _components(len(classes), [e for _, e in live])
        top = _group_thresholds(classes, sets, own, fixed)
        faults: dict[int, tuple[float, str]] = {}
        for _, e in live:
            c, root = classes[e.member], sets.find(e.member)
            fault = _fault(c, own[c.index], fixed[c.index], top[root], fixed[e.target], mode, ctx)
            if fault is not None:
                faults[c.index] = fault
        if not faults:
            return cut
        # the worst one first: its leaving may mend the others
        worst = max(faults, key=lambda i: (faults[i][0], min(classes[i].names)))
        cut.update({i: faults[worst][1] for i, e in live if e.member == worst})


def _fault(
    c: ScaleClass,
    own: float,
    fixed: float | None,
    shared: float,
    target_fixed: float | None,
    mode: str,
    ctx: PassContext,
) -> tuple[float, str] | None:
    """(how bad, why) where class c must not take the shared threshold."""
    name = c.tensors[0].name
    if fixed is not None and abs(fixed - shared) > 1e-9 * shared:
        return math.inf, f"{name} has a fixed scale"
    if target_fixed is not None and own > target_fixed * (1 + 1e-9) and c.readers:
        return math.inf, f"the concat's scale is fixed and would clip {name}, which {c.readers[0]} reads too"
    if mode == "always" or not c.readers:
        return None
    lost = bits_lost(shared, own)
    if lost <= ctx.options.max_bits_lost:
        return None
    readers = ", ".join(dict.fromkeys(c.readers))
    return lost, f"{readers} would read {name} {lost:.2f} bits coarser (limit {ctx.options.max_bits_lost:g})"


def _record_groups(
    classes: list[ScaleClass],
    sets: UnionFind,
    own: list[float],
    top: dict[int, float],
    joined: list[ConcatEdge],
    ctx: PassContext,
) -> list[Change]:
    members: dict[int, list[ScaleClass]] = {}
    concats: dict[int, dict[str, None]] = {}
    for c in classes:
        members.setdefault(sets.find(c.index), []).append(c)
    for e in joined:
        concats.setdefault(sets.find(e.member), {})[e.op.name] = None
    changes = []
    for root, group in members.items():
        names = [n for c in group for n in c.names]
        if len(names) < 2:
            continue
        reason = f"joined by Concat {', '.join(concats[root])}" if root in concats else _MOVED
        lost = {t.name: round(bits_lost(top[root], _own(t, own[c.index], ctx)), 4) for c in group for t in c.tensors}
        ctx.groups.append(Group(len(ctx.groups), names, top[root], reason, lost))
        changes.append(Change(f"{len(names)} tensors share threshold {top[root]:.6g}", names[0], reason))
        for c in group:
            coarse = bits_lost(top[root], own[c.index])
            if root in concats and coarse >= _TELL_BITS:
                name, ratio = c.tensors[0].name, top[root] / own[c.index]
                ctx.warn(
                    "coarse-member",
                    f"{name} has a range {ratio:.3g} times smaller than its concat group: the ratio costs it "
                    f"{coarse:.1f} bits of precision ({127 / ratio:.0f} of 127 levels are left)",
                    name,
                )
    return changes


def _own(tensor: Tensor, fallback: float, ctx: PassContext) -> float:
    known = ctx.ranges.get(tensor.name)
    return known.threshold if known is not None and known.threshold > 0 else fallback
