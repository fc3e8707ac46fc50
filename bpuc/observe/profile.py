"""Everything that can be said of a tensor's values in a few kilobytes: a profile, not an observer with a threshold.

Values come array by array. Moments are merged by the formulas of P. Pébay, "Formulas for robust, one-pass parallel
computation of covariances and arbitrary-order statistical moments", Sandia SAND2008-6212, about the common mean, so no
digits are lost to large means. Percentiles are those of two histograms of magnitudes, one for each sign.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from bpuc.observe.histogram import Histogram

PERCENTILES = (0.01, 0.1, 1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0, 99.9, 99.99)
# bins of the octave's half; a percentile is known to about 1 part in 256
BINS = 512


class Profile:
    """Statistics of one tensor.

    Args:
        axis: of the channels, or None.

    Attributes:
        count: finite values seen. not_finite: NaN and infinite ones, which count nowhere else. zeros: exact zeros.
        low, high, mean: of the finite values (0 before the first).
    """

    def __init__(self, axis: int | None = None):
        self.axis = axis
        self.count = self.not_finite = self.zeros = 0
        self.low = self.high = self.mean = 0.0
        self._m2 = self._m3 = self._m4 = 0.0
        self._below, self._above = Histogram(BINS), Histogram(BINS)
        self._channels: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None = None

    def update(self, array: npt.NDArray[Any]) -> None:
        """See an array of any real type; all of one shape."""
        with np.errstate(over="ignore"):
            x = np.asarray(array).astype(np.float32)
        fine = np.isfinite(x)
        if self.axis is not None and x.size:
            self._by_channel(x, fine, self.axis)
        flat = x[fine] if not fine.all() else x.reshape(-1)
        self.not_finite += x.size - flat.size
        if not flat.size:
            return
        low, high = float(flat.min()), float(flat.max())
        self.low, self.high = (min(self.low, low), max(self.high, high)) if self.count else (low, high)
        self.zeros += flat.size - int(np.count_nonzero(flat))
        self._below.update(flat[flat < 0])
        self._above.update(flat[flat > 0])
        self._moments(flat.astype(np.float64))

    def _moments(self, x: npt.NDArray[np.float64]) -> None:
        na, nb = self.count, x.size
        n, mean = na + nb, float(x.mean())
        d = x - mean
        square = d * d
        m2, m3, m4 = float(square.sum()), float((square * d).sum()), float((square * square).sum())
        a = mean - self.mean
        self._m4 += m4 + a**4 * na * nb * (na * na - na * nb + nb * nb) / n**3
        self._m4 += 6 * a * a * (na * na * m2 + nb * nb * self._m2) / n**2 + 4 * a * (na * m3 - nb * self._m3) / n
        self._m3 += m3 + a**3 * na * nb * (na - nb) / n**2 + 3 * a * (na * m2 - nb * self._m2) / n
        self._m2 += m2 + a * a * na * nb / n
        self.mean += a * nb / n
        self.count = n

    def _by_channel(self, x: npt.NDArray[np.float32], fine: npt.NDArray[np.bool_], axis: int) -> None:
        rest = tuple(i for i in range(x.ndim) if i != axis)
        low = np.where(fine, x, np.float32(np.inf)).min(rest, initial=np.inf)
        high = np.where(fine, x, np.float32(-np.inf)).max(rest, initial=-np.inf)
        if self._channels is not None:
            low, high = np.minimum(low, self._channels[0]), np.maximum(high, self._channels[1])
        self._channels = low, high

    @property
    def std(self) -> float:
        """Standard deviation of all values (not of a sample of them)."""
        return math.sqrt(self._m2 / self.count) if self.count else 0.0

    @property
    def skewness(self) -> float:
        """Third central moment over std**3; 0 where all values are alike."""
        return self._m3 / self.count / self.std**3 if self._varies else 0.0

    @property
    def kurtosis(self) -> float:
        """Fourth central moment over std**4: 3 for a normal distribution, 1.8 for a uniform one; 0 without spread."""
        return self._m4 * self.count / self._m2**2 if self._varies else 0.0

    @property
    def _varies(self) -> bool:
        return self.low < self.high and self._m2 * self._m2 > 0

    def percentiles(self) -> dict[str, float]:
        """Value below which so many percent of the values lie, to the fineness of the histogram."""
        lows, highs, counts = self._bins()
        ends, wanted = np.cumsum(counts), np.asarray(PERCENTILES) / 100 * self.count
        if not self.count:
            return {f"{p:g}": 0.0 for p in PERCENTILES}
        i = np.minimum(np.searchsorted(ends, wanted, side="left"), counts.size - 1)
        inside = (wanted - (ends[i] - counts[i])) / np.maximum(counts[i], 1)
        values = np.clip(lows[i] + (highs[i] - lows[i]) * np.clip(inside, 0, 1), self.low, self.high)
        return {f"{p:g}": float(v) for p, v in zip(PERCENTILES, values)}

    def histogram(self, bins: int = 48) -> tuple[list[float], list[int]]:
        """Edges and counts of equal bins from `low` to `high`; bins of the inner histogram are shared out evenly."""
        if not self.count or self.low == self.high:
            return [self.low, self.high], [self.count]
        edges = np.linspace(self.low, self.high, bins + 1)
        lows, highs, counts = self._bins()
        order = np.argsort(highs, kind="stable")
        lows, highs, counts = lows[order], highs[order], counts[order]
        lows, highs = np.clip(lows, self.low, self.high), np.clip(highs, self.low, self.high)
        ends = np.cumsum(counts)
        out = np.zeros(bins)
        first = np.clip(np.searchsorted(edges, lows, side="right") - 1, 0, bins - 1)
        last = np.clip(np.searchsorted(edges, highs, side="left") - 1, 0, bins - 1)
        whole = first >= last
        np.add.at(out, first[whole], counts[whole])
        for a, b, c, i, j in zip(lows[~whole], highs[~whole], counts[~whole], first[~whole], last[~whole]):
            cuts = np.clip(edges[i : j + 2], a, b)
            out[i : j + 1] += c * np.diff(cuts) / (b - a)
        # whole counts whose sum is that of the values
        sums = np.floor(np.cumsum(out) + 0.5).astype(np.int64)
        sums[-1] = int(ends[-1])
        return edges.tolist(), np.diff(np.concatenate([[0], sums])).tolist()

    def channels(self) -> tuple[list[float], list[float]] | None:
        """Least and largest finite value of each channel (0 and 0 where there is none), or None without channels."""
        if self._channels is None:
            return None
        low, high = self._channels
        seen = low <= high
        return np.where(seen, low, 0.0).tolist(), np.where(seen, high, 0.0).tolist()

    def _bins(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Bins that hold something, from the least value up: lower and upper edges, and counts."""
        below, above = self._below, self._above
        left, right = below.edges(), above.edges()
        # the outermost bins reach no further than the values
        left[-1], right[-1] = min(left[-1], below.max), min(right[-1], above.max)
        lows = np.concatenate([-left[:0:-1], [0.0], right[:-1]])
        highs = np.concatenate([-left[-2::-1], [0.0], right[1:]])
        counts = np.concatenate([below.counts[::-1], [self.zeros], above.counts])
        used = counts > 0
        return lows[used], np.maximum(highs[used], lows[used]), counts[used]
