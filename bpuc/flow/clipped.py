"""How many values of a tensor the integers do not hold, by what calibration counted."""

from __future__ import annotations

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.base.tail import NEAR
from bpuc.ir import Tensor
from bpuc.passkit import PassContext


def clipped_values(t: Tensor, ctx: PassContext) -> dict[str, int | None] | None:
    """Values seen in calibration whose magnitude is above the threshold: between `least` and `most` of `of`.

    The two are equal but where the threshold lies within a bin that holds values, and where channels have thresholds of
    their own, as counts are those of the whole tensor. With `sampling` N one value in N was counted; `of` None: none
    were, but the largest is within. None: not known.
    """
    quant, seen, tail = t.quant, ctx.ranges.get(t.name), ctx.tails.get(t.name)
    if quant is None or quant.dtype not in (DType.INT8, DType.INT16) or t.const is not None:
        return None
    if seen is None or seen.assumed or t.onnx_scale is None:
        return None
    thresholds = np.asarray(t.onnx_scale[0]) * quant.dtype.qmax
    channels, plain = ctx.channels.get(t.name), set(t.gain) == {1.0}
    over = np.ones(thresholds.shape, bool)
    if plain and channels is not None and channels.peak.shape == thresholds.shape:
        over = channels.peak > thresholds * (1 + NEAR)
    elif plain:
        over = max(-seen.low, seen.high) > thresholds * (1 + NEAR)
    if tail is None:
        return None if over.any() else _found(0, 0, None, 1)
    most = max((tail.beyond(float(v))[1] for v in thresholds[over]), default=0)
    return _found(min(tail.beyond(float(thresholds.max()))[0], most), most, tail.total, tail.sampling)


def _found(least: int, most: int, of: int | None, sampling: int) -> dict[str, int | None]:
    return {"least": least, "most": most, "of": of, "sampling": sampling}
