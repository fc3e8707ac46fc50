"""Give weights their scale per output channel.

Symmetric, -127..127. A scale is never so small that the bias would leave int32 (dead or near-dead channels), nor zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, Op, QuantParams
from bpuc.observe.base import LEAST_THRESHOLD
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.channels import Floats
from bpuc.passkit.qconfig import of_op
from bpuc.passkit.weights import per_channel, weight_axis, with_weights

_BIAS_LIMIT = float(1 << 30)
_INT32_MAX = float((1 << 31) - 1)
_LEAST_UNIT = 2.0**-126  # least scale of an accumulator: what Dequantize multiplies by is a float32


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
            dtype = _dtype(op, ctx)
            scales = weight_scales(op, ctx, dtype.qmax)
            weights = op.input(1)
            if weights.quant is not None and weights.quant.scale != scales:
                twin = graph.new_tensor(weights, weights.name)
                twin.const = weights.const
                graph.set_input(op, 1, twin)
                weights = twin
            weights.quant = QuantParams(dtype, scales, weight_axis(op))
        return []


def weight_scales(op: Op, ctx: PassContext, qmax: int = 127) -> tuple[float, ...]:
    """One scale an output channel: the largest weight over qmax, or what was chosen, and room for the bias."""
    largest = np.abs(per_channel(op)).max(1) if op.input(1).elements else np.zeros(op.out.shape[1])
    chosen = ctx.weights.get(op.input(1).name)
    if chosen is not None and chosen.shape == largest.shape:
        largest = np.asarray(chosen, np.float64)
    step = op.input(0).quant
    assert step is not None, f"{op.name}: operand has no scale"
    bias = op.maybe(2)
    floor = np.full(largest.shape, max(LEAST_THRESHOLD / qmax, _LEAST_UNIT / step.unit))
    if bias is not None:
        floor = np.maximum(floor, np.abs(bias.value().astype(np.float64)) / (step.unit * _BIAS_LIMIT))
    scales = np.maximum(largest / qmax, floor)
    scales = np.where(largest > 0, scales, np.maximum(floor, 1 / qmax))
    if step.dtype is DType.INT8 and qmax == 127:
        scales = _within_int32(op, ctx, scales, step.unit)
    return tuple(float(s) for s in scales)


def _within_int32(op: Op, ctx: PassContext, scales: Floats, step: float) -> Floats:
    """Larger scales where int32 might not hold the sum of so many weights: 128 times |integers|, and the bias."""
    w, bias = np.abs(per_channel(op)), op.maybe(2)
    sums = 128 * w.sum(1) / scales
    if bias is not None:
        sums += np.abs(bias.value().astype(np.float64)) / (scales * step)
    rounding = 64.0 * w.shape[1]  # half a step of every weight
    bound = sums + rounding
    room = _INT32_MAX - rounding
    factor = np.maximum(sums / room * (1 + 1e-6), 1.0) if room > 0 else np.ones(len(w))
    if (factor > 1).any():
        ctx.warn(
            "coarse-weights",
            f"{op.name}: with weights of 8 bits its accumulator could reach {bound.max():.4g}, beyond int32; "
            f"{int((factor > 1).sum())} channels have weights up to {factor.max():.3g} times coarser",
            op.name,
        )
    return np.asarray(scales * factor)


def _dtype(op: Op, ctx: PassContext) -> DType:
    """int16 where a rule of the qconfig asks for it and the march has it."""
    rule = of_op(ctx.matches, op, "weight")
    if rule is None or rule.weight != "int16":
        return DType.INT8
    march = ctx.need_target()
    if not march.int16_weights:
        why = f"{march.march} has 8-bit weights only"
    elif op.kind == "Affine":
        why = f"{op.onnx_type} has no 16-bit gains"
    else:
        return DType.INT16
    ctx.warn("int16-weights", f"{rule.source}: weights of {op.onnx_type} {op.name} stay int8: {why}", op.name)
    return DType.INT8
