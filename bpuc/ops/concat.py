"""Concat: tensors joined along an axis."""

from __future__ import annotations

from typing import Any, cast

from bpuc.ir import Op
from bpuc.ops.attrs import AxisAttrs
from bpuc.ops.base import Behaviour, Builder, Exporter, OnnxNode, OpDef, Shape
from bpuc.ops.common import axis_of


class Concat(OpDef):
    """Operands one behind the other."""

    kind = "Concat"
    attrs = AxisAttrs
    onnx = ("Concat",)
    behaviour = Behaviour.MOVES

    def parse(self, node: OnnxNode, build: Builder) -> None:
        out = node.outputs[0]
        operands = [t for t in node.inputs if t is not None and t.elements]
        if len(operands) == 1:
            build.alias(out, operands[0])
            return
        build.op(self.kind, AxisAttrs(axis_of(node, out.rank, 1)), operands, [out])

    def infer(self, op: Op) -> list[Shape]:
        axis = cast(AxisAttrs, op.attrs).axis
        shapes = [op.input(i).shape for i in range(len(op.inputs))]
        rest = {(s[:axis], s[axis + 1 :]) for s in shapes}
        if len(rest) != 1:
            raise ValueError(f"{op.name}: shapes {[list(s) for s in shapes]} differ beyond axis {axis}")
        first = shapes[0]
        return [(*first[:axis], sum(s[axis] for s in shapes), *first[axis + 1 :])]

    def export(self, op: Op, to: Exporter) -> None:
        operands = [to.operand(op.input(i)) for i in range(len(op.inputs))]
        to.node("Concat", operands, [op.out.name], axis=cast(AxisAttrs, op.attrs).axis)

    def facts(self, op: Op) -> dict[str, Any]:
        return {"axis": cast(AxisAttrs, op.attrs).axis}


DEFS = (Concat(),)
