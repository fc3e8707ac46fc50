"""``bpuc badcase``: the samples on which the outputs of a program and of its float model differ most."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bpuc.base.errors import ConfigError, name_hint
from bpuc.data.files import kind_of
from bpuc.flow.calibrate import Progress
from bpuc.flow.difference import SMALL_IS_BAD, Difference
from bpuc.flow.floats import FloatModel, short
from bpuc.flow.side_by_side import SideBySide
from bpuc.ops.base import Array
from bpuc.program import Program

SCHEMA = "bpuc.badcase/1"
METRICS = ("cosine", "sqnr", "mse", "l1", "max_abs", "relative")


@dataclass
class BadCases:
    """The document, and the arrays of the worst samples in their order, each with the samples along the first axis.

    images: file of the results -> the image that a sample came from.
    """

    document: dict[str, Any]
    inputs: dict[str, Array]
    floats: dict[str, Array]
    integers: dict[str, Array]
    images: dict[str, Path] = field(default_factory=dict)


@dataclass
class _Case:
    bad: float
    row: dict[str, Any]
    feeds: dict[str, Array]
    floats: dict[str, Array]
    integers: dict[str, Array]


def badcase(
    floats: FloatModel,
    program: Program,
    metric: str = "cosine",
    count: int = 8,
    output: str | None = None,
    limit: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> tuple[BadCases, list[str]]:
    """What was found, and warnings. Arrays of `count` samples are held, rows of all.

    Args:
        metric: of METRICS, taken at each output and averaged. output: the one that counts; all without.
        count: samples that are kept; as many more as fill the last run of a binary with a batch.
        limit: samples at most.

    Raises:
        ConfigError: no output of that name. DataError, ModelError: as `SideBySide`.
    """
    both = SideBySide(floats, program, layers=False, threads=threads)
    outputs = {t: name for t, name in both.outputs.items() if output in (None, name)}
    if not outputs:
        known = sorted(both.outputs.values())
        raise ConfigError(f"the binary has no output {output!r}", hint=name_hint(output or "", known))
    count = -(-count // both.at_once) * both.at_once
    rows: list[dict[str, Any]] = []
    worst: list[_Case] = []
    for run in both.run(limit, progress):
        pairs = [(outputs[t], want, got) for t, want, got in run.pairs if t in outputs]
        for i, sample in enumerate(run.samples):
            case = _case(
                floats, sample, metric, [(n, _part(a, i, run.samples), _part(b, i, run.samples)) for n, a, b in pairs]
            )
            rows.append(case.row)
            # of equals the first sample is kept
            if len(worst) < count or case.bad > worst[-1].bad:
                case.feeds = {n: _part(a, i, run.samples).copy() for n, a in run.feeds.items()}
                worst = sorted([*worst, case], key=lambda c: -c.bad)[:count]
    ranked = [{"rank": i + 1, **c.row} for i, c in enumerate(worst)]
    document = {
        "schema": SCHEMA,
        "march": program.march,
        "simulated": True,
        "model_sha256": floats.model.sha256,
        "samples": len(rows),
        "metric": metric,
        "outputs": [*outputs.values()],
        "rows": rows,
        "worst": ranked,
    }
    found = BadCases(
        document,
        _stacked([c.feeds for c in worst]),
        _stacked([c.floats for c in worst]),
        _stacked([c.integers for c in worst]),
        _images(floats, ranked),
    )
    return found, [*floats.warnings, *both.warnings]


def _part(array: Array, index: int, samples: tuple[int, ...]) -> Array:
    """What one of the samples of a run has in an array with all of them along the first axis."""
    if len(samples) == 1:
        return array
    size = len(array) // len(samples)
    return array[index * size : (index + 1) * size]


def _case(floats: FloatModel, sample: int, metric: str, pairs: list[tuple[str, Array, Array]]) -> _Case:
    found, bad = {}, []
    for name, want, got in pairs:
        d = Difference()
        d.update(want, got)
        exact = d.exact()
        found[name] = d.metrics()
        bad.append(-exact[metric] if metric in SMALL_IS_BAD else exact[metric])
    files = [p.name for p in floats.source.files(sample)]
    row = {
        "sample": sample,
        "file": ", ".join(files) if files else None,
        **{k: short(float(np.mean([m[k] for m in found.values()]))) for k in METRICS},
        "by_output": found,
    }
    truth = {n: np.asarray(a) for n, a, _ in pairs}
    real = {n: np.asarray(b).reshape(a.shape) for n, a, b in pairs}
    return _Case(float(np.mean(bad)), row, {}, truth, real)


def _stacked(rows: list[dict[str, Array]]) -> dict[str, Array]:
    return {n: np.stack([r[n] for r in rows]) for n in (rows[0] if rows else {})}


def _images(floats: FloatModel, ranked: list[dict[str, Any]]) -> dict[str, Path]:
    """Name of a copy -> image; the rows get the names."""
    found: dict[str, Path] = {}
    for row in ranked:
        row["images"] = []
        for number, path in enumerate(floats.source.files(row["sample"])):
            if kind_of(path) == "image":
                part = f"_{number}" if number else ""
                name = f"worst_{row['rank']:02d}{part}_{path.name[-180:]}"
                row["images"].append(name)
                found[name] = path
    return found
