"""Reshape, and what is nothing else: Flatten, Squeeze, Unsqueeze."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from bpuc.ir import Op
from bpuc.ops.attrs import ShapeAttrs
from bpuc.ops.base import Behaviour, Builder, Exporter, OnnxNode, OpDef, Shape


class Reshape(OpDef):
    """The same elements in the same order under another shape."""

    kind = "Reshape"
    attrs = ShapeAttrs
    onnx = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
    behaviour = Behaviour.MOVES

    def parse(self, node: OnnxNode, build: Builder) -> None:
        out = node.outputs[0]
        build.op(self.kind, ShapeAttrs(out.shape), [node.operand(0)], [out])

    def infer(self, op: Op) -> list[Shape]:
        shape = cast(ShapeAttrs, op.attrs).shape
        if math.prod(shape) != op.input(0).elements:
            raise ValueError(f"{op.name}: {list(op.input(0).shape)} has not the elements of {list(shape)}")
        return [shape]

    def export(self, op: Op, to: Exporter) -> None:
        shape = to.const(np.array(cast(ShapeAttrs, op.attrs).shape, np.int64), f"{op.out.name}_shape")
        to.node("Reshape", [to.operand(op.input(0)), shape], [op.out.name])

    def facts(self, op: Op) -> dict[str, Any]:
        return {"shape": cast(ShapeAttrs, op.attrs).shape}


DEFS = (Reshape(),)
