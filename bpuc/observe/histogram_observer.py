"""Base of the observers that decide from a histogram of magnitudes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from bpuc.base.errors import ConfigError
from bpuc.base.tail import Tail
from bpuc.observe.base import Ends, Observer
from bpuc.observe.histogram import Histogram, check_bins


def check_whole(option: str, value: int, least: int, most: int) -> None:
    """Raise ConfigError unless the value of an option is in least..most."""
    if not least <= value <= most:
        raise ConfigError(f"observer option {option} is {value}", want=f"a whole number from {least} to {most}")


@dataclass(frozen=True)
class SamplingOptions:
    """The option of all observers with a histogram.

    Attributes:
        sampling: count one value in this many (1 to 64), evenly over the tensor; least and largest value stay exact.
    """

    sampling: int = 1

    def __post_init__(self) -> None:
        check_whole("sampling", self.sampling, 1, 64)


@dataclass(frozen=True)
class HistogramOptions(SamplingOptions):
    """Besides, for those that let it be chosen.

    Attributes:
        bins: fineness of the histogram, a power of two from 256 to 65536.
    """

    bins: int = 2048

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bins(self.bins)


class HistogramObserver(Observer):
    """Holds the histogram, of `Options.bins` where there is such an option; a subclass gives `_threshold`."""

    Options = SamplingOptions

    def __init__(self, options: Any = None):
        super().__init__(options)
        self.histogram = self._fresh()

    def _fresh(self) -> Histogram:
        return Histogram(getattr(self.options, "bins", 2048), getattr(self.options, "sampling", 1))

    def update(self, array: npt.NDArray[Any], ends: Ends | None = None) -> None:
        self.histogram.update(array, ends)

    def merge(self, other: HistogramObserver) -> None:
        self.histogram.merge(other.histogram)

    def range(self) -> tuple[float, float]:
        return self.histogram.lo, self.histogram.hi

    def tail(self, near: float) -> Tail:
        return self.histogram.tail(near)

    def _state(self) -> dict[str, Any]:
        return {"histogram": self.histogram.state()}

    def _load(self, state: Mapping[str, Any]) -> None:
        self.histogram.load(state["histogram"])
