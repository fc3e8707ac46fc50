"""Legalise what scale sharing left over: one explicit Rescale per tensor and wanted scale.

Named ``_hz_<node>_rescale_<operand>``, as users know it. A constant is requantized at compile time instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from bpuc.ir import Graph, Op, QuantParams, Tensor
from bpuc.ops.attrs import NoAttrs
from bpuc.passkit import Change, Group, Numerics, Pass, PassContext, Stage
from bpuc.passkit.context import RescaleRecord
from bpuc.passkit.scales import is_mover, one_scale, operand_quant
from bpuc_passes.choose_dtypes import takes_int16


@dataclass(frozen=True)
class InsertRescales(Pass):
    """Operands of data movement get the scale of the result; operands that an op cannot read as int16 become int8."""

    name = "insert-rescales"
    numerics = Numerics.DECIDES
    needs = Stage.QUANTIZED
    gives = Stage.LEGAL

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        made: dict[tuple[Tensor, QuantParams], Tensor] = {}
        groups = {name: g for g in ctx.groups for name in g.tensors}
        changes: list[Change] = []
        for op in graph:
            if op.device != "BPU":
                continue
            for index, tensor in enumerate(op.inputs):
                wanted = None if tensor is None else self._wanted(graph, ctx, op, index, tensor)
                if tensor is None or wanted is None:
                    continue
                if (tensor, wanted) not in made:
                    made[tensor, wanted] = self._rescale(graph, ctx, op, index, wanted, groups, changes)
                graph.set_input(op, index, made[tensor, wanted])
        return changes

    def _wanted(self, graph: Graph, ctx: PassContext, op: Op, index: int, tensor: Tensor) -> QuantParams | None:
        have = tensor.quant
        if have is None:
            return None
        if is_mover(op):
            wanted = operand_quant(op, index)
            return wanted if wanted is not None and wanted != have else None
        if one_scale(op, ctx.target):
            wanted = op.out.quant
            return wanted if wanted is not None and wanted.dtype == have.dtype and wanted != have else None
        if have.dtype.value == "int16" and tensor.const is None and not takes_int16(graph, op, ctx):
            narrow = type(have.dtype).INT8
            ratio = have.dtype.qmax / narrow.qmax
            return QuantParams(narrow, tuple(s * ratio for s in have.scale), have.axis)
        return None

    def _rescale(
        self,
        graph: Graph,
        ctx: PassContext,
        op: Op,
        index: int,
        wanted: QuantParams,
        groups: Mapping[str, Group],
        changes: list[Change],
    ) -> Tensor:
        tensor = op.input(index)
        name = f"_hz_{op.name}_rescale_{index}"
        result = graph.new_tensor(tensor, f"{tensor.name}{name}")
        result.quant, result.dtype = wanted, wanted.dtype
        if tensor.const is not None:
            result.const, result.dtype = tensor.const, tensor.dtype
            return result
        node = graph.add("Rescale", NoAttrs(), [tensor], [result], name=graph.unique(name), serial=op.serial)
        node.device = "BPU"
        assert tensor.quant is not None
        record = RescaleRecord(
            node.name, op.name, index, tensor.name, tensor.quant.unit, wanted.unit, "", "", elements=tensor.elements
        )
        _explain(ctx, op, record, wanted, groups)
        ctx.rescales.append(record)
        changes.append(Change("inserted Rescale", node.name, record.reason))
        return result


def _explain(ctx: PassContext, op: Op, record: RescaleRecord, wanted: QuantParams, groups: Mapping[str, Group]) -> None:
    """Fill in why the Rescale is there and what would remove it."""
    tensor = op.input(record.input_index)
    have = tensor.quant
    assert have is not None
    march = ctx.need_target().march
    if have.dtype != wanted.dtype and op.kind != "Concat":
        record.reason = f"{op.onnx_type} {op.name} reads {wanted.dtype} on {march}, {tensor.name} is {have.dtype}"
        record.remedy = f"--dtype {tensor.name}=int8"
        record.yaml = f"bpuc:\n  dtype: {{{json.dumps(tensor.name)}: int8}}"
        return
    refusal = ctx.cut_reasons.get((op.name, record.input_index))
    why = refusal.why if refusal is not None else "its scale differs"
    record.reason = (
        f"{op.onnx_type} {op.name} needs one scale for all operands: {tensor.name} has {have.unit:.6g}"
        f"{_origin(ctx, tensor.name)}, the result {wanted.unit:.6g}{_setter(ctx, op.outputs[0].name, groups)}; {why}"
    )
    if refusal is not None:
        record.bits_lost, record.readers = round(refusal.bits, 4), list(refusal.readers)
    record.remedy = f"--share {tensor.name}" if refusal is None else refusal.remedy
    words = record.remedy.partition(" instead of ")[0]
    if words.startswith("--share "):
        record.yaml = f"bpuc:\n  share: [{json.dumps(words.removeprefix('--share '))}]"
    elif words.startswith("--share-scales "):
        record.yaml = f"bpuc:\n  share_scales: {words.removeprefix('--share-scales ')}"


def _origin(ctx: PassContext, name: str) -> str:
    """Who gave a tensor its scale: the user, the model file, or an observer."""
    if name in ctx.options.fixed_scales:
        return ", fixed by the model file" if name in ctx.fixed_by_file else f", from --fixed-scale {name}"
    seen = ctx.ranges.get(name)
    return "" if seen is None else f", from observer {seen.observer}"


def _setter(ctx: PassContext, joined: str, groups: Mapping[str, Group]) -> str:
    """The tensor that set the scale of a concat's group: a fixed one, or that which loses nothing."""
    group = groups.get(joined)
    if group is None:
        return _origin(ctx, joined)
    fixed = [n for n in group.tensors if n in ctx.options.fixed_scales]
    widest = [n for n, lost in group.bits_lost.items() if lost == 0 and n in ctx.ranges]
    name = next(iter(fixed + widest), joined)
    return f" set by {name}{_origin(ctx, name)}"
