"""int16 for the few tensors whose rounding to 8 bits costs the outputs most, where the march can.

Sensitivities are measured one at a time (`bpuc.calibrate.sensitivity`); tensors that data movement and concats tie have
one type, so they are judged together. What costs no multiplications (a value between a convolution and its table, a
head that only leaves the model) is taken first; of the rest, the most error for each multiplication in int16, as long
as their share of all multiplications stays small.
"""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.ir import Graph, Op, Tensor
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.macs import macs_of
from bpuc.passkit.scales import UnionFind, scale_classes
from bpuc_passes.choose_dtypes import gives_int16, takes_int16

# share of the multiply-accumulates that may read int16 (an int16 operand costs about twice the time)
_MACS = {2: 0.05, 3: 0.15}
# share that may read int16 for any reason, what other passes or the user asked for included, and still be widened
_MOST = 0.19
# share of the whole error below which a tensor stays int8
_WORTH = {2: 0.01, 3: 0.002}


@dataclass(frozen=True)
class WidenSensitive(Pass):
    """Choose int16 by measured sensitivity, from effort 2 on; for quantized files with zero points from 1 on."""

    name = "widen-sensitive"
    numerics = Numerics.DECIDES
    needs = Stage.PLACED
    refines = True

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        options = ctx.options
        if ctx.int16_effort < 2 or not options.auto_int16 or not ctx.sensitivity:
            return []
        if not ctx.need_target().int16_activations or ctx.int16_budget <= 0:
            return []
        whole = sum(ctx.sensitivity.values())
        macs = {op: macs_of(op) for op in graph if op.device == "BPU"}
        budget = _MACS[ctx.int16_effort] * ctx.int16_budget
        budget = min(budget, _MOST - _taken(ctx, macs)) * sum(macs.values())
        rows = []
        for group in type_groups(graph):
            error = sum(ctx.sensitivity.get(t.name, 0.0) for t in group)
            if error < _WORTH[ctx.int16_effort] * whole or not may_widen(graph, ctx, group):
                continue
            readers = dict.fromkeys(op for t in group for op, i in graph.uses(t) if i < 2)
            cost = sum(macs.get(op, 0.0) for op in readers)
            rows.append((cost / max(error, 1e-30), cost, error, group))
        changes = []
        for _, cost, error, group in sorted(rows, key=lambda r: (r[0], r[3][0].name)):
            if cost > budget:
                continue
            budget -= cost
            for t in group:
                ctx.prefer_int16.add(t.name)
                seen = ctx.ranges.get(t.name)
                if seen is not None:
                    # with 15 bits there is nothing to win by clipping
                    seen.threshold, seen.observer = max(seen.threshold, -seen.low, seen.high), "min_max"
            changes.append(
                Change("int16", group[0].name, f"{100 * error / whole:.1f} % of the error, measured one by one")
            )
        return changes


def _taken(ctx: PassContext, macs: dict[Op, float]) -> float:
    """Share of the multiply-accumulates that read int16 already."""
    asked = {n for n, dtype in {**ctx.calibrated_dtypes, **ctx.options.dtypes}.items() if dtype == "int16"}
    asked |= ctx.prefer_int16
    wide = sum(m for op, m in macs.items() if any(t is not None and t.name in asked for t in op.inputs[:2]))
    return wide / max(sum(macs.values()), 1.0)


def type_groups(graph: Graph) -> list[list[Tensor]]:
    """Tensors that have one type: tied by movement or joined by a concat."""
    classes, _, edges = scale_classes(graph)
    sets = UnionFind(len(classes))
    for e in edges:
        sets.union(e.member, e.target)
    found: dict[int, list[Tensor]] = {}
    for c in classes:
        found.setdefault(sets.find(c.index), []).extend(t for t in c.tensors if t.const is None)
    return [g for g in found.values() if g]


def may_widen(graph: Graph, ctx: PassContext, group: list[Tensor]) -> bool:
    """Whether the march has int16 for every op around the group, and no user asked for another type."""
    asked = ctx.options.dtypes
    for t in group:
        writer = graph.producer(t)
        if t.name in asked or t.name in ctx.options.fixed_scales:
            return False
        if writer is not None and writer.device == "BPU" and not gives_int16(graph, writer, ctx):
            return False
        if any(op.device == "BPU" and not takes_int16(graph, op, ctx) for op in graph.consumers(t)):
            return False
    return True
