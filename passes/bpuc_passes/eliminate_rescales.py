"""Remove rescales that are provably redundant: same scale on both sides, or results that nobody reads."""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.ir import Graph
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage


@dataclass(frozen=True)
class EliminateRescales(Pass):
    """Identity and dead Rescales go; duplicates never arise, since one is made per tensor and scale."""

    name = "eliminate-rescales"
    numerics = Numerics.EXACT
    needs = Stage.LEGAL

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            if op.kind != "Rescale":
                continue
            source, result = op.input(0), op.out
            if source.quant == result.quant:
                graph.replace_uses(result, source)
                why = "same scale on both sides"
            elif not graph.uses(result) and result not in graph.outputs:
                why = "nobody reads it"
            else:
                continue
            graph.erase(op)
            ctx.rescales = [r for r in ctx.rescales if r.name != op.name]
            changes.append(Change("removed Rescale", op.name, why))
        return changes
