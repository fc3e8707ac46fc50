"""Run the float graph on samples and let observers see its tensors, one sample at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from bpuc.base.errors import DataError
from bpuc.calibrate.table import TensorRange
from bpuc.calibrate.tune import tune_thresholds
from bpuc.execute.ort import FloatExecutor
from bpuc.ir import Graph
from bpuc.observe.base import LEAST_THRESHOLD, Observer
from bpuc.observe.channels import ChannelObserver
from bpuc.observe.registry import make_observer
from bpuc.observe.rows import RowSampler
from bpuc.passkit.channels import channel_axes
from bpuc.passkit.context import MASKED

Sample = Mapping[str, np.ndarray[Any, np.dtype[Any]]]


def calibrate_graph(
    graph: Graph,
    samples: Iterable[Sample],
    observer: str,
    options: Mapping[str, Any],
    *,
    wide: Callable[[str], bool] = lambda name: False,  # noqa: ARG005
    threads: int | None = None,
    tune: bool = False,
) -> dict[str, TensorRange]:
    """Ranges and thresholds of all tensors that are marked to be observed.

    Memory holds one sample's taps at a time, whatever the number of samples. Where the graph has a constant with -Inf
    in it, tensors may be -Inf too: a mask before a Softmax. Their finite values count, and their observer is `MASKED`.

    Args:
        samples: input name -> array of the model's shape.
        tune: let the readers of a tensor choose its threshold, from what the observer gives on (`tune_thresholds`).
        wide: whether a tensor is to be int16 (its observer then weighs errors for 32767 steps).

    Raises:
        DataError: a sample makes a tensor NaN or infinite; names both.
        ConfigError: the observer or an option of it does not exist.
    """
    names = [t.name for t in graph.tensors() if t.observer and t.const is None]
    observers: dict[str, Observer] = {name: make_observer(observer, options) for name in names}
    axes = {t.name: (a, t.shape[a]) for t, a in channel_axes(graph).items() if t.name in observers}
    channels = {name: ChannelObserver(*axis) for name, axis in axes.items()}
    rows = {name: RowSampler(*axes.get(name, (None,))) for name in names} if tune else {}
    may_mask = any(t.const is not None and t.dtype.is_float and np.isneginf(t.const).any() for t in graph.tensors())
    masked: set[str] = set()
    executor = FloatExecutor(graph, names, threads)
    for number, sample in enumerate(samples):
        for name, array in executor.run(dict(sample)):
            try:
                observers[name].update(array)
                if name in channels:
                    channels[name].update(array)
                if tune:
                    rows[name].update(array)
            except DataError as e:
                if may_mask and not np.isnan(array).any() and not np.isposinf(array).any():
                    masked.add(name)
                    observers[name].update(array[np.isfinite(array)])
                    continue
                raise DataError(
                    f"calibration sample {number} makes tensor {name} NaN or infinite",
                    where=e.where,
                    want="finite values in every tensor",
                    hint="look at that sample, and at the model in float",
                ) from e
    found = {}
    for name, o in observers.items():
        low, high = o.range()
        is_wide = wide(name)
        # with 15 bits there is nothing to win by clipping, unless an observer was asked to
        whole = tune and is_wide and max(-low, high) >= LEAST_THRESHOLD
        found[name] = TensorRange(
            float(low),
            float(high),
            float(max(-low, high) if whole else o.threshold(32767 if is_wide else 127)),
            MASKED if name in masked else "min_max" if whole else o.name,
            "int16" if is_wide else "int8",
            channels[name].stats() if name in channels and name not in masked else None,
        )
    return (
        tune_thresholds(graph, found, {name: r.rows() for name, r in rows.items() if name not in masked})
        if tune
        else found
    )
