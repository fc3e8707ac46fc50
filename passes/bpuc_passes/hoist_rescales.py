"""Move a Rescale in front of data movement that makes the tensor larger.

    Rescale(Resize(x))  ->  Resize(Rescale(x))        for nearest Resize, Expand, Tile and zero Pad

Every element goes through the same requantization, and 0 stays 0, so the integers are equal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bpuc.ir import Graph, Op
from bpuc.ops.attrs import NoAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.scales import is_mover

_GROWING = ("Resize", "Expand", "Tile", "Pad")


@dataclass(frozen=True)
class HoistRescales(Pass):
    """A Rescale goes to where fewer bytes are: in front of the op that repeats or pads them."""

    name = "hoist-rescales"
    numerics = Numerics.EXACT
    needs = Stage.LEGAL

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for rescale in graph:
            mover = graph.producer(rescale.input(0)) if rescale.kind == "Rescale" else None
            if mover is None or not _hoistable(graph, mover, rescale):
                continue
            small, large, result = mover.input(0), mover.out, rescale.out
            before = graph.new_tensor(small, f"{small.name}{rescale.name}")
            before.quant, before.dtype = result.quant, result.dtype
            origin, name = mover.origin, mover.name
            rest = mover.inputs[1:]
            graph.rebind(rescale, 0, graph.new_tensor(result, result.name))
            graph.erase(rescale)
            graph.erase(mover)
            graph.add("Rescale", NoAttrs(), [small], [before], name=rescale.name, like=rescale)
            moved = graph.add(mover.kind, mover.attrs, [before, *rest], [result], name=name, origin=origin, like=mover)
            moved.onnx_type = mover.onnx_type
            ctx.rescales = [
                replace(r, tensor=small.name, elements=small.elements) if r.name == rescale.name else r
                for r in ctx.rescales
            ]
            why = f"{small.elements} instead of {large.elements} elements"
            changes.append(Change(f"moved in front of {mover.kind} {name}", rescale.name, why))
        return changes


def _hoistable(graph: Graph, mover: Op, rescale: Op) -> bool:
    grows = mover.kind in _GROWING and is_mover(mover) and mover.input(0).elements < mover.out.elements
    zero = getattr(mover.attrs, "value", 0.0) == 0.0
    return grows and zero and graph.sole_consumer(mover.out) is rescale
