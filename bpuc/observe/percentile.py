"""percentile: the magnitude that all but a few values stay below."""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.base.errors import ConfigError
from bpuc.observe.histogram_observer import HistogramObserver, HistogramOptions


@dataclass(frozen=True)
class PercentileOptions(HistogramOptions):
    """Options of percentile.

    Attributes:
        percentile: percent of all |x| that stay unclipped, above 0, at most 100 (the vendor's max_percentile * 100).
    """

    percentile: float = 99.99

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.percentile <= 100:
            raise ConfigError(
                f"observer option percentile is {self.percentile:g}",
                want="a number in percent, above 0 and at most 100",
                hint="99.99 is the default",
            )


class Percentile(HistogramObserver):
    """Threshold at a percentile of |x|; 100 is min_max."""

    name = "percentile"
    Options = PercentileOptions
    options: PercentileOptions

    def _threshold(self, qmax: int) -> float:  # noqa: ARG002
        return self.histogram.percentile(self.options.percentile)
