"""kl: the threshold whose quantized distribution is nearest to the real one by Kullback-Leibler divergence.

The search is the well-known one for symmetric int8: for every candidate, the reference P is the histogram up to it with
the clipped tail in its last bin; Q is the histogram up to it without the tail, averaged over as many groups of bins as
there are quantization levels, each average spread evenly over the group's non-empty bins; the least KL(P || Q) wins.
(S. Migacz, "8-bit Inference with TensorRT", GTC 2017.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bpuc.base.errors import ConfigError
from bpuc.observe.base import Ends, as_float32
from bpuc.observe.histogram import Histogram, check_bins
from bpuc.observe.histogram_observer import HistogramObserver, HistogramOptions

Floats = npt.NDArray[np.float64]
STEPS = 128  # candidates between the finest threshold and the maximum


@dataclass(frozen=True)
class KlOptions(HistogramOptions):
    """Options of kl.

    Attributes:
        bins: linear bins of |x| that the divergence is taken over, a power of two from 512 up.
        max_bins: where the largest magnitude of single samples differs, the bins double up to this number, so that
            they stay as fine as `bins` of them are for the smallest sample (the vendor's quantizer: 1024 to 16384).
        update_interval: the divergence is taken after every so many samples; what comes after the last full interval
            does not count. 0: once, after all samples.
    """

    max_bins: int = 0
    update_interval: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bins < 512:
            raise ConfigError(f"observer option bins is {self.bins}", want="at least 512 for kl")
        if self.max_bins:
            check_bins(self.max_bins, "max_bins")
            if self.max_bins < self.bins:
                raise ConfigError(f"observer option max_bins is {self.max_bins}", want=f"at least bins, {self.bins}")
        if self.update_interval < 0:
            raise ConfigError(
                f"observer option update_interval is {self.update_interval}", want="a number of samples, or 0 for all"
            )


class Kl(HistogramObserver):
    """Least KL divergence of the histogram of all samples, or of those up to the last full interval."""

    name = "kl"
    Options = KlOptions
    options: KlOptions

    def __init__(self, options: KlOptions | None = None):
        super().__init__(options)
        self._least = math.inf  # the smallest of the samples' largest magnitudes
        # samples of an interval that is not full yet
        self._waiting, self._count = Histogram(256) if self.order_free else self._fresh(), 0

    def _fresh(self) -> Histogram:
        return Histogram(max(self.options.bins, self.options.max_bins), self.options.sampling)

    @property
    def order_free(self) -> bool:
        return self.options.update_interval <= 1

    def update(self, array: npt.NDArray[Any], ends: Ends | None = None) -> None:
        if self.options.max_bins:
            _, lo, hi = as_float32(array, ends)
            self._least = min(self._least, max(-lo, hi) or math.inf)
        if self.order_free:
            self.histogram.update(array, ends)
            return
        self._waiting.update(array, ends)
        self._count += 1
        if self._count % self.options.update_interval == 0:
            self.histogram.merge(self._waiting)
            self._waiting = self._fresh()

    def merge(self, other: HistogramObserver) -> None:
        super().merge(other)
        if isinstance(other, Kl):
            self._least = min(self._least, other._least)
        if not self.order_free:
            raise ConfigError(
                "observer kl with update_interval depends on the order of samples and cannot be merged",
                hint="leave update_interval out, or calibrate in one process",
            )

    def _threshold(self, qmax: int) -> float:
        interval = self.options.update_interval
        if 0 < self._count < interval:
            raise ConfigError(
                f"observer option update_interval is {interval}, but there were only {self._count} samples",
                want="an interval of no more than the samples",
            )
        return least_divergence(self.histogram, qmax, self._bins()) or max(-self.range()[0], self.range()[1])

    def _bins(self) -> int:
        bins = self.options.bins
        while bins < self.options.max_bins and self.histogram.max / bins > self._least / self.options.bins:
            bins *= 2
        return bins

    def range(self) -> tuple[float, float]:
        low, high = super().range()
        if not self._waiting.total:
            return low, high
        later = self._waiting
        return (min(low, later.lo), max(high, later.hi)) if self.histogram.total else (later.lo, later.hi)

    def _state(self) -> dict[str, Any]:
        least = self._least if math.isfinite(self._least) else None
        return {**super()._state(), "waiting": self._waiting.state(), "count": self._count, "least": least}

    def _load(self, state: Mapping[str, Any]) -> None:
        super()._load(state)
        self._waiting.load(state["waiting"])
        self._count = state["count"]
        self._least = math.inf if state["least"] is None else state["least"]


def least_divergence(histogram: Histogram, qmax: int, bins: int | None = None) -> float:
    """The threshold with the least divergence over so many equal bins; the largest of equal ones, at most the maximum.

    With more levels than bins (int16) the maximum loses nothing and is the answer.
    """
    found, width = histogram.linear(bins)
    counts = found[: int(np.max(np.flatnonzero(found), initial=0)) + 1].astype(np.float64)
    # Zeros quantize without error at any threshold; left in, they would outweigh all else behind a Relu.
    counts[0] = min(counts[0], counts[1]) if counts.size > 1 else counts[0]
    levels = qmax + 1
    if counts.size <= levels:
        return histogram.max
    sizes = np.unique(np.linspace(levels, counts.size, STEPS).round().astype(np.int64))[::-1]
    divergences = _divergences(counts, sizes, levels)
    best = int(np.flatnonzero(divergences <= divergences.min() + 1e-12)[0])
    return min(float(sizes[best]) * width, histogram.max)


def _divergences(counts: Floats, sizes: npt.NDArray[np.int64], levels: int) -> Floats:
    """KL(P || Q) in nats for thresholds after the first `sizes` bins each; infinite where nothing is left below.

    All from running sums: with k the counts, S the sum of a group and a its average over non-empty bins, the divergence
    is (sum k log k - sum S log a) / total + (sum k / total) * log(sum k / total), but for the last bin, which has the
    tail too.
    """
    total = counts.sum()
    filled = counts > 0
    sums, members, logs = (
        np.concatenate([[0.0], np.cumsum(v)]) for v in (counts, filled, counts * np.log(np.where(filled, counts, 1.0)))
    )
    starts = -(-np.arange(levels + 1) * sizes[:, None] // levels)  # [sizes, levels + 1], the first bin of each group
    group = np.diff(sums[starts])
    with np.errstate(divide="ignore", invalid="ignore"):
        average = group / np.diff(members[starts])
        kept = sums[sizes]
        spread = np.where(group > 0, group * np.log(average), 0.0).sum(1)
        whole = logs[sizes] - spread + kept * np.log(kept / total)
        last, tail = counts[sizes - 1], total - kept
        q = np.where(filled[sizes - 1], average[:, -1] / kept, 0.0)
        # a bin that only the clipped tail fills has q = 0; a small floor makes that dear but finite
        whole -= np.where(last > 0, last * np.log(last / total / q), 0.0)
        whole += np.where(last + tail > 0, (last + tail) * np.log((last + tail) / total / np.maximum(q, 1e-9)), 0.0)
    return np.where(kept > 0, whole / total, np.inf)
