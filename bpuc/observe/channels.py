"""Takes the statistics of the channels of one tensor, array by array."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bpuc.base.channels import ChannelStats, rounded

Extremes = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]  # least and largest value of each channel


class ChannelObserver:
    """Peaks over all arrays seen, sums over some, each of the same shape with the channels along `axis`.

    Sums of floats hang on the order of adding. So samples come in blocks, each summed for itself and then added to the
    total by `close`: whoever sees the blocks, merging them in order gives the same bits.
    """

    def __init__(self, axis: int, channels: int):
        self.axis, self.count = axis, 0
        self._peak = np.zeros(channels)
        self._sums = np.zeros((2, channels))
        self._block = np.zeros((2, channels))

    def extremes(self, array: npt.NDArray[Any]) -> Extremes:
        """Least and largest value of each channel of an array that has values; NaN where one of them is."""
        return _extremes(self._view(array))

    @np.errstate(over="ignore", invalid="ignore")  # sums of values near the end of float32
    def update(self, array: npt.NDArray[Any], moments: bool = True, extremes: Extremes | None = None) -> None:
        """See an array of finite real values; without `moments` for its peaks alone.

        Args:
            extremes: of the array, where they are known.
        """
        view = self._view(array)
        if not view.size:
            return
        low, high = extremes or _extremes(view)
        peak = np.maximum(high, -low)
        self._peak = np.maximum(self._peak, peak)
        if moments:
            # float32 is quick, and holds sums of squares up to 2**127
            dtype = np.float32 if float(peak.max()) ** 2 * view.size < 2.0**127 else np.float64
            self._block[0] += view.sum((0, 2), dtype=dtype)
            self._block[1] += np.einsum("nci,nci->c", view, view, dtype=dtype)
            self.count += view.shape[0] * view.shape[2]

    def _view(self, array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """The array as [positions before, channels, positions behind]."""
        x = np.ascontiguousarray(array, np.float32)
        before = math.prod(x.shape[: self.axis])
        return x.reshape(before, x.shape[self.axis], math.prod(x.shape[self.axis + 1 :]))

    def close(self) -> None:
        """End a block."""
        self._sums += self._block
        self._block[:] = 0

    def merge(self, other: ChannelObserver) -> None:
        """Take over the blocks that another one has seen after those seen here."""
        self._peak = np.maximum(self._peak, other._peak)
        self._sums += other._sums
        self._block += other._block
        self.count += other.count

    def stats(self) -> ChannelStats:
        """Rounded to the digits that a calibration file keeps, so that a stored one serves alike."""
        n = max(self.count, 1)
        sums = (self._sums + self._block) / n
        return ChannelStats(self.axis, *(rounded(a) for a in (self._peak, sums[0], sums[1])))

    def state(self) -> dict[str, Any]:
        """JSON form of all closed blocks."""
        return {"peak": self._peak.tolist(), "sums": self._sums.tolist(), "count": self.count}

    def load(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self._peak, self._sums, self.count = np.array(state["peak"]), np.array(state["sums"]), state["count"]


def _extremes(view: npt.NDArray[np.float32]) -> Extremes:
    """Least and largest value of each channel of [positions, channels, positions]; NaN where one of them is."""
    before, channels, behind = view.shape
    if behind > 1:
        # twice as fast as reducing an axis, where that is short
        starts = np.arange(before * channels) * behind
        low, high = (f.reduceat(view.reshape(-1), starts).reshape(before, -1) for f in (np.minimum, np.maximum))
    else:
        low = high = view.reshape(before, channels)
    return low.min(0), high.max(0)


def joined(parts: Sequence[ChannelStats]) -> ChannelStats:
    """The statistics of a concatenation along the channels' axis."""
    return ChannelStats(
        parts[0].axis, *(np.concatenate([getattr(p, k) for p in parts]) for k in ("peak", "mean", "square"))
    )
