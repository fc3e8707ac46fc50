"""``bpuc stats``: what values the tensors of a float model take on samples."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from bpuc.execute.ort import FloatExecutor
from bpuc.flow.calibrate import Progress
from bpuc.flow.floats import FloatModel, short
from bpuc.ir import Graph, Tensor
from bpuc.observe.profile import Profile
from bpuc.ops.base import Array
from bpuc.passkit.channels import channel_axes
from bpuc.passkit.weights import weight_axis, with_weights

SCHEMA = "bpuc.stats/1"
# with so many values or more, a tensor's profile says something of its tails
ENOUGH = 1000


def stats(
    floats: FloatModel,
    limit: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """The document and warnings: inputs, weights and results of all nodes, in the order of the model.

    Args:
        limit: samples at most; None for all.

    Raises:
        DataError: a sample does not fit the model.
    """
    graph, source = floats.model.graph, floats.source
    axes = {t.name: a for t, a in channel_axes(graph).items()}
    tensors = [*graph.inputs, *(t for op in graph for t in op.outputs)]
    seen = {t.name: t for t in tensors if not t.host and t.const is None and t.dtype.value != "bool"}
    found = {n: Profile(axes.get(n, 1 if t.rank > 1 else None)) for n, t in seen.items()}
    executor = FloatExecutor(graph, list(seen), threads)
    count = source.samples if limit is None else min(limit, source.samples)
    samples: Iterable[dict[str, Array]] = islice(iter(source), count)
    for sample in samples if progress is None else progress(samples, count):
        for name, array in executor.run(sample):
            found[name].update(array)
    rows = _rows(graph, found)
    document = {
        "schema": SCHEMA,
        "model_sha256": floats.model.sha256,
        "samples": count,
        "tensors": [{"index": i, **r} for i, r in enumerate(rows)],
    }
    return document, list(floats.warnings)


def _rows(graph: Graph, found: dict[str, Profile]) -> list[dict[str, Any]]:
    outputs = {t.name for t in graph.outputs}
    rows = [_row(t, "input", None, None, found[t.name]) for t in graph.inputs if t.name in found]
    constants: set[str] = set()
    for op in graph:
        # what the file says of a normalization is one gain and one offset here, under names that mean other values
        for i, t in enumerate(op.inputs if op.onnx_type != "BatchNormalization" else ()):
            if t is None or t.const is None or not t.dtype.is_float or t.name in constants or not t.elements:
                continue
            constants.add(t.name)
            profile = Profile(weight_axis(op) if with_weights(op) and i == 1 else None)
            profile.update(t.value())
            kind = "weight" if i == 1 and with_weights(op) else "bias" if i == 2 and with_weights(op) else "constant"
            rows.append(_row(t, kind, op.name, op.onnx_type, profile))
        for t in op.outputs:
            if t.name in found:
                role = "output" if t.name in outputs else "result"
                rows.append(_row(t, role, op.name, op.onnx_type, found[t.name]))
    return rows


def _row(t: Tensor, role: str, node: str | None, op: str | None, p: Profile) -> dict[str, Any]:
    edges, counts = p.histogram()
    channels = p.channels()
    return {
        "tensor": t.name,
        "role": role,
        "node": node,
        "op": op,
        "shape": list(t.shape),
        "dtype": str(t.dtype),
        "values": p.count,
        "not_finite": p.not_finite,
        "min": short(p.low),
        "max": short(p.high),
        "mean": short(p.mean),
        "std": short(p.std),
        "skewness": short(p.skewness),
        "kurtosis": short(p.kurtosis),
        "zeros": short(p.zeros / max(p.count, 1)),
        "percentiles": {k: short(v) for k, v in p.percentiles().items()},
        "channels": None
        if channels is None
        else {"axis": p.axis, "min": [short(v) for v in channels[0]], "max": [short(v) for v in channels[1]]},
        "histogram": {"edges": [short(v) for v in edges], "counts": counts},
        "note": _note(p, channels, t.const is not None),
    }


def _note(p: Profile, channels: tuple[list[float], list[float]] | None, constant: bool) -> str | None:
    """What makes a tensor hard to quantize with one scale, if anything does."""
    if p.not_finite:
        return f"{p.not_finite} values are NaN or infinite"
    if not p.count:
        return None
    if p.low == p.high:
        return "constant in all samples" if p.count > 1 and not constant else None
    reach = max(-p.low, p.high)
    typical = max(abs(v) for k, v in p.percentiles().items() if k in ("0.1", "99.9"))
    if p.count >= ENOUGH and typical > 0 and reach > 8 * typical:
        return f"outliers: the largest magnitude is {reach / typical:.0f} times that of 99.8 % of the values"
    if channels is not None and len(channels[0]) > 1 and not constant:  # weights have scales by channel
        peaks = sorted(max(-a, b) for a, b in zip(*channels))
        middle = peaks[len(peaks) // 2]
        if middle > 0 and peaks[-1] > 16 * middle:
            return f"channels differ: the widest reaches {peaks[-1] / middle:.0f} times as far as the middle one"
    if not constant and max(p.low, -p.high) > p.high - p.low:
        return "far from zero: most integers stand for values that do not occur"
    return None
