"""Transpose: axes in another order."""

from __future__ import annotations

from typing import Any, cast

from bpuc.ir import Op
from bpuc.ops.attrs import TransposeAttrs
from bpuc.ops.base import Behaviour, Builder, Exporter, OnnxNode, OpDef, Shape
from bpuc.ops.common import ints


class Transpose(OpDef):
    """Output axis i is input axis perm[i]."""

    kind = "Transpose"
    attrs = TransposeAttrs
    onnx = ("Transpose",)
    behaviour = Behaviour.MOVES

    def parse(self, node: OnnxNode, build: Builder) -> None:
        x = node.operand(0)
        build.op(self.kind, TransposeAttrs(ints(node, "perm", range(x.rank)[::-1])), [x], node.outputs)

    def infer(self, op: Op) -> list[Shape]:
        perm, shape = cast(TransposeAttrs, op.attrs).perm, op.input(0).shape
        if sorted(perm) != list(range(len(shape))):
            raise ValueError(f"{op.name}: {list(perm)} is no order of {len(shape)} axes")
        return [tuple(shape[p] for p in perm)]

    def export(self, op: Op, to: Exporter) -> None:
        to.node("Transpose", [to.operand(op.input(0))], [op.out.name], perm=cast(TransposeAttrs, op.attrs).perm)

    def facts(self, op: Op) -> dict[str, Any]:
        return {"perm": cast(TransposeAttrs, op.attrs).perm}


DEFS = (Transpose(),)
