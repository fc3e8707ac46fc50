"""Tile: a tensor repeated along its axes."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from bpuc.ir import Op
from bpuc.ops.attrs import TileAttrs
from bpuc.ops.base import Behaviour, Builder, Exporter, OnnxNode, Opaque, OpDef, Shape
from bpuc.ops.common import const_ints


class Tile(OpDef):
    """Repeats of each axis."""

    kind = "Tile"
    attrs = TileAttrs
    onnx = ("Tile",)
    behaviour = Behaviour.MOVES

    def parse(self, node: OnnxNode, build: Builder) -> None:
        repeats = const_ints(node, 1, "repeats")
        if repeats is None:
            raise Opaque("Tile without repeats")
        if all(r == 1 for r in repeats):
            build.alias(node.outputs[0], node.operand(0))
            return
        build.op(self.kind, TileAttrs(repeats), [node.operand(0)], node.outputs)

    def infer(self, op: Op) -> list[Shape]:
        return [tuple(n * r for n, r in zip(op.input(0).shape, cast(TileAttrs, op.attrs).repeats, strict=True))]

    def export(self, op: Op, to: Exporter) -> None:
        repeats = to.const(np.array(cast(TileAttrs, op.attrs).repeats, np.int64), f"{op.out.name}_repeats")
        to.node("Tile", [to.operand(op.input(0)), repeats], [op.out.name])

    def facts(self, op: Op) -> dict[str, Any]:
        return {"repeats": cast(TileAttrs, op.attrs).repeats}


DEFS = (Tile(),)
