"""LayerNormalization and InstanceNormalization with constant gain and bias."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from bpuc.ir import Op
from bpuc.ops.attrs import NormAttrs
from bpuc.ops.base import Behaviour, Builder, Exporter, OnnxNode, Opaque, OpDef, Shape
from bpuc.ops.common import along, axis_of
from bpuc.ops.groupnorm import parse_group_norm


class Norm(OpDef):
    """(x - mean) / sqrt(variance + epsilon) * gain + bias, mean and variance over some axes."""

    attrs = NormAttrs
    behaviour = Behaviour.COMPUTES

    def __init__(self, kind: str):
        self.kind, self.onnx = kind, (kind, "GroupNormalization") if kind == "InstanceNormalization" else (kind,)

    def parse(self, node: OnnxNode, build: Builder) -> None:
        if node.op_type == "GroupNormalization":
            parse_group_norm(node, build)
            return
        x, gain = node.operand(0), node.const(1)
        bias = node.const(2)
        if gain is None or (bias is None and len(node.inputs) > 2 and node.inputs[2] is not None):
            raise Opaque(f"{node.op_type} whose gain or bias is not constant")
        if len(node.outputs) > 1:
            raise Opaque(f"{node.op_type} whose mean or deviation is read")
        if self.kind == "LayerNormalization":
            axes = tuple(range(axis_of(node, x.rank, -1), x.rank))
            gain = gain.reshape((1,) * (x.rank - gain.ndim) + gain.shape)
        else:
            axes = tuple(range(2, x.rank))
            gain = along(gain, 1, x.rank)
            bias = None if bias is None else along(bias, 1, x.rank)
        bias = np.zeros_like(gain) if bias is None else bias
        bias = bias.reshape((1,) * (x.rank - bias.ndim) + bias.shape)
        if not axes:
            raise Opaque(f"{node.op_type} over no axis")
        named = node.inputs[2] if len(node.inputs) > 2 else None
        operands = [
            x,
            build.const(gain.astype(np.float32), node.operand(1).name),
            build.const(bias.astype(np.float32), named.name if named else f"{node.outputs[0].name}_bias"),
        ]
        build.op(self.kind, NormAttrs(axes, float(node.attrs.get("epsilon", 1e-5))), operands, node.outputs)

    def infer(self, op: Op) -> list[Shape]:
        return [np.broadcast_shapes(*(op.input(i).shape for i in range(3)))]

    def export(self, op: Op, to: Exporter) -> None:
        a, x = cast(NormAttrs, op.attrs), op.input(0)
        gain, bias = op.input(1), op.input(2)
        last = tuple(range(a.axes[0], x.rank))
        if a.axes == last and all(n == 1 for t in (gain, bias) for n in t.shape[: a.axes[0]]):
            size = x.shape[a.axes[0] :]
            names = [
                to.const(np.broadcast_to(t.value().reshape(t.shape[a.axes[0] :]), size), t.name) for t in (gain, bias)
            ]
            to.node("LayerNormalization", [to.operand(x), *names], [op.out.name], axis=a.axes[0], epsilon=a.epsilon)
        elif a.axes == last == tuple(range(2, x.rank)) and all(
            t.shape == (1, x.shape[1]) + (1,) * (x.rank - 2) for t in (gain, bias)
        ):
            names = [to.const(t.value().reshape(-1), t.name) for t in (gain, bias)]
            to.node("InstanceNormalization", [to.operand(x), *names], [op.out.name], epsilon=a.epsilon)
        else:
            _export_steps(op, a, to)

    def facts(self, op: Op) -> dict[str, Any]:
        a = cast(NormAttrs, op.attrs)
        return {"axes": a.axes, "axis": a.axes[0], "epsilon": a.epsilon}


def _export_steps(op: Op, a: NormAttrs, to: Exporter) -> None:
    """Any other set of axes, by the definition."""
    out = op.out.name
    x, gain, bias = (to.operand(op.input(i)) for i in range(3))
    axes = to.const(np.array(a.axes, np.int64), f"{out}_axes")
    mean, diff, square, variance, safe, deviation, normal, scaled = (to.temp(f"{out}_norm{i}") for i in range(8))
    to.node("ReduceMean", [x, axes], [mean], keepdims=1)
    to.node("Sub", [x, mean], [diff])
    to.node("Mul", [diff, diff], [square])
    to.node("ReduceMean", [square, axes], [variance], keepdims=1)
    to.node("Add", [variance, to.const(a.epsilon, f"{out}_epsilon")], [safe])
    to.node("Sqrt", [safe], [deviation])
    to.node("Div", [diff, deviation], [normal])
    to.node("Mul", [normal, gain], [scaled])
    to.node("Add", [scaled, bias], [out])


DEFS = (Norm("LayerNormalization"), Norm("InstanceNormalization"))
