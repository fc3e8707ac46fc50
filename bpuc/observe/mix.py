"""mix: for each tensor the best of several percentiles and kl, by squared quantization error."""

from __future__ import annotations

import numpy as np

from bpuc.observe.histogram import Histogram
from bpuc.observe.histogram_observer import HistogramObserver
from bpuc.observe.kl import least_divergence
from bpuc.observe.mse import quantization_error

PERCENTILES = (100.0, 99.9995, 99.999, 99.995, 99.99, 99.95, 99.9)


class Mix(HistogramObserver):
    """One histogram serves all candidates. The first of equal candidates wins, the maximum before all."""

    name = "mix"

    def _threshold(self, qmax: int) -> float:
        return least_error(self.histogram, qmax)


def least_error(histogram: Histogram, qmax: int) -> float:
    """The candidate with the least squared quantization error."""
    candidates = [histogram.percentile(p) for p in PERCENTILES] + [least_divergence(histogram, qmax)]
    return candidates[int(np.argmin(quantization_error(histogram, np.array(candidates), qmax)))]
