"""Run the float graph on samples, let observers see its tensors, and turn what they saw into thresholds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from bpuc.base.errors import ConfigError
from bpuc.calibrate.ahead import run_samples
from bpuc.calibrate.hidden import OBSERVER, without_hidden
from bpuc.calibrate.parallel import Pool, in_blocks
from bpuc.calibrate.partial import Partial
from bpuc.calibrate.plan import make_plan
from bpuc.calibrate.search import FEW, Search, search
from bpuc.calibrate.statistics import BLOCK, Statistics
from bpuc.calibrate.table import TensorRange
from bpuc.calibrate.tune import CLIPPING, tune_thresholds
from bpuc.ir import Graph
from bpuc.observe.base import LEAST_THRESHOLD
from bpuc.passkit.context import MASKED

Sample = Mapping[str, np.ndarray[Any, np.dtype[Any]]]
Choose = Callable[[Sequence[Mapping[str, TensorRange]]], int]


def calibrate_graph(
    graph: Graph,
    samples: Iterable[Sample],
    observer: str,
    options: Mapping[str, Any],
    *,
    count: int | None = None,
    overrides: Mapping[str, tuple[str, Mapping[str, Any]]] | None = None,
    wide: Callable[[str], bool] = lambda name: False,  # noqa: ARG005
    threads: int | None = None,
    channels: bool = True,
    tune: bool = False,
    pool: Pool | None = None,
    partial: Partial | None = None,
    clipping: Sequence[float] = CLIPPING[:1],
    choose: Choose | None = None,
    fine: bool = False,
    tell: Callable[[Search], None] | None = None,
) -> dict[str, TensorRange]:
    """Ranges and thresholds of all tensors that are marked to be observed.

    Memory holds the taps of a few samples at a time, whatever their number. Where the graph has a constant with -Inf
    in it, tensors may be -Inf too: a mask before a Softmax. Their finite values count, and their observer is `MASKED`.

    Args:
        samples: input name -> array of the model's shape.
        count: how many samples there are, where `samples` has no length.
        overrides: tensor -> observer and options of its own.
        wide: whether a tensor is to be int16 (its observer then weighs errors for 32767 steps).
        channels: whether to keep statistics of channels, which channel scales and bias correction need.
        tune: let the readers of a tensor choose its threshold, from what the observer gives on (`tune_thresholds`).
        pool: processes that take samples between them, instead of this one; the same result.
        clipping: with `tune`, the weights of clipping to try (`tune_thresholds`).
        choose: index of the best of several tables: tuned at the first weight, as observed, tuned at the other weights.
        tell: takes what the search of the observer `default` found.
        fine: with `tune`, in finer steps.
        partial: where to keep, and to find again, what has been seen.

    Raises:
        DataError: a sample makes a tensor NaN or infinite; names both.
        ConfigError: the observer or an option of it does not exist, or needs all samples in one process.
    """
    total = count if count is not None else len(samples) if isinstance(samples, Sized) else 100
    searches = "default" in {observer, *(own for own, _ in (overrides or {}).values())}
    plan = make_plan(graph, observer, options, overrides or {}, total, rows=tune or searches, channels=channels)
    statistics = Statistics(plan)
    few: list[Sample] = []
    stream, first = iter(samples), 0
    if searches:
        stream = _kept(stream, few)
    if partial is not None:
        stream = partial.watch(stream)
        first = partial.load(statistics, stream)
    if pool is None:
        for number, tensors in enumerate(run_samples(graph, plan.taps, stream, total, threads), first):
            statistics.see(number, tensors)
            if (number + 1) % BLOCK == 0:
                statistics.close()
                if partial is not None:
                    partial.keep(statistics, number + 1)
        statistics.close()
    else:
        _check_order_free(statistics)
        for end, part in pool.run(graph, plan, in_blocks(stream, first)):
            statistics.merge(part)
            if partial is not None:
                partial.keep(statistics, end)
    statistics.finish()
    found = without_hidden(graph, _ranges(statistics, wide, tune), overrides or {})
    if few:
        found = search(graph, found, statistics, few, threads, tell)
    if not tune:
        return found
    # an observer that a tensor was given decides alone
    rows = {name: r for name, r in statistics.rows().items() if name not in (overrides or {})}
    rows = {name: r for name, r in rows.items() if found[name].observer != OBSERVER}
    tables = [tune_thresholds(graph, found, rows, clipping[0], fine)]
    if choose is not None and tables[0] != found:
        tables += [found, *(tune_thresholds(graph, found, rows, c, fine) for c in clipping[1:])]
        return tables[choose(tables)]
    return tables[0]


def _check_order_free(statistics: Statistics) -> None:
    for name, o in statistics.observers.items():
        if not o.order_free:
            raise ConfigError(
                f"observer {o.name} of tensor {name} depends on the order of samples with these options",
                want="one process, or options with which the order does not matter",
                hint="leave out --workers and --scheduler",
            )


def _kept(stream: Iterator[Sample], few: list[Sample]) -> Iterator[Sample]:
    """The stream, its first samples kept."""
    for sample in stream:
        if len(few) < FEW:
            few.append(sample)
        yield sample


def _ranges(statistics: Statistics, wide: Callable[[str], bool], tune: bool) -> dict[str, TensorRange]:
    channels, found = statistics.channels(), {}
    for name in statistics.plan.observers:
        o = statistics.observers[name]
        low, high = o.range()
        is_wide, masked = wide(name), name in statistics.masked
        # with 15 bits there is nothing to win by clipping, unless an observer was asked to
        whole = tune and is_wide and max(-low, high) >= LEAST_THRESHOLD
        threshold = float(max(-low, high) if whole else o.threshold(32767 if is_wide else 127))
        found[name] = TensorRange(
            float(low),
            float(high),
            threshold,
            MASKED if masked else "min_max" if whole else o.name,
            "int16" if is_wide else "int8",
            channels.get(name),
            None if masked else o.tail(threshold),
        )
    return found
