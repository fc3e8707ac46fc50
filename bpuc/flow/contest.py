"""Which of several tables of thresholds is best for the model's outputs, measured on calibration samples.

Every candidate is compiled for the march and its integers are run. Two things are looked at, in dB, and count alike:
noise against the whole output, and noise of every channel against that channel (`OutputError`), without which scores
beside coordinates would not count at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from bpuc.calibrate.sensitivity import OutputError
from bpuc.calibrate.table import TensorRange
from bpuc.calibrate.twin import spread_samples
from bpuc.data import DataSource
from bpuc.execute.ort import FloatExecutor
from bpuc.flow.judge import LEAST_SAMPLES, affordable, closeness, float_outputs
from bpuc.flow.prepare import Prepared
from bpuc.flow.refine import quantized_copy
from bpuc.lower import lower
from bpuc.passkit.context import Range, Refinement
from bpuc.passkit.macs import macs_of
from bpuc.sim.fast.engine import FastEngine

# samples, by effort; fewer where they would be more than so many multiply-accumulates
SAMPLES, ALL_MACS = {1: 4, 2: 8, 3: 16}, 200e9
# dB that another than the first table must win
_WORTH = 0.25

Table = Mapping[str, TensorRange]


def best_table(
    prepared: Prepared,
    source: DataSource,
    tables: Sequence[Table],
    names: Sequence[str],
    effort: int,
    threads: int | None,
) -> int:
    """Index of the table that is best for the outputs; the first, unless another is clearly and mostly better.

    Args:
        names: what the report calls the tables.
    """
    if prepared.ctx.target is None or not affordable(prepared.graph):
        return 0
    fits = int(ALL_MACS // max(sum(map(macs_of, prepared.graph)), 1))
    count = max(LEAST_SAMPLES, min(SAMPLES[effort], fits))
    scores = closeness_of(prepared, source, tables, count, threads)
    gains = np.nan_to_num(scores - scores[0])
    best = int(gains.mean(1).argmax())
    if gains[best].mean() <= _WORTH or (gains[best] > 0).mean() <= 0.5:
        best = 0
    # At effort 3 the first is told beside the second, tuned beside as observed. Below, a calibration file, which has no
    # gains in it, gives the same program, report included.
    other = 0 if best else 1
    gain = float(np.nan_to_num(scores[best] - scores[other]).mean())
    if gain <= 0 or (best == 0 and effort < 3):
        return best
    why = f"outputs {gain:.2f} dB nearer to float than {names[other]}, on {gains.shape[1]} samples"
    prepared.ctx.refinements.append(Refinement("choose-thresholds", f"thresholds {names[best]}", "", why))
    return best


def closeness_of(
    prepared: Prepared, source: DataSource, tables: Sequence[Table], count: int, threads: int | None
) -> np.ndarray:
    """Closeness of the outputs to those of the float model in dB, float64 [tables, samples]."""
    graph, types = prepared.graph, prepared.model.input_types
    channels = {n: t.channels for n, t in tables[0].items() if t.channels is not None}
    error, names = OutputError(graph, channels), float_outputs(graph)
    # thresholds are per tensor and do not hang on how a compile shares them: concats join in the default way
    options = replace(prepared.ctx.options, share_scales="auto", max_bits_lost=None, shared=(), keep_scales=())
    samples = spread_samples(source, source.samples, count)
    executor = FloatExecutor(graph, list(names.values()), threads)
    truth = [dict(executor.run(s)) for s in samples]
    found = np.zeros((len(tables), len(samples)))
    for i, table in enumerate(tables):
        ranges = {n: Range(t.low, t.high, t.threshold, t.observer) for n, t in table.items()}
        ctx = replace(prepared.ctx, options=options, ranges=ranges, channels=channels)
        program = lower(quantized_copy(graph, ctx), ctx.need_target().march, types)
        engine = FastEngine(program, threads)
        for j, (sample, want) in enumerate(zip(samples, truth)):
            outputs = engine.run(sample)
            got = {tensor: outputs[name] for name, tensor in names.items()}
            whole = [closeness(want[t], got[t])[1] for t in got]
            by_channel = -10 * math.log10(max(error(want, got), 1e-12))
            found[i, j] = (float(np.mean(whole)) + by_channel) / 2 if whole else 0.0
    return found
