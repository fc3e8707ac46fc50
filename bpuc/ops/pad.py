"""Pad with a constant value."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from bpuc.ir import Op
from bpuc.ops.attrs import PadAttrs
from bpuc.ops.base import Behaviour, Builder, Exporter, OnnxNode, Opaque, OpDef, Shape
from bpuc.ops.common import const_ints, ints


class Pad(OpDef):
    """Elements of one value around a tensor."""

    kind = "Pad"
    attrs = PadAttrs
    onnx = ("Pad",)
    behaviour = Behaviour.MOVES

    def parse(self, node: OnnxNode, build: Builder) -> None:
        x = node.operand(0)
        mode = str(node.attrs.get("mode", "constant"))
        if mode != "constant":
            raise Opaque(f"Pad mode {mode}")
        if node.opset < 11:
            pads, value = ints(node, "pads", ()), float(node.attrs.get("value", 0.0))
        else:
            given = const_ints(node, 1, "pads")
            if given is None:
                raise Opaque("Pad without pads")
            axes = const_ints(node, 3, "axes")
            pads, value = _on_all_axes(given, axes, x.rank), 0.0
            if len(node.inputs) > 2 and node.inputs[2] is not None:
                array = node.const(2)
                if array is None:
                    raise Opaque("Pad whose value is not constant")
                value = float(array.reshape(-1)[0])
        if min(pads) < 0:
            raise Opaque("Pad with negative pads")
        if not any(pads):
            build.alias(node.outputs[0], x)
            return
        build.op(self.kind, PadAttrs(pads, value), [x], node.outputs)

    def infer(self, op: Op) -> list[Shape]:
        shape, pads = op.input(0).shape, cast(PadAttrs, op.attrs).pads
        return [tuple(n + pads[i] + pads[len(shape) + i] for i, n in enumerate(shape))]

    def export(self, op: Op, to: Exporter) -> None:
        a = cast(PadAttrs, op.attrs)
        pads = to.const(np.array(a.pads, np.int64), f"{op.out.name}_pads")
        value = to.const(a.value, f"{op.out.name}_value")
        to.node("Pad", [to.operand(op.input(0)), pads, value], [op.out.name], mode="constant")

    def facts(self, op: Op) -> dict[str, Any]:
        a = cast(PadAttrs, op.attrs)
        return {"pads": a.pads, "mode": "constant", "value": a.value}


def _on_all_axes(pads: Shape, axes: Shape | None, rank: int) -> Shape:
    if axes is None:
        return pads
    full = [0] * (2 * rank)
    for i, axis in enumerate(axes):
        full[axis % rank], full[rank + axis % rank] = pads[i], pads[len(axes) + i]
    return tuple(full)


DEFS = (Pad(),)
