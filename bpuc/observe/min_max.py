"""min_max: the largest magnitude seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from bpuc.base.errors import ConfigError
from bpuc.observe.base import Observer, as_float32


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


class MinMax(Observer):
    """Threshold max(|min|, |max|)."""

    name = "min_max"
    Options = MinMaxOptions
    options: MinMaxOptions

    def __init__(self, options: MinMaxOptions | None = None):
        super().__init__(options)
        self.lo, self.hi, self.updates = 0.0, 0.0, 0

    def update(self, array: npt.NDArray[Any]) -> None:
        flat, lo, hi = as_float32(array)
        if flat.size:
            self._take(lo, hi, 1, self.options.averaging_constant)

    def merge(self, other: MinMax) -> None:
        """Exact for running extremes; averages are joined by their numbers of updates, which is an approximation."""
        if other.updates:
            c = other.updates / (self.updates + other.updates) if self.options.averaging_constant else None
            self._take(other.lo, other.hi, other.updates, c)

    def _take(self, lo: float, hi: float, updates: int, c: float | None) -> None:
        if self.updates == 0:
            self.lo, self.hi = lo, hi
        elif c is None:
            self.lo, self.hi = min(self.lo, lo), max(self.hi, hi)
        else:
            self.lo += c * (lo - self.lo)
            self.hi += c * (hi - self.hi)
        self.updates += updates

    def range(self) -> tuple[float, float]:
        return self.lo, self.hi

    def _threshold(self, qmax: int) -> float:  # noqa: ARG002
        return max(abs(self.lo), abs(self.hi))

    def _state(self) -> dict[str, Any]:
        return {"lo": self.lo, "hi": self.hi, "updates": self.updates}

    def _load(self, state: Mapping[str, Any]) -> None:
        self.lo, self.hi, self.updates = state["lo"], state["hi"], state["updates"]
