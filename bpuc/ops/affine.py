"""Affine: a gain and a bias per channel; BatchNormalization in inference is one."""

from __future__ import annotations

from typing import cast

import numpy as np

from bpuc.ir import Op
from bpuc.ops.attrs import AffineAttrs
from bpuc.ops.base import Behaviour, Builder, Exporter, OnnxNode, Opaque, OpDef, Shape
from bpuc.ops.common import along


class Affine(OpDef):
    """y = x * gain[c] + bias[c]."""

    kind = "Affine"
    attrs = AffineAttrs
    onnx = ("BatchNormalization",)
    behaviour = Behaviour.ACCUMULATES

    def parse(self, node: OnnxNode, build: Builder) -> None:
        x, out = node.operand(0), node.outputs[0]
        constants = [node.const(i) for i in range(1, 5)]
        if any(c is None for c in constants):
            raise Opaque("BatchNormalization whose parameters are not constant")
        if x.rank < 2 or node.attrs.get("spatial", 1) == 0:
            raise Opaque("BatchNormalization without a channel axis")
        scale, offset, mean, variance = (np.asarray(c, np.float64) for c in constants)
        with np.errstate(all="ignore"):  # a variance below 0 gives NaN, which import refuses by name
            gain = scale / np.sqrt(variance + float(node.attrs.get("epsilon", 1e-5)))
            bias = offset - mean * gain
        names = (node.operand(1).name, node.operand(2).name)
        operands = [x, *(build.const(v.astype(np.float32), n) for v, n in zip((gain, bias), names))]
        build.op(self.kind, AffineAttrs(1), operands, [out])

    def infer(self, op: Op) -> list[Shape]:
        axis, x = cast(AffineAttrs, op.attrs).axis, op.input(0)
        for operand in (op.input(1), op.input(2)):
            if operand.shape != (x.shape[axis],):
                raise ValueError(
                    f"{op.name}: {operand.name} {list(operand.shape)} does not fit {x.shape[axis]} channels"
                )
        return [x.shape]

    def export(self, op: Op, to: Exporter) -> None:
        axis, rank = cast(AffineAttrs, op.attrs).axis, op.input(0).rank
        gain, bias = along(op.input(1).value(), axis, rank), along(op.input(2).value(), axis, rank)
        steps = [
            (kind, to.const(value, operand.name))
            for kind, value, operand, neutral in (("Mul", gain, op.input(1), 1.0), ("Add", bias, op.input(2), 0.0))
            if np.any(value != neutral)
        ]
        name = to.operand(op.input(0))
        if not steps:
            to.node("Identity", [name], [op.out.name])
        for index, (kind, value) in enumerate(steps):
            result = op.out.name if index == len(steps) - 1 else to.temp(f"{op.out.name}_scaled")
            to.node(kind, [name, value], [result])
            name = result

    def facts(self, op: Op) -> dict[str, int]:
        return {"axis": cast(AffineAttrs, op.attrs).axis}


DEFS = (Affine(),)
