"""PRelu with a constant slope, one for all or one a channel."""

from __future__ import annotations

from typing import cast

import numpy as np

from bpuc.ir import Op
from bpuc.ops.attrs import PReluAttrs
from bpuc.ops.base import Behaviour, Builder, Exporter, OnnxNode, Opaque, OpDef, Shape
from bpuc.ops.common import varying_axes


class PRelu(OpDef):
    """x where x >= 0, else slope * x."""

    kind = "PRelu"
    attrs = PReluAttrs
    onnx = ("PRelu",)
    behaviour = Behaviour.MAPS

    def parse(self, node: OnnxNode, build: Builder) -> None:
        x, slope = node.operand(0), node.const(1)
        if slope is None:
            raise Opaque("PRelu whose slope is not constant")
        if slope.ndim > x.rank:
            raise Opaque("PRelu that raises the rank")
        axes = varying_axes(slope, x.rank)
        if len(axes) > 1:
            raise Opaque("PRelu whose slope varies along more than one axis")
        full = slope.astype(np.float32).reshape((1,) * (x.rank - slope.ndim) + slope.shape)
        operands = [x, build.const(full, node.operand(1).name)]
        build.op(self.kind, PReluAttrs(axes[0] if axes else -1), operands, node.outputs)

    def infer(self, op: Op) -> list[Shape]:
        shape = np.broadcast_shapes(op.input(0).shape, op.input(1).shape)
        if shape != op.input(0).shape:
            raise ValueError(f"{op.name}: slope {list(op.input(1).shape)} does not fit {list(op.input(0).shape)}")
        return [shape]

    def export(self, op: Op, to: Exporter) -> None:
        to.node("PRelu", [to.operand(op.input(0)), to.operand(op.input(1))], [op.out.name])

    def facts(self, op: Op) -> dict[str, object]:
        return {"axis": cast(PReluAttrs, op.attrs).axis, "slope_shape": op.input(1).shape}


DEFS = (PRelu(),)
