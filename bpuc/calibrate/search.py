"""The search of the observer `default`: candidates for all tensors alike, judged by the outputs of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bpuc.base.channels import ChannelStats
from bpuc.calibrate.statistics import Statistics
from bpuc.calibrate.table import TensorRange
from bpuc.calibrate.tune import tune_thresholds
from bpuc.execute.ort import FloatExecutor
from bpuc.execute.rounded import RoundedExecutor
from bpuc.ir import Graph
from bpuc.observe.default import FIRST, MORE, Default
from bpuc.passkit.channels import channel_ties
from bpuc.passkit.context import MASKED

Array = np.ndarray[Any, np.dtype[Any]]
FEW = 4  # samples that candidates are judged on
_LEAST = 2.0**-10  # part of a tensor's scale that no channel's is below


@dataclass(frozen=True)
class Search:
    """What the search found.

    cosines: candidate -> mean cosine of the outputs with the float model's. channels: the same of the best one with a
    scale a channel wherever that is free; None where one was near enough, or where channels were not observed.
    """

    similarity: float
    cosines: Mapping[str, float]
    taken: str
    channels: float | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "similarity": self.similarity,
            "cosines": {n: round(c, 6) for n, c in self.cosines.items()},
            "taken": self.taken,
            "with_channel_scales": None if self.channels is None else round(self.channels, 6),
        }

    @property
    def note(self) -> str:
        """For the user, "" where a candidate was near enough."""
        best = self.cosines[self.taken]
        if best >= self.similarity:
            return ""
        tried = ", ".join(f"{n} {cosine:.5f}" for n, cosine in self.cosines.items())
        text = (
            f"observer default: {self.taken} is taken, with outputs at a mean cosine of {best:.5f}, below "
            f"{self.similarity:g} (tried: {tried}); "
        )
        if self.channels is None:
            text += "scales a channel were not tried, since --effort 0 observes no channels; "
        else:
            reached = "reach" if self.channels >= self.similarity else "would have"
            text += (
                f"scales a channel {reached} {self.channels:.5f}, which compile uses by itself where they lower the "
                "noise of weights and activations together (--channel-scales, more of them from --effort 2 on); "
            )
        return text + "the vendor's search ends with an offset, which integers here do not have"


def search(
    graph: Graph,
    found: Mapping[str, TensorRange],
    statistics: Statistics,
    samples: Sequence[Mapping[str, Array]],
    threads: int | None = None,
    tell: Callable[[Search], None] | None = None,
) -> dict[str, TensorRange]:
    """The ranges with the thresholds of the best candidate, by the outputs' mean cosine with the float model's.

    Where none of the observer's own is near enough, thresholds that the readers of each tensor choose are one more.
    Tensors with another observer, int16 tensors and masked ones stay as they are; the latter two are not rounded here.
    The observer of a changed range is called by the candidate.

    Args:
        tell: takes what was found.
    """
    outputs = [t.name for t in graph.outputs if t.dtype.is_float and t.const is None]
    rounded = [n for n, r in found.items() if r.dtype == "int8" and r.observer != MASKED]
    free = {n: o for n in rounded if isinstance(o := statistics.observers[n], Default)}
    if not free or not outputs:
        return dict(found)
    exact = FloatExecutor(graph, outputs, threads)
    want = [dict(exact.run(s)) for s in samples]

    def judge(trial: RoundedExecutor, scales: Mapping[str, float | Array]) -> float:
        cosines = []
        for sample, exact_outputs in zip(samples, want):
            got = dict(zip(graph.output_names, trial.run(sample, scales)))
            names = dict(zip((t.name for t in graph.outputs), graph.output_names))
            cosines += [_cosine(got[names[n]], exact_outputs[n]) for n in outputs]
        return float(np.mean(cosines))

    def tried(names: Iterable[str]) -> list[tuple[float, str, dict[str, float]]]:
        tables = {c: {n: o.candidate(c, 127) for n, o in free.items()} for c in names}
        return [(judge(trial, scales_of(table)), c, table) for c, table in tables.items()]

    def scales_of(table: Mapping[str, float]) -> dict[str, float | Array]:
        return {n: table.get(n, found[n].threshold) / 127 for n in rounded}

    trial = RoundedExecutor(graph, rounded, threads)

    enough = max(o.options.similarity for o in free.values())
    results = tried(FIRST)
    if max(r[0] for r in results) < enough:
        results += tried(MORE)
    best, name, table = max(results, key=lambda r: r[0])  # the first on a tie
    if best < enough and (rows := {n: r for n, r in statistics.rows().items() if n in free}):
        tuned = tune_thresholds(graph, {n: replace(found[n], threshold=t) for n, t in table.items()}, rows)
        own_best = {n: r.threshold for n, r in tuned.items()}
        results.append((judge(trial, scales_of(own_best)), "tuned", own_best))
        best, name, table = max(results, key=lambda r: r[0])
    channels = None
    if best < enough and (seen := statistics.channels()):
        scales = scales_of(table)
        own = free_scales(graph, scales, seen)
        axes = {n: (seen[n].axis, len(s)) for n, s in own.items()}
        channels = judge(RoundedExecutor(graph, rounded, threads, axes), {**scales, **own}) if own else best
    if tell is not None:
        tell(Search(enough, {n: cosine for cosine, n, _ in results}, name, channels))
    return {n: replace(r, threshold=table[n], observer=name) if n in table else r for n, r in found.items()}


def free_scales(
    graph: Graph, scales: Mapping[str, float | Array], seen: Mapping[str, ChannelStats]
) -> dict[str, Array]:
    """A scale a channel, in proportion to its peak, for tensors whose writers and readers have that for free.

    Ties between channels are those of a graph that runs on the BPU as a whole.

    Args:
        scales: of the tensors to round, one each. seen: their channels.
    """
    whole = graph.copy()
    for op in whole:
        op.device = "BPU"
    tensors = [t for t in whole.tensors() if t.name in scales and t.const is None]
    ties = channel_ties(whole, tensors, {t for t in tensors if t.name not in seen})
    part: dict[int, float] = {}
    roots = {t: ties.roots(t).tolist() for t in tensors}
    for t in tensors:
        used = np.ones(1)
        if t in ties.axis and t.name in seen and seen[t.name].axis == ties.axis[t]:
            used = np.minimum(seen[t.name].peak / (np.asarray(scales[t.name]) * 127), 1.0)
        for root, u in zip(roots[t], np.broadcast_to(used, len(roots[t])).tolist()):
            part[root] = max(part.get(root, _LEAST), u)
    found = {t.name: np.array([part[r] for r in roots[t]]) * scales[t.name] for t in tensors}
    return {n: s for n, s in found.items() if n in seen and len(set(s.tolist())) > 1}


def _cosine(a: Array, b: Array) -> float:
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    size = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / size if size > 0 else float(not x.any() and not y.any())
