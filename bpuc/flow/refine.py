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
from bpuc.passkit import Pass, PassContext, Stage, run_pipeline
from bpuc.perf import estimate
from bpuc.plugins import pipeline

# samples that the sensitivity of every tensor is measured on, by effort
SAMPLES = {2: 2, 3: 4}
# parts of the share of int16 that are tried under a limit of latency
BUDGETS = (1.0, 0.5, 0.25, 0.1, 0.03)


def measure(request: Request, prepared: Prepared, source: DataSource) -> None:
    """Fill `ctx.sensitivity` from effort 2 on: the error that each tensor's own rounding brings to the outputs."""
    ctx = prepared.ctx
    if ctx.options.effort < 2 or not ctx.options.auto_int16 or not ctx.need_target().int16_activations:
        return
    graph = quantized_copy(prepared.graph, ctx)
    quants = {t.name: t.quant for t in graph.tensors() if t.const is None and t.quant is not None}
    known = {t.name for t in prepared.graph.tensors()}
    narrow = {n: q for n, q in quants.items() if n in known and q.dtype.value == "int8"}
    ctx.sensitivity = measure_sensitivity(
        prepared.graph, source, narrow, ctx.channels, SAMPLES[ctx.options.effort], request.threads
    )


def afford(request: Request, prepared: Prepared) -> None:
    """Lower `ctx.int16_budget` until the estimated latency is at most `max_latency_loss` percent above int8 alone."""
    ctx, limit = prepared.ctx, request.max_latency_loss
    if limit is None or not ctx.sensitivity:
        return

    def latency(budget: float) -> float:
        graph = quantized_copy(prepared.graph, replace(ctx, int16_budget=budget))
        program = lower(graph, ctx.need_target().march, prepared.model.input_types)
        return float(estimate(program, ctx.need_target())["summary"]["latency_us"])

    most = latency(0.0) * (1 + limit / 100)
    ctx.int16_budget = next((b for b in BUDGETS if latency(b) <= most), 0.0)


def quantized_copy(graph: Graph, ctx: PassContext, passes: Sequence[Pass] | None = None) -> Graph:
    """The graph as the passes would quantize it, while graph and context stay as they are.

    Args:
        passes: the first of those that quantize, in place of all.
    """
    graph, ctx = graph.copy(), ctx.twin()
    run_pipeline(graph, pipeline("place"), ctx)
    run_pipeline(graph, pipeline("quantize") if passes is None else passes, ctx, start=Stage.PLACED)
    return graph
