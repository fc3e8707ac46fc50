"""clip: values are cut at a given magnitude first; then the largest one that is left counts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bpuc.base.errors import ConfigError
from bpuc.observe.min_max import MinMaxBase


@dataclass(frozen=True)
class ClipOptions:
    """Options of clip.

    Attributes:
        range: the magnitude at which values are cut, in the tensor's unit. It must be given.
    """

    range: float = math.nan

    def __post_init__(self) -> None:
        if math.isnan(self.range):
            raise ConfigError("observer clip needs its option range", want="range=NUMBER")
        if not 0 < self.range < math.inf:
            raise ConfigError(f"observer option range is {self.range:g}", want="a finite number above 0")


class Clip(MinMaxBase):
    """Threshold min(max|x|, range): never wider than the data need, never wider than asked."""

    name = "clip"
    Options = ClipOptions
    options: ClipOptions

    def _threshold(self, qmax: int) -> float:  # noqa: ARG002
        return min(max(-self.lo, self.hi), self.options.range)
