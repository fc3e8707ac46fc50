"""Leave the accumulator as the result where nothing on the BPU computes with it: a high-precision output.

A last Conv, ConvTranspose or MatMul then gives int32 with the scale of its accumulator, one number a channel, and
Dequantize makes float of it; no rounding is left after the sums. Reshape and Transpose on the way move the int32 values
along as long as the channels stay on one axis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, Op, QuantParams, Tensor
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.channels import carried_axis, written_axis
from bpuc.passkit.qconfig import of_op
from bpuc.passkit.scales import is_mover
from bpuc.passkit.weights import by_channel, integer_weights, with_weights

_KINDS = ("Conv", "ConvTranspose", "MatMul")
# bound on |accumulator| beside int16 operands; half of int32, so that no later correction of a bias leaves the type
_WIDE_LIMIT = float(1 << 30)


@dataclass(frozen=True)
class KeepAccumulators(Pass):
    """int32 results for what only graph outputs and CPU ops read; a note on the output says why not where not."""

    name = "keep-accumulators"
    numerics = Numerics.DECIDES
    needs = Stage.PLACED

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        kept: set[str] = set()
        for op in graph:
            if op.device != "BPU" or op.kind not in _KINDS:
                continue
            chain = float_readers(graph, op)
            if not chain or _why_not(op, chain, ctx):
                continue
            for tensor, axis in chain.items():
                scale = accumulator_scale(op)
                tensor.quant = QuantParams(DType.INT32, scale, axis if len(scale) > 1 else None)
                kept.add(tensor.name)
            changes.append(
                Change("stays int32, one scale a channel", op.out.name, "nothing on the BPU computes with it")
            )
        ctx.groups = [g for g in ctx.groups if not kept >= set(g.tensors)]
        for tensor, name in zip(graph.outputs, graph.output_names):
            if tensor.quant is not None and tensor.const is None and tensor.name not in kept:
                ctx.output_notes[name] = _note(graph, tensor, ctx)
        self._tell(graph, ctx, kept)
        return changes

    def _tell(self, graph: Graph, ctx: PassContext, kept: set[str]) -> None:
        """Warn where high precision was asked for by name and cannot be."""
        if ctx.options.explicit_default:
            for name, why in ctx.output_notes.items():
                if why:
                    ctx.warn("output-precision", f"output {name} is not of high precision: {why}", name)
        for op in graph:
            rule = of_op(ctx.matches, op, "high_precision")
            if rule is not None and rule.high_precision and not any(t.name in kept for t in op.outputs):
                chain = float_readers(graph, op) if op.kind in _KINDS and op.device == "BPU" else {}
                why = _why_not(op, chain, ctx) if chain else "it is no last Conv or MatMul on the BPU"
                ctx.warn("output-precision", f"{rule.source}: {op.name} is not of high precision: {why}", op.name)


def float_readers(graph: Graph, op: Op) -> dict[Tensor, int | None]:
    """The op's result and what it only moves on into, with the axis of the channels (None: they are torn apart).

    Empty where an op on the BPU computes with any of these tensors, or nothing reads them.
    """
    found: dict[Tensor, int | None] = {op.out: written_axis(op)}
    todo = [op.out]
    while todo:
        tensor = todo.pop()
        for reader in graph.consumers(tensor):
            if reader.device != "BPU":
                continue
            if reader.kind not in ("Reshape", "Transpose") or not is_mover(reader):
                return {}
            axis = found[tensor]
            found[reader.out] = None if axis is None else carried_axis(reader, tensor, axis, reader.out)
            todo.append(reader.out)
    ends = [t for t in found if t in graph.outputs or any(r.device != "BPU" for r in graph.consumers(t))]
    return found if ends else {}


def may_stay(graph: Graph, ctx: PassContext) -> tuple[set[Tensor], set[Tensor]]:
    """What may leave as an accumulator, as far as that is known before there are scales; what cannot, as it is torn."""
    found: set[Tensor] = set()
    torn: set[Tensor] = set()
    if not ctx.options.high_precision_outputs or not ctx.need_target().int32_outputs:
        return found, torn
    for op in graph:
        if op.device != "BPU" or op.kind not in _KINDS or op.maybe(3) is not None:
            continue
        clamped = getattr(op.attrs, "low", None) is not None or getattr(op.attrs, "high", None) is not None
        chain = float_readers(graph, op)
        if not clamped:
            (torn if None in chain.values() and with_weights(op) else found).update(chain)
    return found, torn


def accumulator_scale(op: Op) -> tuple[float, ...]:
    x, w = op.input(0).quant, op.input(1).quant
    assert x is not None, f"{op.name}: its operand has no scale"
    assert w is not None, f"{op.name}: its weights have no scale"
    return tuple(x.unit * s for s in w.scale) if with_weights(op) else (x.unit * w.unit,)


def _why_not(op: Op, chain: dict[Tensor, int | None], ctx: PassContext) -> str:
    """Why the accumulator is not the result, "" where it can be."""
    rule = of_op(ctx.matches, op, "high_precision")
    if rule is not None and not rule.high_precision:
        return f"{rule.source} switches it off for {op.name}"
    if not ctx.options.high_precision_outputs and rule is None:
        return "high-precision outputs are switched off"
    if not ctx.need_target().int32_outputs:
        return f"{ctx.need_target().march} gives no int32 results"
    if getattr(op.attrs, "low", None) is not None or getattr(op.attrs, "high", None) is not None:
        return f"{op.name} clamps its result"
    if op.maybe(3) is not None:
        return f"{op.name} adds another tensor to its result"
    asked = [t.name for t in chain if t.name in ctx.options.fixed_scales or t.name in ctx.asked_dtypes]
    if asked:
        return f"a type or scale is asked for {asked[0]}"
    if any(set(t.gain) != {1.0} for t in chain):
        return "its range was equalized"
    if None in chain.values() and len(accumulator_scale(op)) > 1:
        return f"its channels, of one scale each, do not stay on one axis up to {list(chain)[-1].name}"
    return _too_large(op)


def _too_large(op: Op) -> str:
    """The bound of an accumulator of products with int16, where int32 might not hold it."""
    quants = [op.input(i).quant for i in (0, 1)]
    largest = [-q.dtype.qmin if q is not None else 0 for q in quants]
    if 32768 not in largest:
        return ""
    if with_weights(op):
        sums = np.abs(by_channel(op, integer_weights(op))).sum(1) * largest[0]
        bias = op.maybe(2)
        if bias is not None:
            sums = sums + np.abs(bias.value().astype(np.float64)) / np.asarray(accumulator_scale(op))
        bound = float(sums.max(initial=0))
    else:
        bound = float(op.input(0).shape[-1] * largest[0] * largest[1])
    return f"the accumulator of {op.name} could reach {bound:.3g}" if bound > _WIDE_LIMIT else ""


def _note(graph: Graph, tensor: Tensor, ctx: PassContext) -> str:
    """Why an output is not of high precision."""
    op = graph.producer(tensor)
    while op is not None and is_mover(op) and op.kind in ("Reshape", "Transpose"):
        op = graph.producer(op.input(0))
    if op is None:
        return "it is an input handed on"
    if op.device != "BPU":
        return ""
    if op.kind not in _KINDS:
        return f"{op.onnx_type} {op.name} has no accumulator to leave as it is"
    chain = float_readers(graph, op)
    return _why_not(op, chain, ctx) if chain else f"an op on the BPU reads the result of {op.name} too"
