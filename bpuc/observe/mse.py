"""mse: the threshold with the least squared quantization error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bpuc.base.errors import ConfigError
from bpuc.observe.histogram import Histogram, check_bins
from bpuc.observe.histogram_observer import HistogramObserver

CANDIDATES = 100


@dataclass(frozen=True)
class MseOptions:
    """Options of mse.

    Attributes:
        stride: every how many hundredths of the maximum are tried, 1 to 20.
        bins: fineness of the histogram, a power of two.
    """

    stride: int = 1
    bins: int = 2048

    def __post_init__(self) -> None:
        if not 1 <= self.stride <= 20:
            raise ConfigError(f"observer option stride is {self.stride}", want="a whole number from 1 to 20")
        check_bins(self.bins)


class Mse(HistogramObserver):
    """Tries hundredths of the largest magnitude; on a tie the larger threshold wins."""

    name = "mse"
    Options = MseOptions
    options: MseOptions

    def _threshold(self, qmax: int) -> float:
        steps = np.arange(CANDIDATES, 0, -self.options.stride)
        candidates = self.histogram.max * steps / CANDIDATES
        return float(candidates[int(np.argmin(quantization_error(self.histogram, candidates, qmax)))])


def quantization_error(histogram: Histogram, thresholds: npt.NDArray[np.float64], qmax: int) -> npt.NDArray[np.float64]:
    """Mean squared error of x against its quantized value, for each of the thresholds.

    A bin counts as if all its values sat in its middle. Where a quantization step is no wider than a bin, the middle
    says nothing about the rounding, and step^2 / 12 stands for it (rounding error spread evenly over a step).
    """
    counts, width = histogram.linear()
    used = np.flatnonzero(counts)
    n = counts[used].astype(np.float64)
    x = np.minimum((used + 0.5) * width, histogram.max)
    if used.size and used[0] == 0:
        x[0] = _first_bin_centre(histogram, width)
    errors = np.empty(len(thresholds))
    for i, t in enumerate(thresholds):
        step = t / qmax
        if step > width:
            e = (np.minimum(np.floor(x / step + 0.5), qmax) * step - x) ** 2
        else:
            e = np.where(x > t, (x - t) ** 2, step * step / 12)
        errors[i] = np.dot(n, e)
    return errors / max(float(n.sum()), 1.0)


def _first_bin_centre(histogram: Histogram, width: float) -> float:
    """Root mean square of what the first linear bin holds: often zeros alone, whose middle is not width / 2."""
    edges = histogram.edges()
    inside = edges[1:] <= width
    n = histogram.counts[inside]
    centres = (edges[:-1] + edges[1:])[inside] / 2
    centres[0] = 0.0
    return float(np.sqrt(np.dot(n, centres**2) / max(int(n.sum()), 1)))
