"""A small, even sample of the values of one tensor: whole rows of channels, taken at regular positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float32]
VALUES = 1 << 16  # kept for a tensor
MOST_ROWS = 4096


class RowSampler:
    """Keeps rows [channels] of arrays of one shape; a tensor without channels counts as rows of one value.

    Where more come than fit, every other row goes and half as many are taken from then on: memory is flat, and what is
    kept depends on the order of samples alone.
    """

    def __init__(self, axis: int | None, channels: int = 1):
        self._axis, self._channels = axis, channels
        self._room = int(np.clip(VALUES // max(channels, 1), 64, MOST_ROWS))
        self._each = max(1, self._room // 8)
        self._kept: list[Rows] = []
        self._count = self._seen = 0

    def update(self, array: npt.NDArray[Any]) -> None:
        """Take some rows of an array."""
        x = np.asarray(array, np.float32)
        if not x.size:
            return
        before = 1 if self._axis is None else int(np.prod(x.shape[: self._axis]))
        view = x.reshape(before, self._channels, -1)
        positions = before * view.shape[2]
        take = min(self._each, positions)
        # another phase for every array, so that a fixed grid does not miss the same places each time
        self._seen += 1
        phase = (self._seen * 0.6180339887) % 1.0
        at = ((np.arange(take) + phase) * positions / take).astype(np.int64) % positions
        self._kept.append(np.ascontiguousarray(view[at // view.shape[2], :, at % view.shape[2]]))
        self._count += take
        if self._count > self._room:
            self._kept = [self.rows()[::2]]
            self._count = len(self._kept[0])
            self._each = max(1, self._each // 2)

    def rows(self) -> Rows:
        """What is kept, float32 [rows, channels]."""
        return np.concatenate(self._kept) if self._kept else np.zeros((0, self._channels), np.float32)
