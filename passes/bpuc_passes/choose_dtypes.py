"""Choose int8 or int16 for every quantized tensor, from the user's requests and what the march can do."""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, Op, Tensor
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.requests import asked_dtypes, template_int16
from bpuc.passkit.scales import quantized_tensors, scale_classes
from bpuc.support.check import supports
from bpuc_passes.place_ops import facts_of


@dataclass(frozen=True)
class ChooseDtypes(Pass):
    """``--dtype NAME=int16``: a tensor, else a node, else an op type; data movement and concats carry it on.

    What the march cannot do falls back to int8 with a warning that names the tensor and the reason.
    """

    name = "choose-dtypes"
    numerics = Numerics.DECIDES
    needs = Stage.PLACED

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        quantized = dict.fromkeys(quantized_tensors(graph))
        wanted = asked_dtypes(graph, ctx, quantized, ctx.warn)
        ctx.asked_dtypes |= {t.name for t in wanted}
        target = ctx.need_target()
        if ctx.options.template == "int16" or target.int16_activations:
            wanted = {**dict.fromkeys(template_int16(graph, ctx, quantized), "int16"), **wanted}
        wanted |= {t: "int16" for t in _preferred(graph, ctx) if t not in wanted}
        if not wanted:
            return []
        able = {t for t in wanted if wanted[t] == "int16" and _can(graph, ctx, t)}
        if not able:
            return []
        # a class has one type, and a concat one for all its operands
        classes, of, edges = scale_classes(graph)
        wide = {of[t] for t in able if t in of}
        while True:
            more = {e.target for e in edges if e.member in wide} | {e.member for e in edges if e.target in wide}
            if more <= wide:
                break
            wide |= more
        changes = []
        for index in sorted(wide):
            for tensor in classes[index].tensors:
                producer = graph.producer(tensor)
                if producer is not None and producer.device == "BPU" and not gives_int16(graph, producer, ctx):
                    if wanted.get(tensor) != "int16":  # else `_can` has told
                        ctx.warn(
                            "int16-fallback",
                            f"int16 is carried on to {_named(graph, tensor)}, which {target.march} gives in int8 only; "
                            "so it stays int8",
                            tensor.name,
                        )
                    continue
                ctx.int16.add(tensor.name)
                changes.append(Change("int16", tensor.name, "asked for" if tensor in able else "carried on"))
        return changes


def _preferred(graph: Graph, ctx: PassContext) -> list[Tensor]:
    """What a pass would have in int16, where the march can do so on both sides of the tensor."""
    if not ctx.prefer_int16 or not ctx.need_target().int16_activations:
        return []
    found = []
    for op in graph:
        for t in op.outputs:
            readers = graph.consumers(t)
            inside = op.device == "BPU" and all(r.device == "BPU" for r in readers)
            if t.name in ctx.prefer_int16 and inside and gives_int16(graph, op, ctx):
                found += [t] if all(takes_int16(graph, r, ctx) for r in readers) else []
    return found


def _can(graph: Graph, ctx: PassContext, tensor: Tensor) -> bool:
    target = ctx.need_target()
    if not target.int16_activations:
        said = f"{_named(graph, tensor)}: {target.march} has no int16 activations, so it stays int8"
        ctx.warn("int16", said, tensor.name)
        return False
    producer = graph.producer(tensor)
    if producer is not None and producer.device == "BPU" and not gives_int16(graph, producer, ctx):
        said = f"{_named(graph, tensor)}: {target.march} has no int16 for this op, so it stays int8"
        ctx.warn("int16", said, tensor.name)
        return False
    return True


def _named(graph: Graph, tensor: Tensor) -> str:
    """A tensor and the op that gives it; op alone where they have one name."""
    op = graph.producer(tensor)
    if op is None:
        return tensor.name
    return f"{op.onnx_type} {op.name}" if op.name == tensor.name else f"{tensor.name} (of {op.onnx_type} {op.name})"


def gives_int16(graph: Graph, op: Op, ctx: PassContext) -> bool:
    """Whether the op may give int16 results on this march."""
    # an op reads int8 and gives int16 where its table says int16 at all; Conv and MatMul requantize to either
    if op.kind in ("Conv", "ConvTranspose", "MatMul", "Affine"):
        return ctx.need_target().int16_activations
    return supports(facts_of(graph, op), ctx.need_target()).int16


def takes_int16(graph: Graph, op: Op, ctx: PassContext) -> bool:
    """Whether the op may read int16 activations on this march."""
    return supports(facts_of(graph, op), ctx.need_target(), DType.INT16.value).ok
