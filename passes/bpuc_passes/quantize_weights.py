"""Give weights their scale per output channel, and the last convolution its int32 result where nobody minds.

Symmetric, -127..127. A scale is never so small that the bias would leave int32 (dead or near-dead channels), nor zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, Op, QuantParams
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.weights import per_channel, weight_axis, with_weights

_BIAS_LIMIT = float(1 << 30)


@dataclass(frozen=True)
class QuantizeWeights(Pass):
    """Set `quant` of constant weights; results of a last Conv or MatMul stay int32 with one scale a channel."""

    name = "quantize-weights"
    numerics = Numerics.DECIDES
    needs = Stage.PLACED

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            if op.device != "BPU" or not with_weights(op):
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
                out.quant = QuantParams(DType.INT32, tuple(step.unit * s for s in scales), axis)
                changes.append(Change("stays int32, one scale a channel", out.name, "only a graph output reads it"))
        return changes


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
        floor = np.maximum(floor, np.abs(bias.value().astype(np.float64)) / (step.unit * _BIAS_LIMIT))
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
