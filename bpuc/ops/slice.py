"""Slice: a regular part of a tensor."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from bpuc.ir import Op
from bpuc.ops.attrs import SliceAttrs
from bpuc.ops.base import Behaviour, Builder, Exporter, OnnxNode, Opaque, OpDef, Shape
from bpuc.ops.common import const_ints, ints

BEFORE_FIRST = -(1 << 62)  # an end that a backward slice never reaches


class Slice(OpDef):
    """First index and step of each axis."""

    kind = "Slice"
    attrs = SliceAttrs
    onnx = ("Slice",)
    behaviour = Behaviour.MOVES

    def parse(self, node: OnnxNode, build: Builder) -> None:
        x = node.operand(0)
        if node.opset < 10:
            starts, ends = ints(node, "starts", ()), ints(node, "ends", ())
            axes, steps = ints(node, "axes", range(len(starts))), (1,) * len(starts)
        else:
            given = [const_ints(node, i, what) for i, what in enumerate(("starts", "ends", "axes", "steps"), 1)]
            if given[0] is None or given[1] is None:
                raise Opaque("Slice without starts or ends")
            starts, ends = given[0], given[1]
            axes = tuple(range(len(starts))) if given[2] is None else given[2]
            steps = (1,) * len(starts) if given[3] is None else given[3]
        firsts, strides = [0] * x.rank, [1] * x.rank
        for start, end, axis, step in zip(starts, ends, axes, steps):
            if step == 0:
                raise Opaque("Slice with step 0")
            # ONNX clamps as Python's slices do, but an end of -1 counts from the back in both
            firsts[axis % x.rank], _, strides[axis % x.rank] = slice(start, end, step).indices(x.shape[axis % x.rank])
        out = node.outputs[0]
        if out.shape == x.shape and all(s == 1 for s in strides):
            build.alias(out, x)
            return
        build.op(self.kind, SliceAttrs(tuple(firsts), tuple(strides)), [x], [out])

    def infer(self, op: Op) -> list[Shape]:
        a, x, out = cast(SliceAttrs, op.attrs), op.input(0).shape, op.out.shape
        for n, first, step, m in zip(x, a.starts, a.steps, out):
            if not (0 <= first < n and 0 <= first + (m - 1) * step < n):
                raise ValueError(f"{op.name}: {m} elements from {first} by {step} are outside of 0..{n - 1}")
        return [out]

    def export(self, op: Op, to: Exporter) -> None:
        a, x, out = cast(SliceAttrs, op.attrs), op.input(0), op.out
        axes = [i for i in range(x.rank) if (a.starts[i], a.steps[i], out.shape[i]) != (0, 1, x.shape[i])] or [0]
        ends = [a.starts[i] + out.shape[i] * a.steps[i] for i in axes]
        values = {
            "starts": [a.starts[i] for i in axes],
            "ends": [BEFORE_FIRST if end < 0 else end for end in ends],
            "axes": axes,
            "steps": [a.steps[i] for i in axes],
        }
        operands = [to.const(np.array(v, np.int64), f"{out.name}_{k}") for k, v in values.items()]
        to.node("Slice", [to.operand(x), *operands], [out.name])

    def facts(self, op: Op) -> dict[str, Any]:
        a, x = cast(SliceAttrs, op.attrs), op.input(0)
        axes = tuple(i for i in range(x.rank) if (a.starts[i], a.steps[i], op.out.shape[i]) != (0, 1, x.shape[i]))
        return {"axes": axes, "starts": tuple(a.starts[i] for i in axes), "steps": tuple(a.steps[i] for i in axes)}


DEFS = (Slice(),)
