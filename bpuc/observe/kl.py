"""kl: the threshold whose quantized distribution is nearest to the real one by Kullback-Leibler divergence.

The search is the well-known one for symmetric int8: for every candidate, the reference P is the histogram up to it with
the clipped tail in its last bin; Q is the histogram up to it without the tail, averaged over as many groups of bins as
there are quantization levels, each average spread evenly over the group's non-empty bins; the least KL(P || Q) wins.
(S. Migacz, "8-bit Inference with TensorRT", GTC 2017.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bpuc.base.errors import ConfigError
from bpuc.observe.histogram import check_bins
from bpuc.observe.histogram_observer import HistogramObserver

STEPS = 128  # candidates between the finest threshold and the maximum


@dataclass(frozen=True)
class KlOptions:
    """Options of kl.

    Attributes:
        bins: linear bins of |x| that the divergence is taken over, a power of two and at least 512.
    """

    bins: int = 2048

    def __post_init__(self) -> None:
        check_bins(self.bins)
        if self.bins < 512:
            raise ConfigError(f"observer option bins is {self.bins}", want="at least 512 for kl")


class Kl(HistogramObserver):
    """Least KL divergence. With more levels than bins (int16) the maximum loses nothing and is the answer."""

    name = "kl"
    Options = KlOptions
    options: KlOptions

    def _threshold(self, qmax: int) -> float:
        found, width = self.histogram.linear()
        counts = found[: int(np.flatnonzero(found)[-1]) + 1].astype(np.float64)
        # Zeros quantize without error at any threshold; left in, they would outweigh all else behind a Relu.
        counts[0] = min(counts[0], counts[1]) if counts.size > 1 else counts[0]
        levels = qmax + 1
        if counts.size <= levels:
            return self.histogram.max
        sizes = np.unique(np.linspace(levels, counts.size, STEPS).round().astype(int))[::-1]
        best = min(
            sizes, key=lambda size: _divergence(counts, int(size), levels)
        )  # the first, so the largest, on a tie
        return min(float(best) * width, self.histogram.max)


def _divergence(counts: npt.NDArray[np.float64], size: int, levels: int) -> float:
    """KL(P || Q) in nats for a threshold after the first `size` bins; infinite where nothing is left below it."""
    kept = counts[:size]
    p = kept.copy()
    p[-1] += counts[size:].sum()
    group = np.arange(size) * levels // size
    filled = kept > 0
    sums = np.bincount(group, weights=kept, minlength=levels)
    members = np.bincount(group, weights=filled, minlength=levels)
    q = np.where(filled, (sums / np.maximum(members, 1))[group], 0.0)
    if q.sum() == 0:
        return float("inf")
    p, q = p / p.sum(), q / q.sum()
    # A bin that only the clipped tail fills has q = 0; a small floor makes that dear but finite.
    used = p > 0
    return float(np.sum(p[used] * np.log(p[used] / np.maximum(q[used], 1e-9))))
