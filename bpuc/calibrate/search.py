"""The search of the observer `default`: candidates for all tensors alike, judged by the outputs of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bpuc.calibrate.statistics import Statistics
from bpuc.calibrate.table import TensorRange
from bpuc.execute.ort import FloatExecutor
from bpuc.execute.rounded import RoundedExecutor
from bpuc.ir import Graph
from bpuc.observe.default import FIRST, MORE, Default
from bpuc.passkit.context import MASKED

Array = np.ndarray[Any, np.dtype[Any]]
FEW = 4  # samples that candidates are judged on


def search(
    graph: Graph,
    found: Mapping[str, TensorRange],
    statistics: Statistics,
    samples: Sequence[Mapping[str, Array]],
    threads: int | None = None,
    tell: Callable[[str], None] | None = None,
) -> dict[str, TensorRange]:
    """The ranges with the thresholds of the best candidate, by the outputs' mean cosine with the float model's.

    Tensors with another observer, int16 tensors and masked ones stay as they are; the latter two are not rounded here.
    The observer of a changed range is called by the candidate.

    Args:
        tell: takes a sentence where no candidate is near enough, on what the vendor's search would go on to.
    """
    outputs = [t.name for t in graph.outputs if t.dtype.is_float and t.const is None]
    rounded = [n for n, r in found.items() if r.dtype == "int8" and r.observer != MASKED]
    free = {n: o for n in rounded if isinstance(o := statistics.observers[n], Default)}
    if not free or not outputs:
        return dict(found)
    exact = FloatExecutor(graph, outputs, threads)
    want = [dict(exact.run(s)) for s in samples]
    trial = RoundedExecutor(graph, rounded, threads)

    def judge(thresholds: Mapping[str, float]) -> float:
        scales = {n: thresholds.get(n, found[n].threshold) / 127 for n in rounded}
        cosines = []
        for sample, exact_outputs in zip(samples, want):
            got = dict(zip(graph.output_names, trial.run(sample, scales)))
            names = dict(zip((t.name for t in graph.outputs), graph.output_names))
            cosines += [_cosine(got[names[n]], exact_outputs[n]) for n in outputs]
        return float(np.mean(cosines))

    def tried(names: Iterable[str]) -> list[tuple[float, str, dict[str, float]]]:
        tables = {c: {n: o.candidate(c, 127) for n, o in free.items()} for c in names}
        return [(judge(table), c, table) for c, table in tables.items()]

    enough = max(o.options.similarity for o in free.values())
    results = tried(FIRST)
    if max(r[0] for r in results) < enough:
        results += tried(MORE)
    best, name, table = max(results, key=lambda r: r[0])  # the first on a tie
    if best < enough and tell is not None:
        tried_names = ", ".join(f"{n} {cosine:.5f}" for cosine, n, _ in results)
        tell(
            f"observer default: {name} is taken, with outputs at a mean cosine of {best:.5f}, below {enough:g} (tried: "
            f"{tried_names}); the vendor's search goes on to scales a channel, which are used here where readers have "
            "them in their weights (--channel-scales), and to an offset, which integers here do not have"
        )
    return {n: replace(r, threshold=table[n], observer=name) if n in table else r for n, r in found.items()}


def _cosine(a: Array, b: Array) -> float:
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    size = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / size if size > 0 else float(not x.any() and not y.any())
