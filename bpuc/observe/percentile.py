"""percentile: the magnitude that all but a few values stay below."""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.base.errors import ConfigError
from bpuc.observe.histogram import check_bins
from bpuc.observe.histogram_observer import HistogramObserver


@dataclass(frozen=True)
class PercentileOptions:
    """Options of percentile.

    Attributes:
        percentile: percent of all |x| that stay unclipped, above 0, at most 100 (the vendor's max_percentile * 100).
        bins: fineness of the histogram, a power of two.
    """

    percentile: float = 99.99
    bins: int = 2048

    def __post_init__(self) -> None:
        if not 0 < self.percentile <= 100:
            raise ConfigError(
                f"observer option percentile is {self.percentile:g}",
                want="a number in percent, above 0 and at most 100",
                hint="99.99 is the default",
            )
        check_bins(self.bins)


class Percentile(HistogramObserver):
    """Threshold at a percentile of |x|; 100 is min_max."""

    name = "percentile"
    Options = PercentileOptions
    options: PercentileOptions

    def _threshold(self, qmax: int) -> float:  # noqa: ARG002
        return self.histogram.percentile(self.options.percentile)
