"""min_max: the largest magnitude seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from bpuc.base.errors import ConfigError
from bpuc.observe.base import Ends, Observer, as_float32


@dataclass(frozen=True)
class MinMaxOptions:
    """Options of min_max.

    Attributes:
        averaging_constant: None keeps the running extremes, which no order of samples changes. A number c in (0, 1]
            gives the moving average v += c * (new - v) of each update's extremes, as the vendor's observer does (0.01).
    """

    averaging_constant: float | None = None

    def __post_init__(self) -> None:
        c = self.averaging_constant
        if c is not None and not 0 < c <= 1:
            raise ConfigError(f"observer option averaging_constant is {c}", want="a number above 0 and at most 1")


class MinMaxBase(Observer):
    """Keeps the least and the largest value; a subclass gives `_threshold`."""

    def __init__(self, options: Any = None):
        super().__init__(options)
        self.lo, self.hi, self.updates = 0.0, 0.0, 0

    def update(self, array: npt.NDArray[Any], ends: Ends | None = None) -> None:
        flat, lo, hi = as_float32(array, ends)
        if flat.size:
            self._take(lo, hi, 1)

    def merge(self, other: MinMaxBase) -> None:
        if other.updates:
            self._take(other.lo, other.hi, other.updates)

    def _take(self, lo: float, hi: float, updates: int) -> None:
        self.lo, self.hi = (min(self.lo, lo), max(self.hi, hi)) if self.updates else (lo, hi)
        self.updates += updates

    def range(self) -> tuple[float, float]:
        return self.lo, self.hi

    def _state(self) -> dict[str, Any]:
        return {"lo": self.lo, "hi": self.hi, "updates": self.updates}

    def _load(self, state: Mapping[str, Any]) -> None:
        self.lo, self.hi, self.updates = state["lo"], state["hi"], state["updates"]


class MinMax(MinMaxBase):
    """Threshold max(|min|, |max|).

    For a moving average the extremes of every update are kept (two numbers each), so that parts which were seen apart
    still give the average of one run when they are merged in order.
    """

    name = "min_max"
    Options = MinMaxOptions
    options: MinMaxOptions

    def __init__(self, options: MinMaxOptions | None = None):
        super().__init__(options)
        self._each: list[tuple[float, float]] = []

    @property
    def joins(self) -> bool:
        return self.options.averaging_constant is None

    def update(self, array: npt.NDArray[Any], ends: Ends | None = None) -> None:
        flat, lo, hi = as_float32(array, ends)
        if flat.size:
            self._take(lo, hi, 1)
            if self.options.averaging_constant is not None:
                self._each.append((lo, hi))

    def merge(self, other: MinMaxBase) -> None:
        super().merge(other)
        if isinstance(other, MinMax):
            self._each += other._each

    def range(self) -> tuple[float, float]:
        c = self.options.averaging_constant
        if c is None or not self._each:
            return self.lo, self.hi
        low, high = self._each[0]
        for lo, hi in self._each[1:]:
            low += c * (lo - low)
            high += c * (hi - high)
        return low, high

    def _threshold(self, qmax: int) -> float:  # noqa: ARG002
        low, high = self.range()
        return max(abs(low), abs(high))

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "each": [list(e) for e in self._each]}

    def _load(self, state: Mapping[str, Any]) -> None:
        super()._load(state)
        self._each = [(lo, hi) for lo, hi in state["each"]]
