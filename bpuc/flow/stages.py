"""Quantized stages of ``--keep-stages`` and the Q/DQ model of ``bpuc calibrate --export-qdq``: ONNX files for others.

Channels with scales of their own are left out of these files: Q/DQ nodes do not say how their readers undo them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.calibrate import Calibration
from bpuc.flow.prepare import Prepared, write_stage
from bpuc.flow.refine import quantized_copy
from bpuc.flow.request import Request
from bpuc.frontend.qdq_export import export_qdq
from bpuc.ir import Graph, Op, QuantParams
from bpuc.ops.attrs import ConvAttrs
from bpuc.ops.base import Behaviour
from bpuc.ops.registry import get
from bpuc.passkit import Stage
from bpuc.passkit.context import MASKED
from bpuc.passkit.scales import is_data
from bpuc.passkit.weights import per_channel, rounded_weights, weight_axis, with_weights
from bpuc.plugins import pipeline

Threshold = Callable[[str], "tuple[float, str] | None"]


def keep_quantized_stages(request: Request, prepared: Prepared) -> None:
    """Write the calibrated, ptq and quantized models where the user wants them; needs the context's ranges."""
    if request.keep_stages is None:
        return
    ctx = replace(prepared.ctx, options=replace(prepared.ctx.options, channel_scales=False))
    passes = pipeline("quantize")
    whole = next(i for i, p in enumerate(passes) if p.gives is Stage.QUANTIZED)
    final = quantized_copy(prepared.graph, ctx, passes[:whole])
    placed = quantized_copy(prepared.graph, ctx, ())

    def observed(name: str) -> tuple[float, str] | None:
        seen = ctx.ranges.get(name)
        return None if seen is None or seen.observer == MASKED else (seen.threshold, "int8")

    _round_at(placed, observed, lambda op: op.device == "BPU", ctx.weights)
    _expressible(final)
    write_stage(request, "calibrated_model", _file(placed, integer_weights=False))
    write_stage(request, "ptq_model", _file(final, integer_weights=False))
    write_stage(request, "quantized_model", _file(final, integer_weights=True))


def qdq_model(prepared: Prepared, calibration: Calibration) -> bytes:
    """The optimized float model with the thresholds of a calibration as Q/DQ pairs, int8 weights among them."""
    graph = prepared.graph.copy()

    def chosen(name: str) -> tuple[float, str] | None:
        seen = calibration.tensors.get(name)
        return None if seen is None or seen.observer == MASKED else (seen.threshold, seen.dtype)

    weights = {name: np.asarray(t) for name, (t, _) in calibration.weights.items()}
    _round_at(graph, chosen, lambda op: op.pin != "CPU" and get(op.kind).behaves(op) is not Behaviour.FLOAT, weights)
    return _file(graph, integer_weights=True)


def _file(graph: Graph, integer_weights: bool) -> bytes:
    return bytes(export_qdq(graph, integer_weights).SerializeToString(deterministic=True))


def _round_at(
    graph: Graph, threshold: Threshold, on_bpu: Callable[[Op], bool], weights: Mapping[str, np.ndarray]
) -> None:
    """Give the tensors of the ops that run in integers their own thresholds, and weights theirs per channel."""
    for op in graph:
        if not on_bpu(op):
            continue
        for index, t in enumerate((*op.inputs, *op.outputs)):
            if t is None or not t.dtype.is_float or (t.const is not None and not is_data(op, index)):
                continue
            largest = float(np.abs(t.const).max(initial=0.0)) if t.const is not None else 0.0
            known = (largest, "int8") if largest > 0 else threshold(t.name)
            if known is not None:
                dtype = DType(known[1])
                t.quant = QuantParams(dtype, (known[0] / dtype.qmax,))
        if with_weights(op) and op.input(1).elements:
            largest_of = np.abs(per_channel(op)).max(1)
            chosen = weights.get(op.input(1).name)
            limits = largest_of if chosen is None or chosen.shape != largest_of.shape else chosen
            scales = tuple(float(s) for s in np.where(limits > 0, limits, 1.0) / 127)
            op.input(1).quant = QuantParams(DType.INT8, scales, weight_axis(op))
    _expressible(graph)


def _expressible(graph: Graph) -> None:
    """Weights whose channels no Q/DQ axis can name are rounded in float; so is what has nothing but a table."""
    for op in graph:
        weights = op.maybe(1)
        if not with_weights(op) or weights is None or weights.quant is None or len(weights.quant.scale) < 2:
            continue
        grouped = op.kind == "ConvTranspose" and isinstance(op.attrs, ConvAttrs) and op.attrs.group > 1
        if op.kind == "Affine" or grouped:
            twin = graph.new_tensor(weights, weights.name)
            twin.const, twin.quant = rounded_weights(op).astype(np.float32), None
            graph.set_input(op, 1, twin)
