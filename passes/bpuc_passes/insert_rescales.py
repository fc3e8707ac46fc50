"""Legalise what scale sharing left over: one explicit Rescale per tensor and wanted scale.

Named ``_hz_<node>_rescale_<operand>``, as users know it. A constant is requantized at compile time instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.ir import Graph, Op, QuantParams, Tensor
from bpuc.ops.attrs import NoAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.context import RescaleRecord
from bpuc.passkit.scales import is_mover, operand_quant
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
        changes: list[Change] = []
        for op in graph:
            if op.device != "BPU":
                continue
            for index, tensor in enumerate(op.inputs):
                wanted = None if tensor is None else self._wanted(graph, ctx, op, index, tensor)
                if tensor is None or wanted is None:
                    continue
                if (tensor, wanted) not in made:
                    made[tensor, wanted] = self._rescale(graph, ctx, op, index, tensor, wanted, changes)
                graph.set_input(op, index, made[tensor, wanted])
        return changes

    def _wanted(self, graph: Graph, ctx: PassContext, op: Op, index: int, tensor: Tensor) -> QuantParams | None:
        have = tensor.quant
        if have is None:
            return None
        if is_mover(op):
            wanted = operand_quant(op, index)
            return wanted if wanted is not None and wanted != have else None
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
        tensor: Tensor,
        wanted: QuantParams,
        changes: list[Change],
    ) -> Tensor:
        name = f"_hz_{op.name}_rescale_{index}"
        result = graph.new_tensor(tensor, f"{tensor.name}{name}")
        result.quant, result.dtype = wanted, wanted.dtype
        if tensor.const is not None:
            result.const, result.dtype = tensor.const, tensor.dtype
            return result
        node = graph.add("Rescale", NoAttrs(), [tensor], [result], name=graph.unique(name))
        node.serial, node.device = op.serial, "BPU"
        assert tensor.quant is not None
        reason, remedy = _explain(ctx, op, index, tensor, wanted)
        ctx.rescales.append(
            RescaleRecord(
                node.name,
                op.name,
                index,
                tensor.name,
                tensor.quant.unit,
                wanted.unit,
                reason,
                remedy,
                elements=tensor.elements,
            )
        )
        changes.append(Change("inserted Rescale", node.name, reason))
        return result


def _explain(ctx: PassContext, op: Op, index: int, tensor: Tensor, wanted: QuantParams) -> tuple[str, str]:
    have = tensor.quant
    assert have is not None
    march = ctx.need_target().march
    if have.dtype != wanted.dtype and op.kind != "Concat":
        reason = f"{op.onnx_type} {op.name} reads {wanted.dtype} on {march}, {tensor.name} is {have.dtype}"
        return reason, f"--dtype {tensor.name}=int8, if its accuracy allows"
    why = ctx.cut_reasons.get((op.name, index), "its scale differs")
    observed = ctx.ranges.get(tensor.name)
    seen = f", from observer {observed.observer}" if observed is not None else ""
    reason = (
        f"{op.onnx_type} {op.name} needs one scale for all operands: {tensor.name} has {have.unit:.6g}{seen}, "
        f"the result {wanted.unit:.6g}; {why}"
    )
    if "never" in why:
        remedy = "--share-scales auto"
    elif tensor.name in ctx.options.fixed_scales:
        remedy = (
            f"drop --fixed-scale {tensor.name}={ctx.options.fixed_scales[tensor.name]:g} or fix it at {wanted.unit:.9g}"
        )
    else:
        remedy = (
            f"--share-scales always, or --fixed-scale {tensor.name}={wanted.unit:.9g} (its other readers get coarser)"
        )
    return reason, remedy
