"""clip_std: values are cut at a multiple of the standard deviation on both sides of the mean.

    threshold = min(max|x|, |mean| + multiple * std)

Mean and deviation come from one histogram for each sign, so that they neither depend on the order of samples nor lose
digits when observers merge; each value counts as the middle of its bin (off by at most 1/2048 of itself).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bpuc.base.errors import ConfigError
from bpuc.observe.base import Ends, Observer, as_float32
from bpuc.observe.histogram import Histogram


@dataclass(frozen=True)
class ClipStdOptions:
    """Options of clip_std.

    Attributes:
        multiple: how many standard deviations from the mean are kept.
    """

    multiple: float = 6.0

    def __post_init__(self) -> None:
        if not 0 < self.multiple < float("inf"):
            raise ConfigError(f"observer option multiple is {self.multiple:g}", want="a finite number above 0")


class ClipStd(Observer):
    """Threshold at `multiple` standard deviations from the mean, at most the largest magnitude."""

    name = "clip_std"
    Options = ClipStdOptions
    options: ClipStdOptions

    def __init__(self, options: ClipStdOptions | None = None):
        super().__init__(options)
        self._sides = (Histogram(), Histogram())  # of max(x, 0) and of max(-x, 0)

    def update(self, array: npt.NDArray[Any], ends: Ends | None = None) -> None:
        flat, _, _ = as_float32(array, ends)
        for side, values in zip(self._sides, (flat, -flat)):
            side.update(np.maximum(values, np.float32(0)))

    def merge(self, other: ClipStd) -> None:
        for side, more in zip(self._sides, other._sides):
            side.merge(more)

    def range(self) -> tuple[float, float]:
        above, below = self._sides
        low = -below.hi if below.hi > 0 else above.lo
        return low, above.hi if above.hi > 0 else 0.0 - below.lo

    def _threshold(self, qmax: int) -> float:  # noqa: ARG002
        count = self._sides[0].total
        means, squares = [], []
        for side in self._sides:
            centres = np.minimum(side.centres(), side.max)
            centres[0] = 0.0
            means.append(float(side.counts @ centres) / count)
            squares.append(float(side.counts @ centres**2) / count)
        mean = means[0] - means[1]
        std: float = max(sum(squares) - mean * mean, 0.0) ** 0.5
        return min(abs(mean) + self.options.multiple * std, max(s.max for s in self._sides))

    def _state(self) -> dict[str, Any]:
        return {"sides": [s.state() for s in self._sides]}

    def _load(self, state: Mapping[str, Any]) -> None:
        for side, kept in zip(self._sides, state["sides"]):
            side.load(kept)
