"""Let conversions at CPU borders and tables do the work of the Rescale beside them.

    Dequantize(Rescale(x))  ->  Dequantize(x)   it reads the scale of x
    Table(Rescale(x))       ->  Table(x)        its entries are made for the scale of x
    Rescale(Quantize(x))    ->  Quantize(x)     it writes the second scale
    Rescale(Table(x))       ->  Table(x)        its entries hold the second scale

Data movement may stand between a Rescale and its readers: it hands on the scale of x then. One rounding takes the place
of two. The bound, for values that both scales hold: what a reader sees moves by at most half a step of the second
scale; what is written, by a step of the second scale and half a step of the first, so its integers move by at most one
unless the first step is twice the second. What one scale clips and the other holds is no longer clipped.

A scale that the user or the model file fixed stays. With ``--share-scales never`` each tensor keeps the scale that was
observed for it, so that nothing writes another one there.
"""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.ir import Graph, Op, Tensor
from bpuc.ops.base import Behaviour
from bpuc.ops.registry import get
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.context import Avoided
from bpuc.passkit.scales import is_mover


@dataclass(frozen=True)
class MergeRescales(Pass):
    """Rescales beside a table or a border conversion become part of it; the module's docstring has the bound."""

    name = "merge-rescales"
    numerics = Numerics.BOUNDED
    needs = Stage.LEGAL

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            if op.kind == "Rescale" and _plain(op.input(0)) and _plain(op.out):
                change = _into_readers(graph, ctx, op) or _into_producer(graph, ctx, op)
                changes += [change] if change is not None else []
        return changes


def _plain(tensor: Tensor) -> bool:
    return tensor.quant is not None and len(tensor.quant.scale) == 1 and set(tensor.gain) == {1.0}


def _keeps(ctx: PassContext, tensor: Tensor) -> bool:
    """Whether the user or the model file decided on the scale or the type of the tensor."""
    return tensor.name in {*ctx.options.fixed_scales, *ctx.options.keep_scales, *ctx.options.dtypes, *ctx.asked_dtypes}


def _any_scale(op: Op, tensor: Tensor) -> bool:
    """Whether the op reads the tensor, its only operand of data, at whatever scale that has."""
    if op.device == "CPU":
        return op.kind == "Dequantize"
    return get(op.kind).behaves(op) is Behaviour.MAPS and op.input(0) is tensor


def _into_readers(graph: Graph, ctx: PassContext, rescale: Op) -> Change | None:
    """Where only tables and Dequantize read the result, they read the operand."""
    source, result = rescale.input(0), rescale.out
    assert source.quant is not None
    assert result.quant is not None
    same_type = source.quant.dtype == result.quant.dtype
    handed, readers = [result], []
    for tensor in handed:  # grows on the way
        users = graph.consumers(tensor)
        if tensor in graph.outputs or not users or _keeps(ctx, tensor) or not _plain(tensor):
            return None
        for user in users:
            if _hands_on(user, tensor) and same_type:
                handed += user.outputs
            elif _any_scale(user, tensor) and (same_type or user.device == "CPU"):
                readers.append(user)
            else:
                return None
    for tensor in handed:
        tensor.quant, tensor.dtype = source.quant, source.quant.dtype
    maker = graph.producer(source)
    named = maker is not None and source.name.endswith(rescale.name) and graph.sole_consumer(source) is rescale
    if maker is not None and named:
        graph.absorb(maker, rescale)  # a Rescale behind data movement gives the tensor that the model names
    else:  # the model's own name is the operand's
        graph.replace_uses(result, source)
        graph.erase(rescale)
    _forget(ctx, rescale)
    names = ", ".join(dict.fromkeys(r.name for r in readers))
    return Change("merged Rescale into its readers", rescale.name, f"{names}: reads {source.name} at its own scale")


def _hands_on(op: Op, tensor: Tensor) -> bool:
    """Data movement of this tensor alone; filled places must hold 0, which is the same at every scale."""
    data = [t for t in op.inputs if t is not None and t.quant is not None]
    return is_mover(op) and op.kind != "Concat" and data == [tensor] and getattr(op.attrs, "value", 0.0) == 0.0


def _into_producer(graph: Graph, ctx: PassContext, rescale: Op) -> Change | None:
    """Where a table or a Quantize makes the operand for this Rescale alone, it writes the scale of the result."""
    source, result = rescale.input(0), rescale.out
    maker = graph.producer(source)
    assert source.quant is not None
    assert result.quant is not None
    if maker is None or graph.sole_consumer(source) is not rescale or ctx.options.share_scales == "never":
        return None
    quantizes = maker.kind == "Quantize" and maker.device == "CPU"
    looks_up = maker.device == "BPU" and get(maker.kind).behaves(maker) is Behaviour.MAPS
    if not (quantizes or looks_up) or source.quant.dtype != result.quant.dtype:
        return None
    if _keeps(ctx, source) or result in graph.outputs:
        return None
    for record in [r for r in ctx.rescales if r.name == rescale.name]:
        how = f"{maker.name} writes the scale that {record.node} wants"
        ctx.avoided.append(Avoided(record.node, record.tensor, 0.0, how))
        ctx.avoided_elements[record.node, record.tensor] = record.elements
    before = source.quant.unit
    source.quant = result.quant
    graph.replace_uses(result, source)
    graph.erase(rescale)
    _forget(ctx, rescale)
    why = f"{maker.name} writes {result.quant.unit:.6g} in place of {before:.6g}"
    return Change("merged Rescale into its producer", rescale.name, why)


def _forget(ctx: PassContext, rescale: Op) -> None:
    ctx.rescales = [r for r in ctx.rescales if r.name != rescale.name]
