"""Correct each op with weights for the operand that it will really have.

On calibration samples the quantized graph runs beside the float one, op by op. For every op with weights, in order:

1. From effort 2 on, weights are rounded by the error of the op's result (`bpuc.passkit.adaptive`), where that error
   gets smaller on samples that had no part in it.
2. The bias takes back the mean error that is left, roundings and clippings of all ops before it included
   (`Layer.shift`; M. Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", ICCV 2019,
   section 4.2). What the rounding of the op's weights does to the mean is known from all calibration samples, and goes
   first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.ir import Graph
from bpuc.ops.attrs import ConvAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.adaptive import round_weights
from bpuc.passkit.layer import Array, Floats, Layer
from bpuc.passkit.patches import patches
from bpuc.passkit.rewrite import as_float32, set_const
from bpuc.passkit.weights import per_channel
from bpuc_passes.correct_bias import shift_bias, weight_shift

# rows of operands for each weight of an output channel; larger products of inputs are not inverted
_ROWS, _MOST_TAPS = 8, 2400
# values in all rows of one sample
_VALUES = 1 << 21
# Part of the error on other samples that a rounding may leave: what the operand brings with it is in both, so that
# little counts.
_WORTH = 0.998


@dataclass(frozen=True)
class RefineLayers(Pass):
    """Adaptive rounding of weights (``--adaptive-rounding``) and correction of means (``--bias-correction``)."""

    name = "refine-layers"
    numerics = Numerics.DECIDES
    needs = Stage.PLACED
    refines = True

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        options = ctx.options
        rounds = options.effort >= 2 and options.adaptive_rounding
        if ctx.layers is None or not (options.bias_correction or rounds):
            return []
        changes: list[Change] = []

        def visit(layer: Layer) -> None:
            if layer.op.out.name in ctx.fixed_by_file & ctx.rounded_by_file:
                return  # a rounding as in the quantized file is part of the network, no error
            exact = layer.op.input(1).value().astype(np.float64)
            if rounds:
                changes.extend(_round(graph, ctx, layer))
            if options.bias_correction:
                shift = _shift(ctx, layer, layer.got, exact)
                corrected = shift_bias(graph, layer.op, shift)
                if corrected:
                    layer.got = [v + layer.along(shift) for v in layer.got]
                changes.extend(corrected)

        ctx.layers(graph, visit)
        return changes


def _shift(ctx: PassContext, layer: Layer, got: list[Array], exact: Floats) -> Floats:
    """By the statistics of all calibration samples, as far as the op's own weights go; the rest by the few here."""
    known = weight_shift(layer.op, ctx, exact)
    if known is None:
        return layer.shift(got)
    return known + layer.shift([v + layer.along(known) for v in got])


def _round(graph: Graph, ctx: PassContext, layer: Layer) -> list[Change]:
    op, old = layer.op, layer.op.input(1)
    samples = len(layer.operands)
    fit = samples - max(1, samples // 4)
    w = per_channel(op)
    if not 1 < w.shape[1] <= _MOST_TAPS or samples < 2 or old.quant is None or old.quant.dtype is not DType.INT8:
        return []
    rows = _rows(layer, fit, w.shape[1])
    if rows is None:
        return []
    steps = np.broadcast_to(np.asarray(old.quant.scale, np.float64), len(w))
    size = len(w) // len(rows)
    integers = np.empty_like(w)
    for g, centred in enumerate(rows):
        part = slice(g * size, (g + 1) * size)
        hessian = (centred.T @ centred).astype(np.float64) / len(centred)
        integers[part] = round_weights(w[part], steps[part], hessian)
    exact = old.value().astype(np.float64)
    before = layer.error(layer.got, _shift(ctx, layer, layer.got, exact), fit)
    values = integers * steps[:, None]
    set_const(
        graph,
        op,
        1,
        as_float32(values.T if op.kind == "MatMul" else values.reshape(old.shape)),
        f"{op.name}_weights",
    )
    op.input(1).quant = old.quant
    got = layer.again()
    after = layer.error(got, _shift(ctx, layer, got, exact), fit)
    if after > before * _WORTH:
        graph.set_input(op, 1, old)
        return []
    layer.got = got
    gain = before / max(after, 1e-30)
    return [Change("rounded weights by error of the result", op.name, f"{gain:.2f} times smaller on other samples")]


def _rows(layer: Layer, fit: int, taps: int) -> Array | None:
    """Rows of the first `fit` samples, less their mean (the bias takes that), float32 [groups, rows, taps]."""
    op = layer.op
    groups = op.attrs.group if isinstance(op.attrs, ConvAttrs) else 1
    most = max(_ROWS * taps // fit, min(_VALUES // (taps * groups), _MOST_TAPS)) + 1
    # another phase for every sample, so that a fixed grid does not miss the same places each time
    parts = [patches(op, x, most, 0.618 * i) for i, x in enumerate(layer.operands[:fit])]
    if any(p is None for p in parts):
        return None
    rows = np.concatenate([p for p in parts if p is not None], axis=1)
    return np.asarray(rows - rows.mean(1, keepdims=True))
