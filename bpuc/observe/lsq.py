"""lsq: the scale refined until it is the least-squares answer to its own integers.

Learned step sizes (S. K. Esser et al., "Learned Step Size Quantization", ICLR 2020) follow the gradient of an error by
the scale. For the squared error of the tensor itself, that gradient is zero where

    scale = sum(x * q) / sum(q * q),    q = clip(floor(x / scale + 1/2), -qmax - 1, qmax)

so the two equations are used in turn, from the best hundredth of the maximum (`mse`) on. The threshold is scale * qmax.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpuc.observe.histogram_observer import HistogramObserver, HistogramOptions, check_whole
from bpuc.observe.mse import best_hundredth, linear_centres, quantization_error


@dataclass(frozen=True)
class LsqOptions(HistogramOptions):
    """Options of lsq.

    Attributes:
        steps: refinements at most, 1 to 1000; it ends earlier where the scale stands still.
    """

    steps: int = 30

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("steps", self.steps, 1, 1000)


class Lsq(HistogramObserver):
    """Of all scales on the way the one with the least squared error, so never worse than where it began."""

    name = "lsq"
    Options = LsqOptions
    options: LsqOptions

    def _threshold(self, qmax: int) -> float:
        n, x, _ = linear_centres(self.histogram)
        tried = [best_hundredth(self.histogram, qmax)]
        for _ in range(self.options.steps):
            q = np.minimum(np.floor(x / (tried[-1] / qmax) + 0.5), qmax)
            power = float(np.dot(n, q * q))
            if power == 0:
                break
            threshold = min(float(np.dot(n, x * q)) / power * qmax, self.histogram.max)
            if abs(threshold - tried[-1]) <= 1e-9 * threshold:
                break
            tried.append(threshold)
        return tried[int(np.argmin(quantization_error(self.histogram, np.array(tried), qmax)))]
