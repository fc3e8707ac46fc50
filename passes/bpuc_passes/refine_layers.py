"""Correct each op with weights for the operand that it will really have.

On calibration samples the quantized graph runs beside the float one, op by op. For every op with weights, in order:

1. From effort 2 on, weights are rounded by the error of the op's result, and clipped where finer steps win more than
   the largest weights lose (`bpuc.passkit.adaptive`); either only where that error gets smaller on samples that had no
   part in it.
2. The bias takes back the mean error that is left, roundings and clippings of all ops before it included
   (`Layer.shift`; M. Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", ICCV 2019,
   section 4.2). What the rounding of the op's weights does to the mean is known from all calibration samples, and goes
   first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, Op, QuantParams
from bpuc.ops.attrs import ConvAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.adaptive import clip_steps, round_weights
from bpuc.passkit.layer import Array, Floats, Layer
from bpuc.passkit.patches import patches
from bpuc.passkit.rewrite import as_float32, set_const
from bpuc.passkit.weights import per_channel
from bpuc_passes.correct_bias import shift_bias, weight_shift
from bpuc_passes.keep_accumulators import accumulator_scale, float_readers

# rows of operands for each weight of an output channel; larger products of inputs are not inverted
_ROWS, _MOST_TAPS = 8, 2400
# values in all rows of one sample
_VALUES = 1 << 21
# Part of the error on other samples that a rounding may leave: what the operand brings with it is in both, so that
# little counts.
_WORTH = 0.998


@dataclass(frozen=True)
class RefineLayers(Pass):
    """Weights (``--adaptive-rounding``, ``--weight-clipping``) and means (``--bias-correction``) by measured error."""

    name = "refine-layers"
    numerics = Numerics.DECIDES
    needs = Stage.PLACED
    refines = True

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        options = ctx.options
        rounds = options.effort >= 2 and (options.adaptive_rounding or options.weight_clipping)
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
    """Give the op those integers for weights that leave least error on the samples left out."""
    op, old = layer.op, layer.op.input(1)
    samples = len(layer.operands)
    fit = samples - max(1, samples // 4)
    w = per_channel(op)
    if not 1 < w.shape[1] <= _MOST_TAPS or samples < 2 or old.quant is None or old.quant.dtype is not DType.INT8:
        return []
    rows = _rows(layer, fit, w.shape[1])
    if rows is None:
        return []
    exact = old.value().astype(np.float64)
    least = layer.error(layer.got, _shift(ctx, layer, layer.got, exact), fit)
    changes: list[Change] = []
    for what, steps, integers in _candidates(ctx, op, rows):
        before, values = op.input(1), integers * steps[:, None]
        shaped = values.T if op.kind == "MatMul" else values.reshape(old.shape)
        set_const(graph, op, 1, as_float32(shaped), f"{op.name}_weights")
        op.input(1).quant = QuantParams(old.quant.dtype, tuple(map(float, steps)), old.quant.axis)
        got = layer.again()
        after = layer.error(got, _shift(ctx, layer, got, exact), fit)
        if after > least * _WORTH:
            graph.set_input(op, 1, before)
            continue
        changes.append(Change(what, op.name, f"{least / max(after, 1e-30):.2f} times smaller on other samples"))
        layer.got, least = got, after
    if changes and op.out.quant is not None and op.out.quant.dtype is DType.INT32:
        scale = accumulator_scale(op)
        for t in float_readers(graph, op):
            if t.quant is not None:
                t.quant = replace(t.quant, scale=scale)
    return changes


def _candidates(ctx: PassContext, op: Op, rows: Array) -> Iterator[tuple[str, Floats, Floats]]:
    """What was done, scale of every output channel, integers [outputs, taps]."""
    w, quant = per_channel(op), op.input(1).quant
    assert quant is not None
    steps = np.array(np.broadcast_to(np.asarray(quant.scale, np.float64), len(w)))
    size = len(w) // len(rows)
    hessians = [(r.T @ r).astype(np.float64) / len(r) for r in rows]
    parts = [(slice(g * size, (g + 1) * size), h) for g, h in enumerate(hessians)]
    rounds, asked = ctx.options.adaptive_rounding, op.input(1).name in ctx.weights

    def integers(steps: Floats) -> Floats:
        if not rounds:
            return np.asarray(np.clip(np.floor(w / steps[:, None] + 0.5), -127, 127))
        return np.concatenate([round_weights(w[part], steps[part], h) for part, h in parts])

    if rounds:
        yield "rounded weights by error of the result", steps, integers(steps)
    if ctx.options.weight_clipping and not asked:
        finer = np.concatenate([clip_steps(w[part], steps[part], h) for part, h in parts])
        finer = np.where(_fits(op, w, finer), finer, steps)
        count = int((finer < steps).sum())
        if count:
            yield f"clipped the weights of {count} of {len(w)} channels", finer, integers(finer)


def _fits(op: Op, w: Floats, steps: Floats) -> Floats:
    """Where int32 holds the sum of such integers with 128 each, the bias, and a rounding of every weight."""
    x, bias = op.input(0).quant, op.maybe(2)
    assert x is not None
    sums = 128 * (np.minimum(np.abs(w) / steps[:, None], 127) + 1).sum(1)
    if bias is not None:
        sums += 2 * np.abs(bias.value().astype(np.float64)) / (steps * x.unit)
    return np.asarray(sums < (1 << 31) - 1)


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
