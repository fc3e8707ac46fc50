"""Move Rescales through data movement to where the fewest elements are, and let them meet there.

    Rescale(Resize(x))                     ->  Resize(Rescale(x))          where the op makes its operand larger
    Rescale(MaxPool(x)), Rescale(x)        ->  r = Rescale(x), MaxPool(r)  where the operand is rescaled to that anyway
    Rescale(a), Rescale(b) of a, b = Split ->  Split(Rescale(x))
    Slice(Rescale(x))                      ->  Rescale(Slice(x))           where the op makes its operand smaller

A Rescale maps each element by one function that never falls and keeps 0; ops that copy, pick or order elements, or fill
with 0, give the same integers before and after it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bpuc.ir import Graph, Op, QuantParams, Tensor
from bpuc.ops.attrs import NoAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.context import Avoided
from bpuc.passkit.scales import is_mover

# those with one operand of data
_THROUGH = {
    *("Resize", "Expand", "Tile", "Pad", "MaxPool", "Reshape", "Transpose", "Slice", "Gather", "Split"),
    *("DepthToSpace", "SpaceToDepth", "ReduceMax", "ReduceMin"),
}


@dataclass(frozen=True)
class HoistRescales(Pass):
    """Rescales go in front of ops that grow, behind ops that shrink; with ``--share-scales never`` none are merged."""

    name = "hoist-rescales"
    numerics = Numerics.EXACT
    needs = Stage.LEGAL

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        merge = ctx.options.share_scales != "never"
        if not any(op.kind == "Rescale" for op in graph):
            return []
        movers = [op for op in graph if passes(op)]
        changes = [c for op in reversed(movers) for c in _hoist(graph, ctx, op, merge)]
        return changes + [c for op in movers for c in _sink(graph, ctx, op)]


def passes(op: Op) -> bool:
    """Whether a Rescale may go through the op."""
    return op.kind in _THROUGH and is_mover(op) and getattr(op.attrs, "value", 0.0) == 0.0


def _hoist(graph: Graph, ctx: PassContext, mover: Op, merge: bool) -> list[Change]:
    """Rescale the operand in place of all results, where nobody reads these at the old scale."""
    rescales: list[Op] = []
    for out in mover.outputs:
        stays = out in graph.outputs or out.name in ctx.options.fixed_scales
        if stays or any(op.kind != "Rescale" for op in graph.consumers(out)):
            return []
        rescales += graph.consumers(out)
    wanted = {op.out.quant for op in rescales}
    quant = next(iter(wanted), None)
    plain = all(q is not None and len(q.scale) == 1 for q in (quant, mover.input(0).quant))
    if len(wanted) != 1 or quant is None or not plain or len(rescales) != len(mover.outputs):
        return []
    operand, results = mover.input(0), sum(op.out.elements for op in rescales)
    there = next((op for op in graph.consumers(operand) if op.kind == "Rescale" and op.out.quant == quant), None)
    grows = operand.elements < results
    if not grows and not (merge and (there is not None or (len(rescales) > 1 and operand.elements == results))):
        return []
    first = rescales[0]
    rescaled = _rescale(graph, operand, quant, first) if there is None else there.out
    changes = []
    for rescale in rescales:
        result, out = rescale.out, rescale.input(0)
        graph.replace_uses(result, out)
        graph.erase(rescale)
        out.quant, out.dtype = quant, quant.dtype
        if rescale is first and there is None:
            _note(ctx, rescale, operand)
            why = f"{operand.elements} instead of {results} elements"
            changes.append(Change(f"moved in front of {mover.kind} {mover.name}", rescale.name, why))
        else:
            for r in [r for r in ctx.rescales if r.name == rescale.name]:
                ctx.rescales.remove(r)
                ctx.avoided.append(
                    Avoided(r.node, r.tensor, 0.0, f"merged with {first.name if there is None else there.name}")
                )
                ctx.avoided_elements[r.node, r.tensor] = r.elements
            why = f"{operand.name} is rescaled in front of {mover.kind} {mover.name}"
            changes.append(Change("merged Rescale", rescale.name, why))
    graph.set_input(mover, 0, rescaled)
    return changes


def _sink(graph: Graph, ctx: PassContext, mover: Op) -> list[Change]:
    """Rescale the result in place of the operand, where that is smaller."""
    rescale = graph.producer(mover.input(0))
    if rescale is None or rescale.kind != "Rescale" or graph.sole_consumer(rescale.out) is not mover:
        return []
    out, operand = mover.outputs[0], rescale.input(0)
    quant = out.quant
    shrinks = len(mover.outputs) == 1 and out.elements < operand.elements
    if not shrinks or quant is None or operand.quant is None or len(quant.scale) > 1 or len(operand.quant.scale) > 1:
        return []
    before = graph.new_tensor(out, f"{out.name}{rescale.name}")
    before.quant, before.dtype = operand.quant, operand.quant.dtype
    graph.set_input(mover, 0, operand)
    graph.rebind(mover, 0, before)
    graph.erase(rescale)
    graph.add("Rescale", NoAttrs(), [before], [out], name=rescale.name, like=rescale, serial=mover.serial)
    _note(ctx, rescale, out)
    why = f"{out.elements} instead of {operand.elements} elements"
    return [Change(f"moved behind {mover.kind} {mover.name}", rescale.name, why)]


def _rescale(graph: Graph, operand: Tensor, quant: QuantParams, like: Op) -> Tensor:
    result = graph.new_tensor(operand, f"{operand.name}{like.name}")
    result.quant, result.dtype = quant, quant.dtype
    graph.add("Rescale", NoAttrs(), [operand], [result], name=like.name, like=like)
    return result


def _note(ctx: PassContext, rescale: Op, tensor: Tensor) -> None:
    """The record of a Rescale that reads another tensor now."""
    ctx.rescales = [
        replace(r, tensor=tensor.name, elements=tensor.elements) if r.name == rescale.name else r for r in ctx.rescales
    ]
