"""A small, even sample of the values of one tensor: whole rows of channels, taken at regular positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float32]
VALUES = 1 << 16  # kept for a tensor, at most
MOST_ROWS = 4096


class RowSampler:
    """Keeps rows [channels] of arrays of one shape; a tensor without channels counts as rows of one value.

    Every sample gives its part of what there is room for, by its number alone; so parts that were seen apart and are
    merged in order are what one sampler would have kept.

    Args:
        axis, channels: of the tensor; None where it has no channels.
        samples: how many there will be.
        values: how many to keep, about.
    """

    def __init__(self, axis: int | None, channels: int = 1, samples: int = 8, values: int = VALUES):
        self._axis, self._channels, self._samples = axis, channels, max(samples, 8)
        self._room = int(np.clip(values // max(channels, 1), 64, MOST_ROWS))
        self.kept: list[Rows] = []

    def update(self, array: npt.NDArray[Any], number: int) -> None:
        """Take some rows of the array of sample `number`, from 0."""
        share = [n * self._room // self._samples for n in (number, number + 1)]
        x = np.asarray(array, np.float32)
        if share[0] == share[1] or number >= self._samples or not x.size:
            return
        before = 1 if self._axis is None else int(np.prod(x.shape[: self._axis]))
        view = x.reshape(before, self._channels, -1)
        positions = before * view.shape[2]
        take = min(share[1] - share[0], positions)
        # another phase for every array, so that a fixed grid does not miss the same places each time
        phase = ((number + 1) * 0.6180339887) % 1.0
        at = ((np.arange(take) + phase) * positions / take).astype(np.int64) % positions
        self.kept.append(np.ascontiguousarray(view[at // view.shape[2], :, at % view.shape[2]]))

    def merge(self, other: RowSampler) -> None:
        """Append what another one has kept of later samples."""
        self.kept += other.kept

    def rows(self) -> Rows:
        """What is kept, float32 [rows, channels]."""
        return np.concatenate(self.kept) if self.kept else np.zeros((0, self._channels), np.float32)
