"""Recognise a LayerNormalization that was exported in pieces.

    d = x - ReduceMean(x);  d / Sqrt(ReduceMean(d^2) + eps)              ->  LayerNormalization(x), gain 1, offset 0
    m = ReduceMean(x);  (x - m) * Rsqrt(ReduceMean(x^2) - m^2 + eps) * g ->  LayerNormalization(x), gain g, offset 0
    x * r*g + (b - m * r*g), r = Rsqrt(...)                              ->  LayerNormalization(x), gain g, offset b

and whatever else multiplies out to the same function of x, its mean and its mean square (`bpuc.passkit.moments`). The
second form is the difference of two large numbers, which integers would lose. What comes behind the first op that gives
the normalized tensor is left to fold-affine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, Op, Tensor
from bpuc.ops.attrs import NormAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext
from bpuc.passkit.moments import ONE, Moments, Polynomial, is_moment, near
from bpuc.passkit.rewrite import as_float32, fusable, merged_origin, reduction

_SCALED = (1, 0, 0, 1)  # x * r
_SHIFT = (0, 1, 0, 1)  # m * r


@dataclass(frozen=True)
class FuseLayerNorm(Pass):
    """Means, squares and roots that amount to a LayerNormalization over one set of axes become one."""

    name = "fuse-layernorm"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        seen = set()
        for op in graph:
            attrs = reduction(op) if op in graph and is_moment(op) else None
            if attrs is None or (op.input(0), attrs.axes) in seen:
                continue
            seen.add((op.input(0), attrs.axes))
            changes += _fuse(graph, Moments(op.input(0), attrs.axes))
        return changes


def _fuse(graph: Graph, moments: Moments) -> list[Change]:
    for end in graph:
        found = moments.read(end)
        norm = _gain_and_offset(found, moments) if found is not None else None
        parts = _region(graph, end, moments) if norm is not None else []
        if norm is None or not parts or end.out.shape != moments.x.shape:
            continue
        assert moments.root is not None, "a normalization has a root"
        x, out = moments.x, end.out
        unit = tuple(n if a in moments.axes else 1 for a, n in enumerate(x.shape))
        arrays = [a.reshape((1,) * (x.rank - a.ndim) + a.shape) if a.ndim else np.full(unit, a) for a in norm]
        constants = [
            Tensor(graph.unique(f"{end.name}_{n}"), a.shape, DType.FLOAT32, as_float32(a))
            for n, a in zip(("gain", "offset"), arrays, strict=True)
        ]
        graph.rebind(end, 0, graph.new_tensor(out, out.name))
        graph.add(
            "LayerNormalization",
            NormAttrs(moments.axes, moments.root.epsilon),
            [x, *constants],
            [out],
            name=end.name,
            origin=merged_origin(parts),
            like=end,
        )
        for part in reversed(parts):
            graph.erase(part)
        return [Change(f"fused {len(parts)} ops into LayerNormalization", end.name, "mean and variance")]
    return []


def _gain_and_offset(p: Polynomial, moments: Moments) -> list[np.ndarray] | None:
    """Of (x - m) * r * gain + offset; None where the polynomial is another."""
    if moments.root is None or not moments.root.centered or not set(p) <= {_SCALED, _SHIFT, ONE}:
        return None
    gain, shift = p.get(_SCALED), p.get(_SHIFT)
    if gain is None or shift is None or not near(gain, -shift):
        return None
    return [gain, p.get(ONE, np.zeros_like(gain))]


def _region(graph: Graph, end: Op, moments: Moments) -> list[Op]:
    """The ops between x and `end` in topological order; none where others read between them or pins forbid it."""
    found = {end}
    stack = [end]
    while stack:
        for t in stack.pop().inputs:
            producer = graph.producer(t) if t is not None and t is not moments.x else None
            if producer is not None and producer not in found:
                found.add(producer)
                stack.append(producer)
    parts = [op for op in graph if op in found]
    closed = all(set(graph.consumers(op.out)) <= found and op.out not in graph.outputs for op in parts[:-1])
    return parts if closed and fusable(*parts) else []
