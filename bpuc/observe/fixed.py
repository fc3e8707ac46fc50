"""fixed: the user's own number, for physical quantities whose range is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bpuc.base.errors import ConfigError
from bpuc.observe.min_max import MinMaxBase


@dataclass(frozen=True)
class FixedOptions:
    """Options of fixed: exactly one of the two.

    Attributes:
        scale: the value of one integer step, such as 0.0078125.
        threshold: the largest magnitude.
    """

    scale: float | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        given = [(k, v) for k, v in (("scale", self.scale), ("threshold", self.threshold)) if v is not None]
        if len(given) != 1:
            raise ConfigError(
                f"observer fixed got {len(given)} of its options",
                want="scale=NUMBER or threshold=NUMBER, one of the two",
            )
        key, value = given[0]
        if not (math.isfinite(value) and value > 0):
            raise ConfigError(f"observer option {key} is {value:g}", want="a finite number above 0")


class Fixed(MinMaxBase):
    """The threshold does not depend on the data; their range is still recorded."""

    name = "fixed"
    Options = FixedOptions
    options: FixedOptions

    def threshold(self, qmax: int = 127) -> float:
        return self._threshold(qmax)

    def _threshold(self, qmax: int) -> float:
        scale, threshold = self.options.scale, self.options.threshold
        return threshold or (scale or 0.0) * qmax
