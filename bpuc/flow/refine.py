"""Measurements that need a first quantized form of the model: done on copies, before the real one is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bpuc.calibrate.sensitivity import measure_sensitivity
from bpuc.data import DataSource
from bpuc.flow.prepare import Prepared
from bpuc.flow.request import Request
from bpuc.ir import Graph
from bpuc.lower import lower
from bpuc.passkit import CompileOptions, Pass, PassContext, Stage, run_pipeline
from bpuc.perf import estimate
from bpuc.plugins import pipeline

# samples that the sensitivity of every tensor is measured on, by effort
SAMPLES = {2: 2, 3: 4}
# parts of the share of int16 that are tried under a limit of latency
BUDGETS = (1.0, 0.5, 0.25, 0.1, 0.03)


def measure(request: Request, prepared: Prepared, source: DataSource) -> None:
    """Fill `ctx.sensitivity` from `int16_effort` 2 on: the error that a tensor's own rounding brings to the outputs."""
    ctx = prepared.ctx
    if ctx.int16_effort < 2 or not ctx.options.auto_int16 or not ctx.need_target().int16_activations:
        return
    graph = quantized_copy(prepared.graph, ctx)
    quants = {t.name: t.quant for t in graph.tensors() if t.const is None and t.quant is not None}
    known = {t.name for t in prepared.graph.tensors()}
    narrow = {n: q for n, q in quants.items() if n in known and q.dtype.value == "int8"}
    ctx.sensitivity = measure_sensitivity(
        prepared.graph, source, narrow, ctx.channels, SAMPLES[ctx.int16_effort], request.threads
    )


def afford(request: Request, prepared: Prepared) -> None:
    """Lower `ctx.int16_budget` until the estimated latency is at most `max_latency_loss` percent above int8 alone.

    Where even the few tensors cost more that other passes would widen by themselves, nothing becomes int16 unasked.
    """
    ctx, limit = prepared.ctx, request.max_latency_loss
    if limit is None or not ctx.options.auto_int16 or not ctx.need_target().int16_activations:
        return
    alone = replace(ctx.options, auto_int16=False)

    def latency(budget: float, options: CompileOptions) -> float:
        graph = quantized_copy(prepared.graph, replace(ctx, int16_budget=budget, options=options))
        program = lower(graph, ctx.need_target().march, prepared.model.input_types)
        return float(estimate(program, ctx.need_target())["summary"]["latency_us"])

    most = latency(0.0, alone) * (1 + limit / 100)
    for budget in (*(BUDGETS if ctx.sensitivity else ()), 0.0):
        if latency(budget, ctx.options) <= most:
            ctx.int16_budget = budget
            return
    ctx.int16_budget, ctx.options = 0.0, alone


def quantized_copy(graph: Graph, ctx: PassContext, passes: Sequence[Pass] | None = None) -> Graph:
    """The graph as the passes would quantize it, while graph and context stay as they are.

    Args:
        passes: the first of those that quantize, in place of all.
    """
    graph, ctx = graph.copy(), ctx.twin()
    run_pipeline(graph, pipeline("place"), ctx)
    run_pipeline(graph, pipeline("quantize") if passes is None else passes, ctx, start=Stage.PLACED)
    return graph
