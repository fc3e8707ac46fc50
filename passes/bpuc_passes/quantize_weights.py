"""Give weights their scale per output channel, and the last convolution its int32 result where nobody minds.

Symmetric, -127..127. A scale is never so small that the bias would leave int32 (dead or near-dead channels), nor zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, Op, QuantParams
from bpuc.ops.attrs import ConvAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage

_WITH_WEIGHTS = ("Conv", "ConvTranspose", "MatMul", "Affine")
_BIAS_LIMIT = float(1 << 30)


@dataclass(frozen=True)
class QuantizeWeights(Pass):
    """Set `quant` of constant weights; results of a last Conv or MatMul stay int32 with one scale a channel."""

    name = "quantize-weights"
    numerics = Numerics.DECIDES
    needs = Stage.PLACED
    gives = Stage.QUANTIZED

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            if op.device != "BPU" or op.kind not in _WITH_WEIGHTS or not has_weights(op):
                continue
            scales = _weight_scales(op, ctx)
            weights = op.input(1)
            if weights.quant is not None and weights.quant.scale != scales:
                twin = graph.new_tensor(weights, weights.name)
                twin.const = weights.const
                graph.set_input(op, 1, twin)
                weights = twin
            weights.quant = QuantParams(DType.INT8, scales, weight_axis(op))
            if _keeps_int32(graph, op, ctx):
                step = op.input(0).quant
                assert step is not None
                out = op.out
                axis = out.rank - 1 if op.kind == "MatMul" else 1
                out.quant = QuantParams(DType.INT32, tuple(step.step * s for s in scales), axis)
                changes.append(Change("stays int32, one scale a channel", out.name, "only a graph output reads it"))
        return changes


def has_weights(op: Op) -> bool:
    """Whether operand 1 is constant weights with one scale an output channel."""
    weights = op.maybe(1)
    return weights is not None and weights.const is not None and (op.kind != "MatMul" or weights.rank == 2)


def weight_axis(op: Op) -> int:
    """Axis of the weights that runs over output channels (for a grouped ConvTranspose: within the group)."""
    return {"Conv": 0, "ConvTranspose": 1, "MatMul": 1, "Affine": 0}[op.kind]


def per_channel(op: Op) -> np.ndarray:
    """The weights as float64 [output channels, everything else]."""
    w = op.input(1).value().astype(np.float64)
    if op.kind == "MatMul":
        return w.T
    if op.kind == "ConvTranspose":
        groups = op.attrs.group if isinstance(op.attrs, ConvAttrs) else 1
        grouped = w.reshape(groups, w.shape[0] // groups, w.shape[1], -1)
        return grouped.transpose(0, 2, 1, 3).reshape(groups * w.shape[1], -1)
    return w.reshape(w.shape[0], -1)


def _weight_scales(op: Op, ctx: PassContext) -> tuple[float, ...]:
    largest = np.abs(per_channel(op)).max(1) if op.input(1).elements else np.zeros(op.out.shape[1])
    chosen = ctx.weights.get(op.input(1).name)
    if chosen is not None and chosen.shape == largest.shape:
        largest = np.asarray(chosen, np.float64)
    step = op.input(0).quant
    assert step is not None, f"{op.name}: operand has no scale"
    bias = op.maybe(2)
    floor = np.full(largest.shape, 1e-12)
    if bias is not None:
        floor = np.maximum(floor, np.abs(bias.value().astype(np.float64)) / (step.step * _BIAS_LIMIT))
    scales = np.maximum(largest / 127, floor)
    scales = np.where(largest > 0, scales, np.maximum(floor, 1 / 127))
    return tuple(float(s) for s in scales)


def _keeps_int32(graph: Graph, op: Op, ctx: PassContext) -> bool:
    out = op.out
    attrs = op.attrs
    if op.kind == "Affine" or out not in graph.outputs or graph.uses(out) or op.maybe(3) is not None:
        return False
    clamped = getattr(attrs, "low", None) is not None or getattr(attrs, "high", None) is not None
    step = op.input(0).quant
    asked = out.name in ctx.options.fixed_scales or out.name in ctx.options.dtypes or ctx.options.dtypes.get(op.name)
    return not clamped and not asked and step is not None and step.dtype is DType.INT8
