"""What a decision of the passes does to the network's outputs: integers of the fast engine against the float model.

Errors at the readers of a tensor say little about the outputs: some are amplified on the way, others cancel or meet
larger ones. So decisions about groups of scales are tried out whole, on calibration samples.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice

import numpy as np

from bpuc.calibrate.sensitivity import OutputError
from bpuc.data import DataSource
from bpuc.execute.ort import FloatExecutor
from bpuc.frontend.onnx_import import ImportedModel
from bpuc.ir import Graph
from bpuc.lower import lower
from bpuc.ops.base import Array
from bpuc.passkit import PassContext, Stage, run_pipeline
from bpuc.passkit.macs import macs_of
from bpuc.plugins import pipeline
from bpuc.sim.fast.engine import FastEngine

# Samples of a trial, fewer where they would be more than so many multiply-accumulates. At least two are needed to tell
# a gain from chance, so models of which two are more than the second number are not judged.
SAMPLES, LEAST_SAMPLES, TRIAL_MACS, MOST_MACS = 8, 2, 20e9, 400e9
# How many trials a compile takes, by their work, not by time: every run decides alike. What a trial costs beside
# multiply-accumulates is counted in those: a value that is written like 100, an op that is quantized and lowered like
# 5e7, a weight like 2000 (as measured on one core, where 3e10 take about a second).
TRIALS, ALL_WORK, VALUE_WORK, OP_WORK, WEIGHT_WORK = (4, 24), 6e11, 100, 5e7, 2000


class OutputJudge:
    """Quantizes copies of a graph and measures their outputs; the float outputs are computed once.

    Args:
        graph: in float, before any scale is decided.
    """

    def __init__(self, graph: Graph, model: ImportedModel, source: DataSource, threads: int | None):
        self._types, self._threads = model.input_types, threads
        self._names = float_outputs(graph)
        count = _samples(graph)
        executor = FloatExecutor(graph.copy(), list(self._names.values()), threads)
        self._feeds = list(islice(iter(source), count))
        self._truth = [dict(executor.run(feed)) for feed in self._feeds]

    def __call__(self, graph: Graph, ctx: PassContext, by_channel: bool = False) -> Array:
        """SQNR in dB, float64 [samples, outputs]; `graph` and `ctx` stay as they are."""
        error = OutputError(graph, ctx.channels)
        graph, ctx = graph.copy(), ctx.twin()
        ctx.judge, ctx.layers, ctx.options = None, None, replace(ctx.options, equalize=False)
        run_pipeline(graph, pipeline("quantize"), ctx, start=Stage.PLACED)
        engine = FastEngine(lower(graph, ctx.need_target().march, self._types), self._threads)
        found = []
        for feed, truth in zip(self._feeds, self._truth):
            got = engine.run(feed)
            whole = np.array([closeness(truth[t], got[name])[1] for name, t in self._names.items()])
            if by_channel:
                noise = error(truth, {t: got[name] for name, t in self._names.items()})
                whole = (whole - 10 * math.log10(max(noise, 1e-12))) / 2
            found.append(whole)
        return np.array(found)


def most_trials(graph: Graph) -> int:
    """How many trials the searches of a compile may take together, fewer for larger models."""
    ops = list(graph)
    sample = sum(macs_of(op) + VALUE_WORK * sum(t.elements for t in op.outputs) for op in ops)
    weights = sum(t.elements for t in graph.tensors() if t.const is not None)
    once = OP_WORK * len(ops) + WEIGHT_WORK * weights + 1
    return int(np.clip(ALL_WORK // (_samples(graph) * sample + once), *TRIALS))


def _samples(graph: Graph) -> int:
    fits = int(TRIAL_MACS // max(sum(map(macs_of, graph)), 1))
    return max(LEAST_SAMPLES, min(SAMPLES, fits))


def affordable(graph: Graph) -> bool:
    """Whether there are outputs to measure, and trials of this graph end in reasonable time."""
    return bool(float_outputs(graph)) and sum(map(macs_of, graph)) * LEAST_SAMPLES <= MOST_MACS


def float_outputs(graph: Graph) -> dict[str, str]:
    """Output name -> tensor name of the outputs whose error can be measured."""
    pairs = zip(graph.outputs, graph.output_names, strict=True)
    return {name: t.name for t, name in pairs if t.dtype.is_float and t.const is None}


def closeness(want: Array, got: Array) -> tuple[float, float]:
    """Cosine similarity, and signal to quantization noise in dB (-120 to 120)."""
    a, b = want.astype(np.float64).ravel(), got.astype(np.float64).ravel()
    norm = math.sqrt(float(a @ a) * float(b @ b))
    noise = float(np.square(a - b).sum())
    power = float(a @ a)
    sqnr = 120.0 if noise <= power * 1e-12 else 10 * math.log10(max(power / noise, 1e-12))
    return (float(a @ b) / norm if norm > 0 else 1.0), sqnr
