"""headroom: the largest magnitude seen, times a factor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bpuc.observe.base import Ends, Observer, as_float32


@dataclass(frozen=True)
class HeadroomOptions:
    """Options of headroom.

    Attributes:
        factor: threshold over the largest magnitude.
    """

    factor: float = 1.25


class Headroom(Observer):
    """Leaves room above what calibration saw."""

    name = "headroom"
    Options = HeadroomOptions
    options: HeadroomOptions

    def __init__(self, options: HeadroomOptions | None = None):
        super().__init__(options)
        self.lo = self.hi = 0.0

    def update(self, array: np.ndarray[Any, np.dtype[Any]], ends: Ends | None = None) -> None:
        _, lo, hi = as_float32(array, ends)
        self.lo, self.hi = min(self.lo, lo), max(self.hi, hi)

    def merge(self, other: Headroom) -> None:
        self.lo, self.hi = min(self.lo, other.lo), max(self.hi, other.hi)

    def range(self) -> tuple[float, float]:
        return self.lo, self.hi

    def _threshold(self, qmax: int) -> float:
        return max(-self.lo, self.hi) * self.options.factor

    def _state(self) -> dict[str, Any]:
        return {"lo": self.lo, "hi": self.hi}

    def _load(self, state: Mapping[str, Any]) -> None:
        self.lo, self.hi = state["lo"], state["hi"]
