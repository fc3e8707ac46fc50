"""``bpuc compile``: from a model to a program with its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from bpuc.calibrate.noise import ReaderNoise
from bpuc.calibrate.twin import Twin, sample_count, spread_samples
from bpuc.data import DataSource
from bpuc.flow.batch import in_batches
from bpuc.flow.calibrate import Progress, open_source, ranges_of
from bpuc.flow.far_outputs import tell_far_outputs
from bpuc.flow.images import image_inputs
from bpuc.flow.judge import OutputJudge, affordable, most_trials
from bpuc.flow.prepare import Prepared, prepare
from bpuc.flow.qat import check_complete, without_scale
from bpuc.flow.refine import afford, measure
from bpuc.flow.report import build_report
from bpuc.flow.request import Request, make_request
from bpuc.flow.schedule import best_program
from bpuc.flow.shares import tell_unused_shares
from bpuc.flow.stages import keep_quantized_stages
from bpuc.flow.unused import tell_unmeasured
from bpuc.frontend.onnx_export import export_op
from bpuc.ir import Graph, Op
from bpuc.lower import lower
from bpuc.ops.base import Array
from bpuc.passkit import Stage, run_pipeline
from bpuc.passkit.context import Judge, Noise, PassContext, Trial
from bpuc.passkit.layer import Visit
from bpuc.passkit.search import Budget
from bpuc.perf.cost import rescale_us
from bpuc.plugins import pipeline
from bpuc.program import Program


@dataclass
class Compiled:
    """The program (its report inside) and the graph that it came from."""

    program: Program
    prepared: Prepared


def compile_model(
    request: Request, progress: Progress | None = None, assume: bool = True, runs: bool = True
) -> Compiled:
    """Import, optimize, calibrate where needed, place, quantize, lower.

    Args:
        assume: count all scales as equal where neither data nor the model file give any; else that is refused.
        runs: whether the program is to be run or written; else it lacks the constants of ops on the CPU.

    Raises:
        ConfigError: no march, or an option that does not fit the model. ModelError, DataError, FileError: their fault.
    """
    prepared, source = calibrated(request, progress, assume)
    return compile_prepared(request, *in_batches(request, prepared, source), runs)


def calibrated(
    request: Request, progress: Progress | None = None, assume: bool = True
) -> tuple[Prepared, DataSource | None]:
    """The model as `prepare` gives it, with the ranges of its tensors, and the data, if any were named.

    Raises:
        As `compile_model`.
    """
    if request.march is None:
        raise request.missing(
            "no march was named",
            hint="give --march, or model_parameters.march in the YAML file; `bpuc targets` lists them",
        )
    prepared = prepare(request)
    prepared.ctx.images = image_inputs(prepared.inputs, request.config)
    source = open_source(request, prepared)
    ranges_of(request, prepared, source, progress, assume)
    return prepared, source


def compile_prepared(request: Request, prepared: Prepared, source: DataSource | None, runs: bool = True) -> Compiled:
    """Place, quantize and lower what `calibrated` gave; changes it, `refine.twin` makes a copy first.

    Args:
        runs: as for `compile_model`.
    """
    ctx, graph, target = prepared.ctx, prepared.graph, prepared.ctx.need_target()
    ctx.rescale_us = partial(rescale_us, dtype_bytes=1, target=target)
    rows = prepared.passes
    rows += run_pipeline(
        graph, pipeline("scaled"), ctx, dump_dir=request.dump_dir, first=len(rows), probe=prepared.probe
    )
    if source is not None and not request.random_data:
        ctx.measure = partial(_measure, source, request.threads)
        ctx.trial = partial(_trial, source, request.threads)
        if ctx.options.effort >= 1 and affordable(graph):
            ctx.judge, ctx.judged, ctx.budget = _judge(request, prepared, source), True, Budget(most_trials(graph))
        measure(request, prepared, source)
        afford(request, prepared)
        if ctx.options.effort >= 1:
            ctx.layers = partial(_layers, source, ctx, graph.copy())
    else:
        tell_unmeasured(request, ctx)
    keep_quantized_stages(request, prepared)
    rows += run_pipeline(
        graph, pipeline("place"), ctx, dump_dir=request.dump_dir, first=len(rows), probe=prepared.probe
    )
    tell_unused_shares(graph, ctx)
    assumed = any(r.assumed for r in ctx.ranges.values())
    lacking = without_scale(graph, ctx) if source is None and request.calib is None and not assumed else []
    rows += run_pipeline(
        graph,
        pipeline("quantize"),
        ctx,
        start=Stage.PLACED,
        dump_dir=request.dump_dir,
        first=len(rows),
        probe=prepared.probe,
    )
    check_complete(lacking)
    for r in ctx.rescales:
        r.latency_us = rescale_us(r.elements, 1, target)
    for a in ctx.avoided:
        a.latency_us = rescale_us(ctx.avoided_elements[a.node, a.tensor], 1, target)
    make = partial(
        lower, graph, target.march, prepared.model.input_types, ctx.images, export=cache(partial(export_op, whole=runs))
    )
    program = best_program(request, target, make)
    program.report = build_report(graph, ctx, prepared.model, rows, program.certificates)
    return Compiled(program, prepared)


def _measure(source: DataSource, threads: int | None, graph: Graph, readers: list[Op]) -> Noise:
    return ReaderNoise(graph, source, readers, threads).increase_db


def _layers(source: DataSource, ctx: PassContext, plain: Graph, graph: Graph, visit: Visit) -> list[tuple[Array, ...]]:
    samples = spread_samples(source, source.samples, sample_count(graph, ctx.options.effort))
    twin = Twin(plain, samples)
    outputs = twin.walk(graph, visit)
    tell_far_outputs(graph, ctx, twin.errors)
    return outputs


def _trial(source: DataSource, threads: int | None, graph: Graph, readers: list[Op]) -> Trial:
    return ReaderNoise(graph, source, readers, threads).trial


def _judge(request: Request, prepared: Prepared, source: DataSource) -> Judge:
    """Float outputs are computed on first use: most models have nothing to judge."""
    made: list[OutputJudge] = []

    def judge(graph: Graph, ctx: PassContext, by_channel: bool = False) -> Array:
        if not made:
            made.append(OutputJudge(graph, prepared.model, source, request.threads))
        return made[0](graph, ctx, by_channel)

    return judge


def compile_for_perf(
    model: str | None, march: str | None, options: Mapping[str, Any], look: Callable[[Request], None] | None = None
) -> Program:
    """A program for the sake of its latency: no data, all scales assumed equal.

    Args:
        options: option -> value as `make_request` takes them. look: sees the request before any work.
    """
    request = make_request(model, march, **options)
    if look is not None:
        look(request)
    return compile_model(request, runs=False).program
