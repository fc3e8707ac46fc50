"""Statistics of the channels of one tensor: largest magnitude, mean and mean square of each.

Equalization needs the first and the last (how much of the int8 range a channel uses), bias correction the mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bpuc.base.errors import ConfigError

Floats = npt.NDArray[np.float64]
DIGITS = 7  # of a number in a calibration file: float32 precision


@dataclass(frozen=True)
class ChannelStats:
    """What calibration saw of the channels along `axis`; arrays float64 [C] in the tensor's unit (or its square)."""

    axis: int
    peak: Floats
    mean: Floats
    square: Floats

    def to_text(self) -> dict[str, Any]:
        """For the calibration file: one string of numbers an array, so that a tensor stays a few lines."""
        return {"axis": self.axis, **{k: _text(getattr(self, k)) for k in ("peak", "mean", "square")}}

    @classmethod
    def from_text(cls, entry: Mapping[str, Any]) -> ChannelStats:
        """The inverse of `to_text`.

        Raises:
            ConfigError: the arrays differ in length or hold what is no number.
        """
        try:
            arrays = [np.array(str(entry[k]).split(), np.float64) for k in ("peak", "mean", "square")]
            axis = int(entry["axis"])
        except (KeyError, ValueError, TypeError) as e:
            raise ConfigError(f"channel statistics cannot be read: {e}") from e
        if len({a.shape for a in arrays}) != 1 or not all(np.isfinite(a).all() for a in arrays):
            raise ConfigError("channel statistics differ in length or are not finite")
        return cls(axis, *arrays)


def rounded(array: Floats) -> Floats:
    """As a calibration file keeps the numbers, so that a stored array serves alike."""
    return np.array(_text(array).split(), np.float64)


def _text(array: Floats) -> str:
    return " ".join(f"{v:.{DIGITS}g}" for v in array)
