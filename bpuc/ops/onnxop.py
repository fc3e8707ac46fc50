"""Onnx: a node that has no op here, carried as it is and executed on the CPU."""

from __future__ import annotations

from typing import Any, cast

from bpuc.ir import Op
from bpuc.ops.attrs import OnnxAttrs
from bpuc.ops.base import Behaviour, Exporter, OpDef, Shape


class OnnxOp(OpDef):
    """Any ONNX node; `onnx_type` says which."""

    kind = "Onnx"
    attrs = OnnxAttrs
    behaviour = Behaviour.FLOAT

    def infer(self, op: Op) -> list[Shape]:
        return [t.shape for t in op.outputs]  # found at import by ONNX's own rules

    def export(self, op: Op, to: Exporter) -> None:
        a = cast(OnnxAttrs, op.attrs)
        operands = ["" if t is None else to.operand(t) for t in op.inputs]
        to.raw(a.proto, operands, [t.name for t in op.outputs], dict(a.opsets)[""])

    def facts(self, op: Op) -> dict[str, Any]:
        return dict(cast(OnnxAttrs, op.attrs).fields)


DEFS = (OnnxOp(),)
