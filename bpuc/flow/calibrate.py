"""``bpuc calibrate``: from a model and data to a calibration file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bpuc import __version__
from bpuc.base.errors import FileError, did_you_mean
from bpuc.calibrate import Calibration, TensorRange, calibrate_graph, load_calibration
from bpuc.calibrate.cluster import DaskPool
from bpuc.calibrate.parallel import LocalPool, Pool
from bpuc.calibrate.partial import Partial
from bpuc.calibrate.search import Search
from bpuc.calibrate.tune import CLIPPING
from bpuc.data import DataSource, open_data, random_data
from bpuc.flow.contest import best_table
from bpuc.flow.prepare import Prepared, prepare
from bpuc.flow.qat import fill, take_file_scales, with_file_scales
from bpuc.flow.request import Request
from bpuc.flow.twice import tell_twice_in_data
from bpuc.passkit import PassContext
from bpuc.passkit.context import Range
from bpuc.passkit.qconfig import of_result, results_named
from bpuc.passkit.requests import asked_dtypes, template_int16
from bpuc.passkit.weights import per_channel, weight_axis, with_weights

Progress = Callable[[Iterable[dict[str, np.ndarray]], int], Iterable[dict[str, np.ndarray]]]


def calibrate(
    request: Request, progress: Progress | None = None, resume: Path | None = None
) -> tuple[Calibration, Prepared]:
    """Observe the model's tensors on the data; scales that stand in the model file go before what is observed.

    Args:
        resume: file that keeps what has been seen, and from which a run that was interrupted goes on; for the caller to
            delete, once the calibration is written.

    Raises:
        ModelError, DataError, ConfigError, FileError: what the user can mend.
    """
    prepared = prepare(request)
    source = open_source(request, prepared)
    if source is None:
        raise request.missing(
            "no calibration data were named", hint="use --data PATH, or cal_data_dir in the YAML file"
        )
    partial = None if resume is None else Partial(resume, _identity(request, prepared, source))
    calibration = collect(request, prepared, source, progress, partial)
    _tell_dead(prepared, calibration.tensors)
    return with_file_scales(prepared, calibration), prepared


def _identity(request: Request, prepared: Prepared, source: DataSource) -> dict[str, Any]:
    """All but the samples that thresholds depend on."""
    o = request.options
    tensors = [(t.name, list(t.shape)) for t in prepared.graph.tensors() if t.observer and t.const is None]
    return {
        "model": prepared.model.sha256,
        "version of bpuc": __version__,
        "observer": o.observer,
        "options": [dict(o.observer_options), dict(o.observers), dict(o.dtypes), o.template, o.effort, o.tune, tensors],
        "rules": [str(r) for r in (*o.rules, *o.node_dtypes)],
        "number of samples": source.samples,
    }


def open_source(request: Request, prepared: Prepared) -> DataSource | None:
    """The samples that the request names, or None where it names none."""
    if request.data is not None:
        source = open_data(request.data, prepared.inputs, request.config)
    elif request.random_data:
        source = random_data(prepared.inputs)
        prepared.ctx.warn(
            "random-data", "calibrated on random data: latency and placement are meaningful, accuracy is not"
        )
    elif request.config is not None and request.config.data:
        source = open_data(None, prepared.inputs, request.config)
        tell_twice_in_data(source, prepared.inputs, request.config, prepared.ctx)
    else:
        return None
    for text in source.warnings:
        prepared.ctx.warn("data", text)
    return source


def collect(
    request: Request,
    prepared: Prepared,
    source: DataSource,
    progress: Progress | None = None,
    partial: Partial | None = None,
) -> Calibration:
    """Run the samples through the optimized float graph, here or where the request says."""
    options = request.options
    wide, overrides = _of_tensors(prepared)
    overrides |= prepared.observers
    samples: Iterable[dict[str, np.ndarray]] = source
    if progress is not None:
        samples = progress(source, source.samples)

    def choose(tables: Sequence[Mapping[str, TensorRange]]) -> int:
        names = ["tuned", "as observed", *(f"tuned with clipping weighed {c:g} times" for c in CLIPPING[1:])]
        return best_table(prepared, source, tables, names, options.effort, request.threads)

    searched: list[Search] = []
    tensors = calibrate_graph(
        prepared.graph,
        samples,
        options.observer,
        options.observer_options,
        overrides=overrides,
        wide=lambda name: name in wide,
        count=source.samples,
        threads=request.threads,
        channels=options.effort > 0,
        tune=options.tune,
        pool=_pool(request),
        partial=partial,
        clipping=CLIPPING if options.effort >= 2 else CLIPPING[:1],
        tell=searched.append,
        # on made-up samples there is nothing to win
        choose=choose if options.effort >= 1 and not request.random_data else None,
        fine=options.effort >= 3,
    )
    for search in searched:
        if search.note:
            prepared.ctx.warn("default-search", search.note)
    share_observers(prepared, tensors)
    weights = {
        op.input(1).name: ([float(v) for v in np.abs(per_channel(op)).max(1)], weight_axis(op))
        for op in prepared.graph
        if with_weights(op) and op.input(1).elements
    }
    positive = {n: ([v if v > 0 else 1.0 for v in t], axis) for n, (t, axis) in weights.items()}
    return Calibration(
        prepared.model.sha256,
        options.observer,
        dict(options.observer_options),
        source.samples,
        source.digest(),
        tensors,
        positive,
        searched[0].as_json() if searched else None,
    )


def _of_tensors(prepared: Prepared) -> tuple[set[str], dict[str, tuple[str, Mapping[str, Any]]]]:
    """Tensors that are asked to be int16, where the march, if it is known, has that; and observers of their own."""
    graph, ctx = prepared.graph, prepared.ctx
    seen = [t for t in graph.tensors() if t.observer and t.const is None]
    able = ctx.target is None or ctx.target.int16_activations
    asked = asked_dtypes(graph, ctx, dict.fromkeys(seen), lambda *_: None) if able else {}
    wide = (
        {t.name for t in template_int16(graph, ctx, dict.fromkeys(seen)) if asked.get(t) != "int8"} if able else set()
    )
    overrides: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for t in seen:
        rule = of_result(ctx.matches, graph, t, "observer")
        if rule is not None and rule.observer is not None:
            overrides[t.name] = (rule.observer, rule.observer_options)
    return wide | {t.name for t, dtype in asked.items() if dtype == "int16"}, overrides


def share_observers(prepared: Prepared, tensors: dict[str, TensorRange]) -> None:
    """Give tensors that are to share an observer one range: the union, and the larger threshold."""
    graph = prepared.graph
    for match in prepared.ctx.matches:
        other = match.rule.share_observer_with
        if other is None:
            continue
        names = {t.name for t in graph.tensors() if t.name in match.tensors}
        names |= {t.name for op in graph if match.names(op) for t in op.outputs}
        together = [n for n in (*sorted(names), *results_named(graph, other)) if n in tensors]
        if len(together) < 2:
            prepared.ctx.warn(
                "share-observer",
                f"{match.rule.source}: {match.rule.match} and {other} have no two values that are observed; one of "
                "them was fused away",
                match.rule.match,
            )
            continue
        ranges = [tensors[n] for n in together]
        widest = max(ranges, key=lambda r: r.threshold)
        low, high = min(r.low for r in ranges), max(r.high for r in ranges)
        for n in together:
            tensors[n] = replace(tensors[n], low=low, high=high, threshold=widest.threshold, observer=widest.observer)


def _pool(request: Request) -> Pool | None:
    if request.scheduler:
        return DaskPool(request.scheduler, request.threads)
    return LocalPool(request.workers, request.threads) if request.workers and request.workers > 1 else None


def ranges_of(
    request: Request,
    prepared: Prepared,
    source: DataSource | None,
    progress: Progress | None = None,
    assume: bool = True,
) -> None:
    """Fill the context's ranges: from the calibration file, from data, or assumed equal where there is neither.

    Scales in the model file itself go before those of data; a calibration file is used as it stands.

    Raises:
        ConfigError: there is nothing to choose scales from, and `assume` does not allow to go on without.
        FileError: the calibration file belongs to another model or lacks tensors that are needed.
    """
    ctx = prepared.ctx
    needed = [t.name for t in prepared.graph.tensors() if t.observer]
    if request.calib is not None:
        calibration = load_calibration(request.calib)
        if calibration.model_sha256 != prepared.model.sha256:
            raise FileError(
                f"{request.calib} was made for another model (sha256 {calibration.model_sha256[:12]}...)",
                want=f"a calibration of {request.model} (sha256 {prepared.model.sha256[:12]}...)",
                hint="run `bpuc calibrate` on this model",
            )
        lacking = [n for n in needed if n not in calibration.tensors]
        if lacking and source is None:
            raise FileError(
                f"{request.calib} has no threshold for tensor {lacking[0]}"
                + (f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""),
                hint="calibrate with the same --run-on-cpu, --input-shape options, or add --data to fill the gaps",
            )
        _tell_unobserved(request, ctx, f"the thresholds stand in {request.calib}", len(lacking))
        if lacking and source is not None:
            fresh = collect(request, prepared, source, progress)
            _take(ctx, {n: fresh.tensors[n] for n in lacking})
        _tell_unknown(request, prepared, calibration)
        _check_weights(request, prepared, calibration)
        _take(ctx, calibration.tensors)
        ctx.samples = calibration.samples
        ctx.weights = {n: np.asarray(t) for n, (t, _) in calibration.weights.items()}
        asked = {n: t.dtype for n, t in calibration.tensors.items() if t.dtype == "int16" and n in needed}
        ctx.calibrated_dtypes = asked
        return
    if source is not None:
        found = collect(request, prepared, source, progress).tensors
        _take(ctx, found)
        ctx.samples = source.samples
        _tell_dead(prepared, found)
        take_file_scales(prepared)
        return
    if not assume:
        take_file_scales(prepared)
        if not ctx.file_scales:
            raise request.missing(
                "nothing to choose scales from",
                want="--calib X.calib.json, --data PATH or --random-data, or a model with Q/DQ nodes",
                where=str(request.config.path if request.config else request.model),
                hint="in YAML: cal_data_dir, or calibration_type: skip for latency alone" if request.config else None,
            )
        fill(prepared.graph, ctx.ranges)
        _tell_unobserved(request, ctx, "the scales stand in the model file")
        return
    _tell_unobserved(request, ctx, "without data nothing is observed")
    for name in needed:
        ctx.ranges[name] = Range(-1.0, 1.0, 1.0, "none", assumed=True)
    ctx.warn("no-data", "no data: all scales count as shared; rescales that only data can force are not in this result")


def _tell_unobserved(request: Request, ctx: PassContext, why: str, lacking: int = 0) -> None:
    """Warn of options for observers where thresholds come from elsewhere, but for `lacking` tensors."""
    for option in request.observing:
        acts = f"acts on the {lacking} tensors alone that it lacks" if lacking else "has no effect"
        ctx.warn("observer", f"{option} {acts}: {why}")


def _tell_unknown(request: Request, prepared: Prepared, calibration: Calibration) -> None:
    """Warn of entries for tensors that the model has not, which a person has written: nothing takes them."""
    ctx, o = prepared.ctx, request.options
    if o.output_nodes or o.remove_types or o.remove_names:
        return  # the model has more tensors than are there now
    known = dict.fromkeys([*(t.name for t in prepared.graph.tensors()), *sorted(ctx.fused)])
    for name in (*calibration.tensors, *calibration.weights):
        if name not in known:
            hint = did_you_mean(name, list(known))
            ctx.warn(
                "calibration", f"{request.calib}: {name} is no tensor of the model" + (f"; {hint}" if hint else "")
            )


def _check_weights(request: Request, prepared: Prepared, calibration: Calibration) -> None:
    """Each entry has one threshold for every output channel of an op that reads these weights, or none reads them."""
    fits: dict[str, list[tuple[int, int]]] = {}
    for op in prepared.graph:
        if with_weights(op):
            fits.setdefault(op.input(1).name, []).append((len(per_channel(op)), weight_axis(op)))
    for name, (thresholds, axis) in calibration.weights.items():
        if name in fits and (len(thresholds), axis) not in fits[name]:
            channels, right = fits[name][0]
            raise FileError(
                f"{request.calib}: weights {name} have {len(thresholds)} thresholds along axis {axis}",
                want=f"{channels} along axis {right}, one for each output channel",
            )


def _take(ctx: PassContext, found: Mapping[str, TensorRange]) -> None:
    for name, t in found.items():
        ctx.ranges[name] = Range(t.low, t.high, t.threshold, t.observer)
        if t.channels is not None:
            ctx.channels[name] = t.channels
        if t.tail is not None:
            ctx.tails[name] = t.tail


def _tell_dead(prepared: Prepared, found: Mapping[str, TensorRange]) -> None:
    for tensor in prepared.graph.inputs:
        seen = found.get(tensor.name)
        if seen is not None and seen.low == seen.high:
            prepared.ctx.warn(
                "constant-input",
                f"input {tensor.name} is {'zero' if seen.high == 0 else f'constant ({seen.high:g})'} in all samples",
                tensor.name,
            )
