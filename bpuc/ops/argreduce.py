"""ArgMax and ArgMin: the index of an extreme value, int64."""

from __future__ import annotations

from typing import Any, cast

from bpuc.ir import Op
from bpuc.ops.attrs import ArgAttrs
from bpuc.ops.base import Behaviour, Builder, Exporter, OnnxNode, OpDef, Shape
from bpuc.ops.common import axis_of
from bpuc.ops.reduce import reduced


class ArgReduce(OpDef):
    """The first (or last) index of the largest or smallest value along an axis."""

    attrs = ArgAttrs
    behaviour = Behaviour.COMPUTES

    def __init__(self, kind: str):
        self.kind, self.onnx = kind, (kind,)

    def parse(self, node: OnnxNode, build: Builder) -> None:
        x = node.operand(0)
        attrs = ArgAttrs(
            axis_of(node, x.rank, 0),
            bool(node.attrs.get("keepdims", 1)),
            bool(node.attrs.get("select_last_index", 0)),
        )
        build.op(self.kind, attrs, [x], node.outputs)

    def infer(self, op: Op) -> list[Shape]:
        a = cast(ArgAttrs, op.attrs)
        return [reduced(op.input(0).shape, (a.axis,), a.keepdims)]

    def export(self, op: Op, to: Exporter) -> None:
        facts = {name: int(value) for name, value in self.facts(op).items()}
        to.node(self.kind, [to.operand(op.input(0))], [op.out.name], **facts)

    def facts(self, op: Op) -> dict[str, Any]:
        a = cast(ArgAttrs, op.attrs)
        return {"axis": a.axis, "keepdims": a.keepdims, "select_last_index": a.last}


DEFS = (ArgReduce("ArgMax"), ArgReduce("ArgMin"))
