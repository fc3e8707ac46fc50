"""Recognise a LayerNormalization that was exported in pieces.

    d = x - ReduceMean(x);  d / Sqrt(ReduceMean(d^2) + eps)   ->  LayerNormalization(x) with gain 1 and offset 0

Gain and offset behind it are folded by fold-affine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, Op, Tensor
from bpuc.ops.attrs import NormAttrs, ReduceAttrs, UnaryAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext
from bpuc.passkit.rewrite import fusable, is_scalar, merged_origin, scalar


@dataclass(frozen=True)
class FuseLayerNorm(Pass):
    """ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div become one LayerNormalization."""

    name = "fuse-layernorm"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            found = _match(graph, op) if op in graph and op.kind == "Div" else None
            if found is None:
                continue
            x, axes, epsilon, parts = found
            out = op.out
            shape = tuple(x.shape[a] if a in axes else 1 for a in range(x.rank))
            constants = [
                Tensor(graph.unique(f"{op.name}_{n}"), shape, DType.FLOAT32, np.full(shape, v, np.float32))
                for n, v in (("gain", 1.0), ("offset", 0.0))
            ]
            graph.rebind(op, 0, graph.new_tensor(out, out.name))
            graph.add(
                "LayerNormalization",
                NormAttrs(axes, epsilon),
                [x, *constants],
                [out],
                name=op.name,
                origin=merged_origin(parts),
                like=op,
            )
            for part in reversed(parts):
                graph.erase(part)
            changes.append(Change(f"fused {len(parts)} ops into LayerNormalization", op.name, "mean and variance"))
        return changes


def _match(graph: Graph, div: Op) -> tuple[Tensor, tuple[int, ...], float, list[Op]] | None:
    """(x, axes, epsilon, ops in topological order) of the pattern that ends in `div`."""
    sub, root = graph.producer(div.input(0)), graph.producer(div.input(1))
    if sub is None or root is None or sub.kind != "Sub" or root.kind != "Sqrt":
        return None
    mean, add = graph.producer(sub.input(1)), graph.producer(root.input(0))
    if mean is None or add is None or mean.kind != "ReduceMean" or add.kind != "Add":
        return None
    side = next((i for i in (0, 1) if is_scalar(add.maybe(i))), None)
    variance = graph.producer(add.input(1 - side)) if side is not None else None
    if side is None or variance is None or variance.kind != "ReduceMean":
        return None
    square = graph.producer(variance.input(0))
    if square is None or not _is_square(square, sub.out):
        return None
    a, b = mean.attrs, variance.attrs
    same = isinstance(a, ReduceAttrs) and isinstance(b, ReduceAttrs) and a == b and a.keepdims
    parts = [mean, sub, square, variance, add, root, div]
    inner = {t: p for p in parts[:-1] for t in p.outputs}
    closed = all(set(graph.consumers(t)) <= set(parts) and t not in graph.outputs for t in inner)
    if not same or mean.input(0) is not sub.input(0) or not closed or not fusable(*parts):
        return None
    assert isinstance(a, ReduceAttrs)
    return sub.input(0), a.axes, scalar(add.input(side)), parts


def _is_square(op: Op, d: Tensor) -> bool:
    if op.kind == "Mul":
        return op.input(0) is d and op.input(1) is d
    exponent = op.attrs.get("exponent", 0.0) if isinstance(op.attrs, UnaryAttrs) else 0.0
    return op.kind == "Pow" and op.input(0) is d and exponent == 2.0
