"""Takes the statistics of the channels of one tensor, array by array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bpuc.base.channels import ChannelStats, rounded


class ChannelObserver:
    """Sums over all arrays seen, each of the same shape with the channels along `axis`."""

    def __init__(self, axis: int, channels: int):
        self.axis, self.count = axis, 0
        self._peak, self._sum, self._square = np.zeros(channels), np.zeros(channels), np.zeros(channels)

    def update(self, array: npt.NDArray[Any]) -> None:
        """See an array of finite real values."""
        x = np.ascontiguousarray(array, np.float32)
        before = int(np.prod(x.shape[: self.axis]))
        view = x.reshape(before, x.shape[self.axis], -1)
        if not x.size:
            return
        self._peak = np.maximum(self._peak, np.maximum(view.max((0, 2)), -view.min((0, 2))))
        self._sum += view.sum((0, 2), dtype=np.float32)
        self._square += np.einsum("nci,nci->c", view, view, dtype=np.float32)
        self.count += before * view.shape[2]

    def merge(self, other: ChannelObserver) -> None:
        """Take over what another one has seen; peaks are exact, sums up to the last digits."""
        self._peak = np.maximum(self._peak, other._peak)
        self._sum += other._sum
        self._square += other._square
        self.count += other.count

    def stats(self) -> ChannelStats:
        """Rounded to the digits that a calibration file keeps, so that a stored one serves alike."""
        n = max(self.count, 1)
        return ChannelStats(self.axis, *(rounded(a) for a in (self._peak, self._sum / n, self._square / n)))
