"""Base of the observers that decide from a histogram of magnitudes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from bpuc.observe.base import Observer
from bpuc.observe.histogram import Histogram


class HistogramObserver(Observer):
    """Holds the histogram, of `Options.bins` where there is such an option; a subclass gives `_threshold`."""

    def __init__(self, options: Any = None):
        super().__init__(options)
        self.histogram = Histogram(getattr(self.options, "bins", 2048))

    def update(self, array: npt.NDArray[Any]) -> None:
        self.histogram.update(array)

    def merge(self, other: HistogramObserver) -> None:
        self.histogram.merge(other.histogram)

    def range(self) -> tuple[float, float]:
        return self.histogram.lo, self.histogram.hi

    def _state(self) -> dict[str, Any]:
        return {"histogram": self.histogram.state()}

    def _load(self, state: Mapping[str, Any]) -> None:
        self.histogram.load(state["histogram"])
