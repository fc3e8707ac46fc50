"""Expand: a tensor repeated along its axes of length 1."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from bpuc.ir import Op
from bpuc.ops.attrs import ShapeAttrs
from bpuc.ops.base import Behaviour, Builder, Exporter, OnnxNode, OpDef, Shape


class Expand(OpDef):
    """Broadcast to a shape."""

    kind = "Expand"
    attrs = ShapeAttrs
    onnx = ("Expand",)
    behaviour = Behaviour.MOVES

    def parse(self, node: OnnxNode, build: Builder) -> None:
        x, out = node.operand(0), node.outputs[0]
        if x.shape == out.shape:
            build.alias(out, x)
            return
        build.op(self.kind, ShapeAttrs(out.shape), [x], [out])

    def infer(self, op: Op) -> list[Shape]:
        shape = cast(ShapeAttrs, op.attrs).shape
        if np.broadcast_shapes(op.input(0).shape, shape) != shape:
            raise ValueError(f"{op.name}: {list(op.input(0).shape)} does not expand to {list(shape)}")
        return [shape]

    def export(self, op: Op, to: Exporter) -> None:
        shape = to.const(np.array(cast(ShapeAttrs, op.attrs).shape, np.int64), f"{op.out.name}_shape")
        to.node("Expand", [to.operand(op.input(0)), shape], [op.out.name])

    def facts(self, op: Op) -> dict[str, Any]:
        return {"shape": cast(ShapeAttrs, op.attrs).shape}


DEFS = (Expand(),)
