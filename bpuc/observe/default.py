"""default: the search of the vendor's quantizer, by the outputs of the whole model.

The candidates are the maximum, the percentile 99.995 (`max_percentile` 0.99995) and kl, each for all tensors alike.
The model runs on some samples with all its tensors rounded, once a candidate, and the one whose outputs are nearest to
the float model's by cosine is taken; where even that stays below `similarity`, further candidates are tried: mse, mix
tensor by tensor, and thresholds that the readers of a tensor choose. The vendor's search goes on to scales a channel
and to an offset. What the first would reach is measured and told; the compiler has them wherever they are free, since
that depends on the march and on the readers of a tensor. The integers here have no offset. Execution is not an
observer's: `bpuc/calibrate/search.py` does that part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bpuc.base.errors import ConfigError
from bpuc.observe.base import LEAST_THRESHOLD, ZERO_THRESHOLD
from bpuc.observe.histogram import Histogram
from bpuc.observe.histogram_observer import HistogramObserver, SamplingOptions
from bpuc.observe.kl import least_divergence
from bpuc.observe.mix import least_error
from bpuc.observe.mse import best_hundredth, quantization_error

PERCENTILE = 99.995
Threshold = Callable[[Histogram, int], float]
FIRST: dict[str, Threshold] = {
    "max": lambda h, _: h.max,
    "percentile": lambda h, _: h.percentile(PERCENTILE),
    "kl": least_divergence,
}
MORE: dict[str, Threshold] = {"mse": best_hundredth, "mix": least_error}


@dataclass(frozen=True)
class DefaultOptions(SamplingOptions):
    """Options of default.

    Attributes:
        similarity: mean cosine of the outputs that ends the search, 0 to 1.
    """

    similarity: float = 0.995

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.similarity <= 1:
            raise ConfigError(f"observer option similarity is {self.similarity}", want="a number from 0 to 1")


class Default(HistogramObserver):
    """Where no search is made, the candidate with the least squared error."""

    name = "default"
    Options = DefaultOptions

    def candidate(self, name: str, qmax: int) -> float:
        """The threshold of a candidate of `FIRST` or `MORE`, as `threshold`."""
        if self.histogram.max < LEAST_THRESHOLD:
            return ZERO_THRESHOLD
        return max(float({**FIRST, **MORE}[name](self.histogram, qmax)), LEAST_THRESHOLD)

    def _threshold(self, qmax: int) -> float:
        candidates = np.array([f(self.histogram, qmax) for f in FIRST.values()])
        return float(candidates[int(np.argmin(quantization_error(self.histogram, candidates, qmax)))])
