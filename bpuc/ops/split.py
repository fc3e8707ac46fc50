"""Split: a tensor cut along an axis."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from bpuc.ir import Op
from bpuc.ops.attrs import SplitAttrs
from bpuc.ops.base import Behaviour, Builder, Exporter, OnnxNode, OpDef, Shape
from bpuc.ops.common import axis_of


class Split(OpDef):
    """Parts of given sizes."""

    kind = "Split"
    attrs = SplitAttrs
    onnx = ("Split",)
    behaviour = Behaviour.MOVES

    def parse(self, node: OnnxNode, build: Builder) -> None:
        x = node.operand(0)
        axis = axis_of(node, x.rank, 0)
        # parts without elements are constants already; the others' shapes say the sizes
        outputs = [t for t in node.outputs if t.elements]
        if len(outputs) == 1:
            build.alias(outputs[0], x)
            return
        build.op(self.kind, SplitAttrs(axis, tuple(t.shape[axis] for t in outputs)), [x], outputs)

    def infer(self, op: Op) -> list[Shape]:
        a, x = cast(SplitAttrs, op.attrs), op.input(0).shape
        if sum(a.sizes) != x[a.axis]:
            raise ValueError(f"{op.name}: parts {list(a.sizes)} are not the {x[a.axis]} of axis {a.axis}")
        return [(*x[: a.axis], n, *x[a.axis + 1 :]) for n in a.sizes]

    def export(self, op: Op, to: Exporter) -> None:
        a = cast(SplitAttrs, op.attrs)
        sizes = to.const(np.array(a.sizes, np.int64), f"{op.name}_split")
        to.node("Split", [to.operand(op.input(0)), sizes], [t.name for t in op.outputs], axis=a.axis)

    def facts(self, op: Op) -> dict[str, Any]:
        a = cast(SplitAttrs, op.attrs)
        return {"axis": a.axis, "split": a.sizes}


DEFS = (Split(),)
