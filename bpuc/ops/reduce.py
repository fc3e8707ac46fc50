"""ReduceMean, ReduceSum, ReduceMax, ReduceMin, and the global pools as reductions over the spatial axes."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from bpuc.ir import Op
from bpuc.ops.attrs import ReduceAttrs
from bpuc.ops.base import Behaviour, Builder, Exporter, OnnxNode, OpDef, Shape
from bpuc.ops.common import const_ints, ints

GLOBAL = {"GlobalAveragePool": "ReduceMean", "GlobalMaxPool": "ReduceMax"}


class Reduce(OpDef):
    """One value over all indices of some axes."""

    attrs = ReduceAttrs

    def __init__(self, kind: str, behaviour: Behaviour, onnx: tuple[str, ...] = ()):
        self.kind, self.behaviour, self.onnx = kind, behaviour, (kind, *onnx)

    def parse(self, node: OnnxNode, build: Builder) -> None:
        x = node.operand(0)
        if node.op_type in GLOBAL:
            axes, keep = tuple(range(2, x.rank)), True
        else:
            given = const_ints(node, 1, "axes")
            given = ints(node, "axes", ()) if given is None else given
            if not given and node.attrs.get("noop_with_empty_axes", 0):
                build.alias(node.outputs[0], x)
                return
            axes = tuple(sorted({a % x.rank for a in given})) or tuple(range(x.rank))
            keep = bool(node.attrs.get("keepdims", 1))
        if not axes:
            build.alias(node.outputs[0], x)
            return
        build.op(self.kind, ReduceAttrs(axes, keep), [x], node.outputs)

    def infer(self, op: Op) -> list[Shape]:
        a = cast(ReduceAttrs, op.attrs)
        return [reduced(op.input(0).shape, a.axes, a.keepdims)]

    def export(self, op: Op, to: Exporter) -> None:
        a, x = cast(ReduceAttrs, op.attrs), op.input(0)
        if GLOBAL.get(op.onnx_type) == self.kind and a.keepdims and a.axes == tuple(range(2, x.rank)):
            to.node(op.onnx_type, [to.operand(x)], [op.out.name])
        else:
            axes = to.const(np.array(a.axes, np.int64), f"{op.out.name}_axes")
            to.node(self.kind, [to.operand(x), axes], [op.out.name], keepdims=int(a.keepdims))

    def facts(self, op: Op) -> dict[str, Any]:
        a = cast(ReduceAttrs, op.attrs)
        return {"axes": a.axes, "keepdims": a.keepdims}


def reduced(shape: Shape, axes: Shape, keepdims: bool) -> Shape:
    """A shape without `axes`, or with 1 in their place."""
    return tuple(1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes)


DEFS = (
    Reduce("ReduceMean", Behaviour.COMPUTES, ("GlobalAveragePool",)),
    Reduce("ReduceSum", Behaviour.COMPUTES),
    Reduce("ReduceMax", Behaviour.MOVES, ("GlobalMaxPool",)),
    Reduce("ReduceMin", Behaviour.MOVES),
)
