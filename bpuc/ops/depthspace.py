"""DepthToSpace and SpaceToDepth: blocks of pixels moved into channels and back."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from bpuc.ir import Op
from bpuc.ops.attrs import BlockAttrs
from bpuc.ops.base import Behaviour, Builder, Exporter, OnnxNode, OpDef, Shape


class DepthToSpace(OpDef):
    """Channels to blocks."""

    kind = "DepthToSpace"
    attrs = BlockAttrs
    onnx = ("DepthToSpace",)
    behaviour = Behaviour.MOVES

    def parse(self, node: OnnxNode, build: Builder) -> None:
        attrs = BlockAttrs(int(node.attrs["blocksize"]), str(node.attrs.get("mode", "DCR")))
        build.op(self.kind, attrs, [node.operand(0)], node.outputs)

    def infer(self, op: Op) -> list[Shape]:
        b = cast(BlockAttrs, op.attrs).blocksize
        n, c, h, w = op.input(0).shape
        if c % (b * b):
            raise ValueError(f"{op.name}: {c} channels are no multiple of {b * b}")
        return [(n, c // (b * b), h * b, w * b)]

    def export(self, op: Op, to: Exporter) -> None:
        to.node(self.kind, [to.operand(op.input(0))], [op.out.name], **self.facts(op))

    def facts(self, op: Op) -> dict[str, Any]:
        a = cast(BlockAttrs, op.attrs)
        return {"blocksize": a.blocksize, "mode": a.mode}


class SpaceToDepth(DepthToSpace):
    """Blocks to channels; ONNX defines the order of DCR alone."""

    kind = "SpaceToDepth"
    onnx = ("SpaceToDepth",)

    def infer(self, op: Op) -> list[Shape]:
        b = cast(BlockAttrs, op.attrs).blocksize
        n, c, h, w = op.input(0).shape
        if h % b or w % b:
            raise ValueError(f"{op.name}: {h} x {w} is no multiple of {b}")
        return [(n, c * b * b, h // b, w // b)]

    def export(self, op: Op, to: Exporter) -> None:
        a, out = cast(BlockAttrs, op.attrs), op.out
        if a.mode == "DCR":
            to.node(self.kind, [to.operand(op.input(0))], [out.name], blocksize=a.blocksize)
            return
        b, (n, c, h, w) = a.blocksize, op.input(0).shape
        split, moved = to.temp(f"{out.name}_split"), to.temp(f"{out.name}_moved")
        first = to.const(np.array([n, c, h // b, b, w // b, b], np.int64), f"{out.name}_blocks")
        last = to.const(np.array(out.shape, np.int64), f"{out.name}_shape")
        to.node("Reshape", [to.operand(op.input(0)), first], [split])
        to.node("Transpose", [split], [moved], perm=(0, 1, 3, 5, 2, 4))
        to.node("Reshape", [moved, last], [out.name])


DEFS = (DepthToSpace(), SpaceToDepth())
