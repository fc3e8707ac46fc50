"""mse: the threshold with the least squared quantization error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bpuc.observe.histogram import Histogram
from bpuc.observe.histogram_observer import HistogramObserver, HistogramOptions, check_whole

CANDIDATES = 100


@dataclass(frozen=True)
class MseOptions(HistogramOptions):
    """Options of mse.

    Attributes:
        stride: every how many hundredths of the maximum are tried, 1 to 20.
        finer: how many more thresholds are tried between the neighbours of the best one, 0 to 1000.
    """

    stride: int = 1
    finer: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("stride", self.stride, 1, 20)
        check_whole("finer", self.finer, 0, 1000)


class Mse(HistogramObserver):
    """Tries hundredths of the largest magnitude; on a tie the larger threshold wins."""

    name = "mse"
    Options = MseOptions
    options: MseOptions

    def _threshold(self, qmax: int) -> float:
        best = best_hundredth(self.histogram, qmax, self.options.stride)
        if not self.options.finer:
            return best
        peak = self.histogram.max
        around = self.options.stride * peak / CANDIDATES
        inside = np.linspace(best + around, best - around, self.options.finer + 2)[1:-1]
        candidates = np.array([best, *(c for c in inside if 0 < c <= peak)])
        return float(candidates[int(np.argmin(quantization_error(self.histogram, candidates, qmax)))])


def best_hundredth(histogram: Histogram, qmax: int, stride: int = 1) -> float:
    """The hundredth of the largest magnitude, every `stride`-th from the top, with the least squared error."""
    candidates = histogram.max * np.arange(CANDIDATES, 0, -stride) / CANDIDATES
    return float(candidates[int(np.argmin(quantization_error(histogram, candidates, qmax)))])


def quantization_error(histogram: Histogram, thresholds: npt.NDArray[np.float64], qmax: int) -> npt.NDArray[np.float64]:
    """Mean squared error of x against its quantized value, for each of the thresholds.

    A bin counts as if all its values sat in its middle. Where a quantization step is no wider than a bin, the middle
    says nothing about the rounding, and step^2 / 12 stands for it (rounding error spread evenly over a step).
    """
    n, x, width = linear_centres(histogram)
    errors = np.empty(len(thresholds))
    for i, t in enumerate(thresholds):
        step = t / qmax
        if step > width:
            e = (np.minimum(np.floor(x / step + 0.5), qmax) * step - x) ** 2
        else:
            e = np.where(x > t, (x - t) ** 2, step * step / 12)
        errors[i] = np.dot(n, e)
    return errors / max(float(n.sum()), 1.0)


def linear_centres(histogram: Histogram) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], float]:
    """Counts and middles of the equal bins that hold something, and the width of a bin.

    The first bin often holds zeros alone; the root mean square of its values stands for them.
    """
    counts, width = histogram.linear()
    used = np.flatnonzero(counts)
    x = np.minimum((used + 0.5) * width, histogram.max)
    if used.size and used[0] == 0:
        inside = histogram.edges()[1:] <= width
        n, centres = histogram.counts[inside], histogram.centres()[inside]
        centres[0] = 0.0
        x[0] = np.sqrt(np.dot(n, centres**2) / max(int(n.sum()), 1))
    return counts[used].astype(np.float64), x, width
