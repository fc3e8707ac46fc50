"""report.json (schema "bpuc.report/1") from the compiled graph."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from bpuc import __version__
from bpuc.base.dtypes import DType
from bpuc.flow.clipped import clipped_values
from bpuc.flow.remedies import cpu_remedy
from bpuc.frontend.onnx_import import ImportedModel
from bpuc.ir import Graph, Op, Tensor
from bpuc.lower.lower import report_op
from bpuc.passkit import PassContext
from bpuc.passkit.macs import int16_share

SCHEMA = "bpuc.report/1"


def build_report(
    graph: Graph,
    ctx: PassContext,
    model: ImportedModel,
    passes: list[dict[str, Any]],
    certificates: list[dict[str, Any]],
) -> dict[str, Any]:
    """All of report.json but the source path, which only the command knows."""
    ops = sorted(graph, key=lambda op: op.segment)
    groups = {name: g.id for g in ctx.groups for name in g.tensors}
    share = int16_share(graph)
    results = {op.name: op.out for op in ops if len(op.outputs) == 1}
    return {
        "schema": SCHEMA,
        "bpuc": __version__,
        "march": ctx.need_target().march,
        "source": {"sha256": model.sha256, "opset": model.opset},
        "inputs": [
            _port(name, t, _integers(graph, t)) | ({"image": ctx.images[name].as_json()} if name in ctx.images else {})
            for name, t in zip(graph.input_names, graph.inputs)
        ],
        "outputs": [
            _port(name, t, _source(graph, t)) | ({"note": note} if (note := ctx.output_notes.get(name)) else {})
            for name, t in zip(graph.output_names, graph.outputs)
        ],
        "tensors": [_tensor(t, ctx, groups) for t in graph.tensors() if t.const is None or t.quant is not None],
        "groups": [asdict(g) for g in ctx.groups],
        "nodes": [_node(op, cpu_remedy(graph, op, ctx)) | _other(ctx, [op.name], op.device == "CPU") for op in ops],
        "segments": _segments(ops, ctx),
        "rescales": [{k: v for k, v in asdict(r).items() if k != "elements"} for r in ctx.rescales],
        "warnings": [asdict(w) for w in dict.fromkeys(ctx.warnings)],
        "avoided": [asdict(a) for a in ctx.avoided],
        "refinements": [asdict(r) for r in ctx.refinements],
        "passes": passes,
        "certificates": [
            {**c, **_clipping(results[c["node"]], ctx), "clipped": clipped_values(results[c["node"]], ctx)}
            for c in certificates
        ],
        **(
            {"batch": {"size": ctx.batch_size, "inputs": {n: list(p) for n, p in ctx.batch.items()}}}
            if ctx.batch
            else {}
        ),
        **({"int16_mac_share": round(share, 6)} if share else {}),
    }


def _clipping(out: Tensor, ctx: PassContext) -> dict[str, float | None]:
    """How far values of an op's result reach beyond what its integers hold, by what calibration saw.

    over: largest magnitude over the threshold, at most 1 where nothing is clipped. clipped_channels: part of the
    channels of which some value is. None where calibration did not see them.
    """
    seen, known, quant = ctx.channels.get(out.name), ctx.ranges.get(out.name), out.quant
    if known is None or known.assumed or quant is None or set(out.gain) != {1.0}:
        return {"over": None, "clipped_channels": None}
    over = max(-known.low, known.high) / quant.threshold
    part = None
    if seen is not None:
        part = round(float((seen.peak > np.asarray(quant.scale) * quant.dtype.qmax * (1 + 1e-6)).mean()), 6)
    return {"over": round(over, 6), "clipped_channels": part}


def _integers(graph: Graph, tensor: Tensor) -> Tensor:
    """The quantized twin of an input, or the input itself."""
    return next((op.out for op in graph.consumers(tensor) if op.kind == "Quantize"), tensor)


def _source(graph: Graph, tensor: Tensor) -> Tensor:
    """The integers behind an output, or the output itself."""
    producer = graph.producer(tensor)
    return producer.input(0) if producer is not None and producer.kind == "Dequantize" else tensor


def _port(name: str, tensor: Tensor, integers: Tensor) -> dict[str, Any]:
    return {"name": name, "shape": list(tensor.shape), "dtype": tensor.dtype.value, "scale": _scale(integers)}


def _scale(tensor: Tensor) -> float | list[float] | None:
    if tensor.quant is None:
        return None
    return tensor.quant.scale[0] if len(tensor.quant.scale) == 1 else list(tensor.quant.scale)


def _tensor(tensor: Tensor, ctx: PassContext, groups: dict[str, int]) -> dict[str, Any]:
    quant, seen = tensor.quant, ctx.ranges.get(tensor.name)
    threshold: float | list[float] | None = None
    if quant is not None and len(quant.scale) == 1:
        threshold = quant.threshold
    elif quant is not None and (tensor.const is not None or quant.dtype in (DType.INT8, DType.INT16)):
        qmax = quant.dtype.qmax
        threshold = [s * qmax for s in quant.scale]
    elif quant is not None and seen is not None:
        threshold = seen.threshold
    observer = seen.observer if seen is not None and quant is not None else None
    if tensor.name in ctx.options.fixed_scales and quant is not None:
        observer = "qdq" if tensor.name in ctx.fixed_by_file else "fixed"
    return {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "dtype": (quant.dtype if quant is not None else tensor.dtype).value,
        "scale": _scale(tensor),
        "axis": None if quant is None or len(quant.scale) == 1 else quant.axis,
        "qmax": None if quant is None else quant.dtype.qmax,
        "threshold": threshold,
        "observer": observer,
        "group": groups.get(tensor.name),
        "constant": tensor.const is not None,
        "clipped": clipped_values(tensor, ctx),
        **({} if set(tensor.gain) == {1.0} else {"gain": list(tensor.gain), "gain_axis": tensor.gain_axis}),
    }


def _node(op: Op, remedy: str | None) -> dict[str, Any]:
    return {
        "name": op.name,
        "op": report_op(op),
        "device": op.device,
        "segment": op.segment,
        "inputs": [t.name for t in op.inputs if t is not None],
        "outputs": [t.name for t in op.outputs],
        "onnx_nodes": list(op.origin),
        "dtype": op.outputs[0].dtype.value,
        "reason": op.reason,
        **({"remedy": remedy} if remedy else {}),
    }


def _segments(ops: list[Op], ctx: PassContext) -> list[dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for op in ops:
        reason = ctx.segment_reasons.get(op.segment, "")
        row = found.setdefault(op.segment, {"id": op.segment, "device": op.device, "nodes": [], "reason": reason})
        row["nodes"].append(op.name)
    return [row | _other(ctx, row["nodes"]) for row in found.values()]


def _other(ctx: PassContext, names: list[str], wanted: bool = True) -> dict[str, Any]:
    """What these ops would cost on their other device, where that has a price."""
    row = None if ctx.alternatives is None or not wanted else ctx.alternatives.of(names)
    return {} if row is None else {"alternative": row}
