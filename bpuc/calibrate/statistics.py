"""What observers have seen of a graph's tensors: over all samples, or over a block of them in another process.

Samples come in blocks of `BLOCK`, by their numbers. What hangs on the order of adding is summed within a block and then
added block by block; so the result has the same bits whoever sees the blocks, as long as they are merged in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bpuc.base.channels import ChannelStats
from bpuc.base.errors import DataError
from bpuc.calibrate.plan import Plan
from bpuc.observe.base import Observer
from bpuc.observe.channels import ChannelObserver, joined
from bpuc.observe.registry import make_observer
from bpuc.observe.rows import VALUES, RowSampler
from bpuc.passkit.masks import seen

Array = np.ndarray[Any, np.dtype[Any]]
BLOCK = 4
ALL_VALUES = 1 << 24  # of sampled rows of all tensors, about


class Statistics:
    """The observers of a plan's tensors.

    Attributes:
        observers: tensor -> its observer; complete after `finish`.
        masked: tensors that were -Inf in places.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        self.observers: dict[str, Observer] = {
            name: make_observer(*o) for name, o in plan.observers.items() if name not in plan.same
        }
        self._channels = {n: ChannelObserver(*axis) for n, axis in plan.axes.items() if n not in plan.joined}
        self._rows: dict[str, RowSampler] = {}
        for name in [n for n in plan.observers if n not in plan.masked] if plan.rows else ():
            axis, count = plan.axes.get(name, (None, 1))
            values = min(VALUES, ALL_VALUES // len(plan.observers))
            self._rows[name] = RowSampler(axis, count, plan.samples, values)
        self.masked: set[str] = {*plan.masked}

    def see(self, number: int, tensors: Iterable[tuple[str, Array]]) -> None:
        """Let the observers see a sample's tensors.

        Raises:
            DataError: a tensor is NaN or infinite; names it and the sample.
        """
        moments = self.plan.counts_moments(number)
        for name, array in tensors:
            channels = self._channels.get(name) if name not in self.masked else None
            # those of the channels and those of the whole tensor are one pass over the values
            extremes = channels.extremes(array) if channels is not None and array.size else None
            try:
                if name in self.observers:
                    hides = name in self.plan.masked and not np.isnan(array).any()
                    ends = None if extremes is None else (float(extremes[0].min()), float(extremes[1].max()))
                    self.observers[name].update(seen(array) if hides else array, None if hides else ends)
                if channels is not None and name not in self.masked:
                    channels.update(array, moments, extremes)
                if name in self._rows and name not in self.masked:
                    self._rows[name].update(array, number)
            except DataError as e:
                if self.plan.may_mask and not np.isnan(array).any() and not np.isposinf(array).any():
                    self.masked.add(name)
                    self.observers[name].update(array[np.isfinite(array)])
                    continue
                raise DataError(
                    f"calibration sample {number} makes tensor {name} NaN or infinite",
                    where=e.where,
                    want="finite values in every tensor",
                    hint="look at that sample, and at the model in float",
                ) from e

    def close(self) -> None:
        """End a block of samples."""
        for channels in self._channels.values():
            channels.close()

    def merge(self, other: Statistics) -> None:
        """Take over the blocks that another one has seen after those seen here."""
        for name, observer in self.observers.items():
            observer.merge(other.observers[name])
        for name, channels in self._channels.items():
            channels.merge(other._channels[name])
        for name, rows in self._rows.items():
            rows.merge(other._rows[name])
        self.masked |= other.masked

    def finish(self) -> None:
        """Give the tensors whose values are those of others their observers."""
        for name, parts in self.plan.same.items():
            observer = make_observer(*self.plan.observers[name])
            for part in parts:
                observer.merge(self.observers[part])
            self.observers[name] = observer
            if self.masked & {*parts}:
                self.masked.add(name)

    def channels(self) -> dict[str, ChannelStats]:
        """Statistics of the channels of all tensors that have any and are not masked."""
        found = {n: c.stats() for n, c in self._channels.items()}
        for name, parts in self.plan.joined.items():
            found[name] = joined([found[p] for p in parts])
        return {n: s for n, s in found.items() if n not in self.masked}

    def rows(self) -> dict[str, Array]:
        """The sampled rows of all tensors that are not masked."""
        return {n: r.rows() for n, r in self._rows.items() if n not in self.masked}

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """All of it between two blocks: what fits JSON, and arrays by name."""
        text = {
            "observers": {n: o.state() for n, o in self.observers.items()},
            "channels": {n: c.state() for n, c in self._channels.items()},
            "masked": sorted(self.masked),
        }
        return text, {n: r.rows() for n, r in self._rows.items()}

    def load(self, text: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """The inverse of `state`, for the same plan."""
        self.observers = {n: type(o).from_state(text["observers"][n]) for n, o in self.observers.items()}
        for name, channels in self._channels.items():
            channels.load(text["channels"][name])
        for name, rows in self._rows.items():
            rows.kept = [arrays[name]]
        self.masked = set(text["masked"])
