"""Thresholds of weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bpuc.base.errors import DataError
from bpuc.observe.base import LEAST_THRESHOLD, ZERO_THRESHOLD


def weight_thresholds(w: npt.NDArray[Any], axis: int) -> npt.NDArray[np.float64]:
    """max|w| of every channel along `axis`, float64 [w.shape[axis]]; 1 for a channel of zeros or without elements.

    Raises:
        DataError: a weight is NaN or infinite; the caller adds the tensor's name.
    """
    others = tuple(i for i in range(w.ndim) if i != axis % w.ndim)
    hi = np.max(w, axis=others, initial=0).astype(np.float64)
    lo = np.min(w, axis=others, initial=0).astype(np.float64)
    out = np.maximum(hi, -lo)
    if not np.isfinite(out).all():
        channel = int(np.flatnonzero(~np.isfinite(out))[0])
        raise DataError(f"a weight of channel {channel} is NaN or infinite", want="finite weights")
    return np.where(out < LEAST_THRESHOLD, ZERO_THRESHOLD, out)
