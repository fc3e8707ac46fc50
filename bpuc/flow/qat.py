"""Scales that stand in the model file itself (QuantizeLinear and DequantizeLinear): what of them a compile can use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.base.errors import ConfigError
from bpuc.calibrate import Calibration
from bpuc.flow.file_scales import file_scales
from bpuc.flow.prepare import Prepared
from bpuc.ir import Graph, Tensor
from bpuc.passkit import PassContext
from bpuc.passkit.context import Range
from bpuc.passkit.scales import moves, quantized_tensors
from bpuc.passkit.weights import per_channel, with_weights

OBSERVER = "qdq"
_BOUNDED = {"Softmax": 1.0, "Sigmoid": 1.0, "Tanh": 1.0, "HardSigmoid": 1.0}


def take_file_scales(prepared: Prepared) -> None:
    """Put the file's scales into the context: of tensors, of weights, and ranges that follow from them."""
    ctx, graph = prepared.ctx, prepared.graph
    known = file_scales(prepared.model)
    for tensor in graph.tensors():
        if tensor.name not in known or tensor.const is not None:
            continue
        ctx.file_scales[tensor.name] = known[tensor.name]
        low, high = known[tensor.name].low, known[tensor.name].high
        if known[tensor.name].wide:
            ctx.calibrated_dtypes.setdefault(tensor.name, "int16")
        seen = ctx.ranges.get(tensor.name)
        if seen is None or seen.assumed:
            ctx.ranges[tensor.name] = Range(low, high, max(-low, high), OBSERVER)
        elif seen.threshold > max(-low, high):
            ctx.ranges[tensor.name] = replace(seen, threshold=max(-low, high), observer=OBSERVER)
    _weights(prepared)


def with_file_scales(prepared: Prepared, calibration: Calibration) -> Calibration:
    """The calibration with the file's scales in the place of observed thresholds, where a symmetric type has them."""
    ctx = prepared.ctx
    ctx.ranges = {n: Range(t.low, t.high, t.threshold, t.observer) for n, t in calibration.tensors.items()}
    take_file_scales(prepared)
    tensors = dict(calibration.tensors)
    for name, known in ctx.file_scales.items():
        if name not in tensors:
            continue
        dtype = DType.INT16 if known.wide else DType(tensors[name].dtype)
        scale = known.symmetric(dtype)
        found = ctx.ranges[name] if scale is None else replace(ctx.ranges[name], threshold=scale * dtype.qmax)
        observer = found.observer if scale is None else OBSERVER
        tensors[name] = replace(tensors[name], threshold=found.threshold, observer=observer, dtype=dtype.value)
    weights = {
        n: ([float(v) for v in ctx.weights[n]], axis) if n in ctx.weights else (known_thresholds, axis)
        for n, (known_thresholds, axis) in calibration.weights.items()
    }
    return replace(calibration, tensors=tensors, weights=weights)


def fill(graph: Graph, ranges: dict[str, Range]) -> None:
    """Ranges that follow without data: values that only move have that of their source, a Softmax has 1."""
    for op in graph:
        out = op.outputs[0]
        source = next((t for t in op.inputs if t is not None), None)
        if op.kind in _BOUNDED and out.name not in ranges:
            ranges[out.name] = Range(-1.0, 1.0, _BOUNDED[op.kind], OBSERVER)
        if source is None or not (moves(op) or op.kind in ("Relu", "Clip", "MaxPool")) or op.kind == "Concat":
            continue
        for result in op.outputs:
            if source.name in ranges:
                ranges.setdefault(result.name, ranges[source.name])
            elif result.name in ranges:
                ranges.setdefault(source.name, ranges[result.name])
    for op in graph:
        known = [ranges[t.name] for t in op.inputs if t is not None and t.name in ranges]
        if op.kind == "Concat" and op.out.name not in ranges and known:
            ranges[op.out.name] = max(known, key=lambda r: r.threshold)


def without_scale(graph: Graph, ctx: PassContext) -> list[Tensor]:
    """Tensors that nothing gives a scale: neither the file nor what follows from it."""
    return [t for t in quantized_tensors(graph) if t.const is None and t.name not in ctx.ranges]


def check_complete(lacking: Sequence[Tensor]) -> None:
    """Refuse a compile without data where the file leaves tensors without a scale that need one; sums need none.

    Raises:
        ConfigError: naming them.
    """
    lacking = [t for t in lacking if t.quant is not None and t.quant.dtype in (DType.INT8, DType.INT16)]
    if lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise ConfigError(
            f"the model file gives no scale to tensor {lacking[0].name}{more}",
            want="--data PATH or --calib X.calib.json for the tensors that the file leaves out",
        )


def _weights(prepared: Prepared) -> None:
    """Thresholds of weights that lie on the file's grid: with the file's scale their integers are the file's."""
    for op in prepared.graph:
        if not with_weights(op) or not op.input(1).elements:
            continue
        info = prepared.model.quantized.get(op.input(1).name)
        channels = per_channel(op).astype(np.float64)
        largest = np.abs(channels).max(1)
        if info is None or len(info.scale) not in (1, len(channels)):
            continue
        scale = np.broadcast_to(np.asarray(info.scale, np.float64), largest.shape)
        steps = channels / scale[:, None]
        on_grid = np.abs(steps - np.round(steps)).max(1) < 1e-3
        fits = on_grid & (np.abs(steps).max(1) < 127.5)
        before = prepared.ctx.weights.get(op.input(1).name, np.where(largest > 0, largest, 1.0))
        if before.shape == largest.shape:
            prepared.ctx.weights[op.input(1).name] = np.where(fits, scale * 127, before)
