"""The histogram of magnitudes that percentile, mse, kl and mix share.

Bins follow the float format: every octave [2^e, 2^(e+1)) has bins / 2 equal bins, and the octave of the largest value
and the 15 below it are kept. So the top is as fine as `bins` linear bins over the whole range, small values are
resolved as well as large ones, and the bin of a value is a shift of its bits. Edges do not depend on what came first:
when a larger value arrives, the lowest octaves fall into one rest bin and nothing else moves. Hence any order of
updates and merges gives the same counts, exactly.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bpuc.base.errors import ConfigError
from bpuc.base.tail import Tail
from bpuc.observe.base import Ends, as_float32

OCTAVES = 16
CHUNK = 1 << 16  # elements at a time, so that temporaries stay in the cache
MANTISSA_BITS = 23
LINE = 16  # values of a cache line: sampling takes whole lines
LANES = 4  # cells of the rest bin, by position: counting one cell again and again waits for memory each time


def check_bins(bins: int, option: str = "bins") -> None:
    """Refuse a number of bins that the histogram cannot have.

    Raises:
        ConfigError: not a power of two from 256 to 65536.
    """
    if bins not in {1 << b for b in range(8, 17)}:
        raise ConfigError(f"observer option {option} is {bins}", want="a power of two from 256 to 65536, such as 2048")


class Histogram:
    """Counts of |x| with exact, order-free growth and merging.

    Args:
        bins: equal bins that the upper half of the range would have at this fineness, twice over.
        sampling: count one value in this many (see `thinned`); the extremes are those of all values.

    Attributes:
        counts: int64 [1 + OCTAVES * bins / 2]; counts[0] is the rest bin [0, lowest edge).
        lo, hi: least and largest value seen (0 and 0 before the first).
    """

    def __init__(self, bins: int = 2048, sampling: int = 1):
        self.bins, self.sampling = bins, sampling
        self._bits = bins.bit_length() - 2  # mantissa bits in a bin's key
        self._base = 0  # key of counts[1]
        self.counts: npt.NDArray[np.int64] = np.zeros(1 + (OCTAVES << self._bits), np.int64)
        self.lo, self.hi, self._empty = 0.0, 0.0, True

    @property
    def max(self) -> float:
        """Largest magnitude seen."""
        return max(-self.lo, self.hi, 0.0)

    @property
    def total(self) -> int:
        """Number of values seen."""
        return int(self.counts.sum())

    def update(self, array: npt.NDArray[Any], ends: Ends | None = None) -> None:
        """Count the magnitudes of an array; as Observer.update."""
        flat, lo, hi = as_float32(array, ends)
        if flat.size == 0:
            return
        self._widen(lo, hi)
        if self.sampling > 1:
            flat = thinned(flat, self.sampling)
        keys = flat.view(np.int32)
        shift, lowest = MANTISSA_BITS - self._bits, self._base - LANES
        scratch = _scratch(self.counts.size)
        floor, cells = scratch.floor[: min(CHUNK, flat.size)], scratch.cells[: LANES - 1 + self.counts.size]
        np.add(_LANE[: floor.size], lowest, out=floor)
        cells[:] = 0
        for start in range(0, flat.size, CHUNK):
            part = keys[start : start + CHUNK]
            k, i = scratch.keys[: part.size], scratch.index[: part.size]
            np.bitwise_and(part, 0x7FFFFFFF, out=k)  # drop the sign
            np.right_shift(k, shift, out=k)
            np.maximum(k, floor[: part.size], out=k)
            np.subtract(k, lowest, out=k)
            i[:] = k
            np.add.at(cells, i, 1)
        self.counts += cells[LANES - 1 :]
        self.counts[0] += cells[: LANES - 1].sum()

    def merge(self, other: Histogram) -> None:
        """Add the counts of a histogram with as many bins."""
        if other._empty:
            return
        self._widen(other.lo, other.hi)
        self.counts += _raised(other.counts, self._base - other._base)

    def _widen(self, lo: float, hi: float) -> None:
        self.lo, self.hi = (lo, hi) if self._empty else (min(self.lo, lo), max(self.hi, hi))
        self._empty = False
        top = int(np.float32(self.max).view(np.int32)) >> MANTISSA_BITS
        base = max(top + 1 - OCTAVES, 0) << self._bits
        if base > self._base:
            self.counts = _raised(self.counts, base - self._base)
            self._base = base

    def __getstate__(self) -> dict[str, Any]:
        """For another process: only the bins from the first to the last that holds something."""
        used = np.flatnonzero(self.counts)
        first, stop = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 0)
        part = self.counts[first:stop]
        small = part.astype(np.uint32) if not part.size or part.max() < 1 << 32 else part
        return {**self.__dict__, "counts": (self.counts.size, first, small)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        size, first, part = state["counts"]
        self.__dict__.update(state)
        self.counts = np.zeros(size, np.int64)
        self.counts[first : first + part.size] = part

    def edges(self) -> npt.NDArray[np.float64]:
        """The bins' edges, one more than counts; the first is 0."""
        keys = np.arange(self._base, self._base + self.counts.size, dtype=np.int64) << (MANTISSA_BITS - self._bits)
        values = keys.astype(np.int32).view(np.float32).astype(np.float64)
        values[np.isinf(values)] = 2.0**128  # the edge above the last octave of float32
        return np.concatenate([[0.0], values])

    def percentile(self, percent: float) -> float:
        """The magnitude that `percent` of the values do not exceed, linear inside a bin, at most `max`.

        Where that falls into the rest bin (nearly all values are zero beside the largest), the values outside of the
        rest bin are asked instead: the answer would clip them all.
        """
        if percent >= 100:
            return self.max
        counts = self.counts
        if percent / 100 * self.total <= counts[0]:
            counts = counts.copy()
            counts[0] = 0
        sums = np.cumsum(counts)
        if sums[-1] == 0:
            return self.max
        wanted = percent / 100 * float(sums[-1])
        i = int(np.searchsorted(sums, wanted, side="left"))
        edges = self.edges()[i : i + 2]
        inside = (wanted - float(sums[i] - counts[i])) / float(counts[i])
        return min(float(edges[0] + (edges[1] - edges[0]) * inside), self.max)

    def linear(self, bins: int | None = None) -> tuple[npt.NDArray[np.int64], float]:
        """Counts in equal bins from 0 to the power of two above `max`, and the width of one.

        Exact, as every bin kept here lies in one of those (only the rest bin may hold values of the first few).

        Args:
            bins: how many, a power of two up to the histogram's own, which is the default.
        """
        bins = bins or self.bins
        centres = self.centres()
        width = 2.0 ** (np.frexp(self.max)[1]) / bins
        index = np.minimum((centres / width).astype(np.int64), bins - 1)
        out = np.zeros(bins, np.int64)
        np.add.at(out, index, self.counts)
        return out, float(width)

    def centres(self) -> npt.NDArray[np.float64]:
        """The middle of each bin, as `counts`."""
        edges = self.edges()
        return np.asarray((edges[:-1] + edges[1:]) / 2)

    def tail(self, near: float | None = None) -> Tail:
        """How many values lie beyond any magnitude, bin by bin near that one."""
        return Tail.of(self.edges()[:-1], self.counts, self.max, self.sampling, near)

    def state(self) -> dict[str, Any]:
        """JSON form; only the bins that hold something."""
        used = np.flatnonzero(self.counts)
        return {
            "lo": self.lo,
            "hi": self.hi,
            "empty": self._empty,
            "base": self._base,
            "bin": used.tolist(),
            "count": self.counts[used].tolist(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self.lo, self.hi, self._empty, self._base = state["lo"], state["hi"], state["empty"], state["base"]
        self.counts[:] = 0
        self.counts[state["bin"]] = state["count"]


def thinned(flat: npt.NDArray[np.float32], every: int) -> npt.NDArray[np.float32]:
    """One value in `every`, by position alone: whole cache lines, each time the next one of a block of `every` lines.

    So rows of any power of two are not met in the same columns again and again. The last, incomplete block gives every
    `every`-th value.
    """
    whole = flat.size // (every * every * LINE) * (every * every * LINE)
    blocks, rest = flat[:whole].reshape(-1, every, every, LINE), flat[whole::every]
    out = np.empty(whole // every + rest.size, np.float32)
    lines = out[: whole // every].reshape(-1, every, LINE)
    for i in range(every):
        lines[:, i] = blocks[:, i, i]
    out[whole // every :] = rest
    return out


_LANE = np.arange(CHUNK, dtype=np.int32) % LANES


class _Scratch(threading.local):
    """Room for one chunk, of each thread, kept between calls: fresh memory would be mapped page by page each time.

    Attributes:
        cells: counts of one update: in the cache, where those of all tensors would not be.
    """

    def __init__(self) -> None:
        self.keys, self.floor = np.empty(CHUNK, np.int32), np.empty(CHUNK, np.int32)
        self.index = np.empty(CHUNK, np.intp)
        self.cells = np.empty(0, np.int64)


_kept = _Scratch()


def _scratch(bins: int) -> _Scratch:
    if _kept.cells.size < LANES - 1 + bins:
        _kept.cells = np.empty(LANES - 1 + bins, np.int64)
    return _kept


def _raised(counts: npt.NDArray[np.int64], by: int) -> npt.NDArray[np.int64]:
    """Counts after the lowest edge rose by `by` bins: those below it are in the rest bin."""
    by = min(by, counts.size - 1)
    out = np.zeros_like(counts)
    out[0] = counts[: by + 1].sum()
    out[1 : counts.size - by] = counts[by + 1 :]
    return out
