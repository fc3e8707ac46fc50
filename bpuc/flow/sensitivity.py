"""``bpuc sensitivity``: which op costs how much accuracy at the outputs, activations and weights apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.base.errors import ConfigError, ModelError, name_hint
from bpuc.calibrate.switched import Switch, SwitchedGraph
from bpuc.config.qconfig import SENSITIVITY_SCHEMA
from bpuc.flow.calibrate import Progress
from bpuc.flow.compile import calibrated
from bpuc.flow.difference import SMALL_IS_BAD, Difference
from bpuc.flow.floats import short
from bpuc.flow.prepare import Prepared
from bpuc.flow.refine import quantized_copy
from bpuc.flow.request import Request
from bpuc.flow.shares import tell_unused_shares
from bpuc.ir import Graph, Op, QuantParams
from bpuc.ops.base import Array
from bpuc.passkit.scales import moved_together
from bpuc.passkit.weights import per_channel, weight_axis, with_weights

METRICS = ("cosine", "sqnr", "mse", "l1")


@dataclass(frozen=True)
class Part:
    """What is rounded, or left in float, by itself. op: the ONNX node, or the name of an input of the model."""

    op: str
    op_type: str
    kind: str
    switch: Switch
    dtype: str


def sensitivity(
    request: Request,
    metric: str = "cosine",
    samples: int = 8,
    leave_float: bool = False,
    output: str | None = None,
    progress: Progress | None = None,
    measuring: Callable[[Iterable[None], int], Iterable[None]] | None = None,
    tell: Callable[[str], None] | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """The document, its rows the worst first, and warnings.

    Args:
        metric: cosine, sqnr, mse or l1, taken at each output and averaged.
        samples: the first ones of the data, at most; all of them calibrate.
        leave_float: all is rounded but one part, in place of one part alone.
        output: the one that counts; all without.
        measuring: shows the progress of the measurement, part by part. tell: is told how much there is to measure.

    Raises:
        ConfigError: no march, no data, or no output of that name. ModelError: nothing to measure.
    """
    prepared, source = calibrated(request, progress)
    if source is None or request.random_data:
        raise request.missing("no data were named", hint="use --data PATH: sensitivity is measured on it")
    graph = prepared.graph
    tell_unused_shares(quantized_copy(graph, prepared.ctx, passes=()), prepared.ctx)
    outputs = _outputs(graph, output)
    parts, switched = _parts(prepared)
    if not parts:
        raise ModelError(f"no op of {request.model} runs on the BPU", hint="bpuc check says why")
    whole = Switch()
    for part in parts:
        whole |= part.switch
    start = whole if leave_float else Switch()
    changed = [whole - p.switch if leave_float else p.switch for p in parts]
    found = [{name: Difference() for name in outputs} for _ in parts]
    rounded = {name: Difference() for name in outputs}
    count = min(samples, source.samples)
    if tell is not None:
        tell(f"measuring {len(parts)} parts (results of ops, weights) one by one on {count} sample{'s' * (count > 1)}")

    def measured() -> Iterator[None]:
        for sample in islice(iter(source), count):
            plain = switched.run(sample, Switch())
            base = switched.again(sample, start, plain, Switch()) if leave_float else plain
            _see(rounded, outputs, plain, base if leave_float else switched.again(sample, whole, plain, Switch()))
            for on, differences in zip(changed, found):
                _see(differences, outputs, plain, switched.again(sample, on, base, start))
                yield

    for _ in measured() if measuring is None else measuring(measured(), count * len(parts)):
        pass
    all_rounded = {name: _bad(d, metric) for name, d in rounded.items()}
    rows = []
    for part, differences in zip(parts, found):
        bad = {name: _bad(d, metric) for name, d in differences.items()}
        if leave_float:
            bad = {name: all_rounded[name] - b for name, b in bad.items()}
        rows.append(_row(part, bad, differences))
    rows.sort(key=lambda r: -r["sensitivity"])
    document = {
        "schema": SENSITIVITY_SCHEMA,
        "march": prepared.ctx.need_target().march,
        "model_sha256": prepared.model.sha256,
        "samples": count,
        "metric": metric,
        "leave_float": leave_float,
        "ops": rows,
        "all_rounded": _means(rounded.values()),
        "outputs": [*outputs],
    }
    return document, [w.message for w in dict.fromkeys(prepared.ctx.warnings)]


def _outputs(graph: Graph, chosen: str | None) -> dict[str, str]:
    """Output -> tensor, of those whose error can be measured."""
    pairs = zip(graph.output_names, graph.outputs)
    found = {name: t.name for name, t in pairs if t.const is None and not t.host}
    if chosen is None:
        if not found:
            raise ModelError("the model has no output that depends on its inputs")
        return found
    if chosen not in found:
        raise ConfigError(f"the model has no output {chosen!r}", hint=name_hint(chosen, sorted(found)))
    return {chosen: found[chosen]}


def _parts(prepared: Prepared) -> tuple[list[Part], SwitchedGraph]:
    """What the BPU rounds: results, by the op that computes them (with what only moves them on), and weights."""
    graph = prepared.graph
    placed = quantized_copy(graph, prepared.ctx)
    stored = {t.name: t for t in placed.tensors() if t.const is None and t.quant is not None}
    quants = {}
    for t in graph.tensors():
        scale = stored[t.name].onnx_scale if t.name in stored and t.dtype.is_float and t.const is None else None
        quant = None if scale is None else stored[t.name].quant
        if scale is not None and quant is not None and quant.dtype in (DType.INT8, DType.INT16):
            quants[t.name] = QuantParams(quant.dtype, *scale)
    parts = []
    for group in moved_together(graph):
        names = [t.name for t in group if t.name in quants]
        if names:
            first = graph.producer(next(t for t in group if t.name == names[0]))
            parts.append(
                Part(
                    names[0] if first is None else _name(first),
                    "Input" if first is None else first.onnx_type,
                    "activation",
                    Switch(tensors=frozenset(names)),
                    str(quants[names[0]].dtype),
                )
            )
    weights = {}
    there = {op.name: op for op in placed}
    for op in graph:
        twin = there.get(op.name)
        if not with_weights(op) or twin is None or twin.device != "BPU" or twin.maybe(1) is None:
            continue
        kept = twin.input(1).quant
        if kept is None or not op.input(1).elements:
            continue
        weights[op.name] = _weight_quant(prepared, op, kept.dtype)
        switch = Switch(weights=frozenset([op.name]))
        parts.append(Part(_name(op), op.onnx_type, "weight", switch, str(kept.dtype)))
    return parts, SwitchedGraph(graph, quants, weights)


def _name(op: Op) -> str:
    """The name under which the file, and so a rule of the qconfig, knows the op."""
    return op.name if op.name in op.origin or not op.origin else op.origin[-1]


def _weight_quant(prepared: Prepared, op: Op, dtype: DType) -> QuantParams:
    largest = np.abs(per_channel(op)).max(1)
    chosen = prepared.ctx.weights.get(op.input(1).name)
    if chosen is not None and chosen.shape == largest.shape:
        largest = np.asarray(chosen, np.float64)
    return QuantParams(dtype, tuple(float(v) if v > 0 else 1.0 for v in largest / dtype.qmax), weight_axis(op))


def _see(into: dict[str, Difference], outputs: dict[str, str], plain: dict[str, Array], got: dict[str, Array]) -> None:
    for name, tensor in outputs.items():
        into[name].update(plain[tensor], got[tensor])


def _bad(d: Difference, metric: str) -> float:
    """A number that is larger the worse the output is: 1 - cosine, the SQNR with its sign turned, mse or l1."""
    value = d.exact()[metric]
    return 1.0 - value if metric == "cosine" else -value if metric in SMALL_IS_BAD else value


def _means(differences: Iterable[Difference]) -> dict[str, float]:
    rows = [d.exact() for d in differences]
    return {k: short(float(np.mean([r[k] for r in rows]))) for k in METRICS}


def _row(part: Part, bad: dict[str, float], differences: dict[str, Difference]) -> dict[str, Any]:
    return {
        "op": part.op,
        "kind": part.kind,
        "sensitivity": short(float(np.mean([*bad.values()]))),
        "op_type": part.op_type,
        "dtype": part.dtype,
        **_means(differences.values()),
        "by_output": {name: short(b) for name, b in bad.items()},
        "tensors": sorted(part.switch.tensors),
    }
