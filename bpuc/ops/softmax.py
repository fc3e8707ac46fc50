"""Softmax along one axis; the older form over a flattened matrix is turned into it."""

from __future__ import annotations

import math
from typing import Any, cast

from bpuc.ir import Op
from bpuc.ops.attrs import AxisAttrs, ShapeAttrs
from bpuc.ops.base import Behaviour, Builder, Exporter, OnnxNode, OpDef, Shape
from bpuc.ops.common import axis_of


class Softmax(OpDef):
    """exp(x) over its sum along an axis."""

    kind = "Softmax"
    attrs = AxisAttrs
    onnx = ("Softmax",)
    behaviour = Behaviour.COMPUTES

    def parse(self, node: OnnxNode, build: Builder) -> None:
        x, out = node.operand(0), node.outputs[0]
        axis = axis_of(node, x.rank, -1 if node.opset >= 13 else 1)
        if node.opset < 13:
            # before opset 13: over all axes from `axis` on, as one
            long = [i for i in range(axis, x.rank) if x.shape[i] > 1]
            if len(long) > 1:
                flat = (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
                matrix = build.temp(flat, x.dtype, f"{x.name}_matrix")
                result = build.temp(flat, x.dtype, f"{out.name}_matrix")
                build.op("Reshape", ShapeAttrs(flat), [x], [matrix], "Reshape")
                build.op(self.kind, AxisAttrs(1), [matrix], [result])
                build.op("Reshape", ShapeAttrs(out.shape), [result], [out], "Reshape")
                return
            axis = long[0] if long else min(axis, x.rank - 1)
        build.op(self.kind, AxisAttrs(axis), [x], [out])

    def infer(self, op: Op) -> list[Shape]:
        return [op.input(0).shape]

    def export(self, op: Op, to: Exporter) -> None:
        to.node("Softmax", [to.operand(op.input(0))], [op.out.name], axis=cast(AxisAttrs, op.attrs).axis)

    def facts(self, op: Op) -> dict[str, Any]:
        return {"axis": cast(AxisAttrs, op.attrs).axis}


DEFS = (Softmax(),)
