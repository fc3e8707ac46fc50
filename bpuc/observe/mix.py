"""mix: for each tensor the best of several percentiles and kl, by squared quantization error."""

from __future__ import annotations

import numpy as np

from bpuc.observe.histogram_observer import HistogramObserver
from bpuc.observe.kl import Kl
from bpuc.observe.mse import quantization_error

PERCENTILES = (100.0, 99.9995, 99.999, 99.995, 99.99, 99.95, 99.9)


class Mix(HistogramObserver):
    """No options; one histogram serves all candidates. The first of equal candidates wins, the maximum before all."""

    name = "mix"

    def _threshold(self, qmax: int) -> float:
        kl = Kl()
        kl.histogram = self.histogram
        candidates = [self.histogram.percentile(p) for p in PERCENTILES] + [kl.threshold(qmax)]
        errors = quantization_error(self.histogram, np.array(candidates), qmax)
        return candidates[int(np.argmin(errors))]
