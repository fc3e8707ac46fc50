"""Let an accumulating op clamp its own result.

    Relu(Conv(x))        ->  Conv with low = 0
    Clip(Conv(x), l, h)  ->  Conv with low = l, high = h        (ConvTranspose, MatMul, Add, Sub, Mul too)
    Min(Conv(x), h)      ->  Conv with high = h                 (Max likewise)

The value before the clamp never leaves the accumulator, so no range is spent on what is cut off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bpuc.ir import Graph, Op
from bpuc.ops.attrs import ConvAttrs, EltwiseAttrs, MatMulAttrs, UnaryAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext
from bpuc.passkit.rewrite import fusable, is_scalar, scalar

_CLAMPS = ("Relu", "Clip", "Min", "Max")
_CLAMPED = ("Conv", "ConvTranspose", "MatMul", "Add", "Sub", "Mul")


@dataclass(frozen=True)
class FuseClamp(Pass):
    """Relu, Clip, and Min or Max with a number become the clamp of the op in front of them."""

    name = "fuse-clamp"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            if op.kind not in _CLAMPS:
                continue
            before = graph.producer(op.input(0))
            if before is None or before.kind not in _CLAMPED or not fusable(before, op):
                continue
            attrs = before.attrs
            if graph.sole_consumer(before.out) is not op or not isinstance(
                attrs, ConvAttrs | MatMulAttrs | EltwiseAttrs
            ):
                continue
            low, high = bounds(op)
            if isinstance(op.attrs, EltwiseAttrs) and low is None and high is None:
                continue
            if attrs.low is not None:
                low = attrs.low if low is None else max(low, attrs.low)
            if attrs.high is not None:
                high = attrs.high if high is None else min(high, attrs.high)
            if low is not None and high is not None and low > high:
                continue
            before.attrs = replace(attrs, low=low, high=high)
            graph.absorb(before, op)
            changes.append(Change(f"fused {op.kind} {op.name} into {before.kind}", before.name, "clamp of the result"))
        return changes


def bounds(op: Op) -> tuple[float | None, float | None]:
    """Least and largest value that a clamp lets through; None for a Min or Max that is none."""
    if isinstance(op.attrs, EltwiseAttrs):
        plain = (op.attrs.low, op.attrs.high) == (None, None) and op.out.shape == op.input(0).shape
        bound = scalar(op.input(1)) if plain and is_scalar(op.input(1)) else None
        return (bound, None) if op.kind == "Max" else (None, bound)
    if op.kind == "Relu":
        return 0.0, None
    params = dict(op.attrs.params) if isinstance(op.attrs, UnaryAttrs) else {}
    return params.get("min"), params.get("max")
