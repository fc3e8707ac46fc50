"""Give weights their scale per output channel.

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
    """Set `quant` of constant weights."""

    name = "quantize-weights"
    numerics = Numerics.DECIDES
    needs = Stage.PLACED

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        for op in graph:
            if op.device != "BPU" or not with_weights(op):
                continue
            scales = weight_scales(op, ctx)
            weights = op.input(1)
            if weights.quant is not None and weights.quant.scale != scales:
                twin = graph.new_tensor(weights, weights.name)
                twin.const = weights.const
                graph.set_input(op, 1, twin)
                weights = twin
            weights.quant = QuantParams(DType.INT8, scales, weight_axis(op))
        return []


def weight_scales(op: Op, ctx: PassContext) -> tuple[float, ...]:
    """One scale an output channel: the largest weight over 127, or what was chosen, and room for the bias."""
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
