"""Gather with constant indices."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from bpuc.ir import Op
from bpuc.ops.attrs import GatherAttrs
from bpuc.ops.base import Behaviour, Builder, Exporter, OnnxNode, Opaque, OpDef, Shape
from bpuc.ops.common import axis_of


class Gather(OpDef):
    """Slices of a tensor picked by index along an axis."""

    kind = "Gather"
    attrs = GatherAttrs
    onnx = ("Gather",)
    behaviour = Behaviour.MOVES

    def parse(self, node: OnnxNode, build: Builder) -> None:
        x, indices = node.operand(0), node.const(1)
        if indices is None:
            raise Opaque("Gather whose indices are not constant")
        axis = axis_of(node, x.rank, 0)
        size = x.shape[axis]
        if indices.size and not (-size <= indices.min() and indices.max() < size):
            raise Opaque(f"Gather with indices outside of an axis of {size}")
        picked = tuple(int(i) % size for i in indices.reshape(-1))
        build.op(self.kind, GatherAttrs(axis, picked, indices.shape), [x], node.outputs)

    def infer(self, op: Op) -> list[Shape]:
        a, x = cast(GatherAttrs, op.attrs), op.input(0).shape
        return [(*x[: a.axis], *a.index_shape, *x[a.axis + 1 :])]

    def export(self, op: Op, to: Exporter) -> None:
        a = cast(GatherAttrs, op.attrs)
        indices = to.const(np.array(a.indices, np.int64).reshape(a.index_shape), f"{op.out.name}_indices")
        to.node("Gather", [to.operand(op.input(0)), indices], [op.out.name], axis=a.axis)

    def facts(self, op: Op) -> dict[str, Any]:
        a = cast(GatherAttrs, op.attrs)
        return {"axis": a.axis, "indices_shape": a.index_shape}


DEFS = (Gather(),)
