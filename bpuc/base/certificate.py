"""Proof that a requantization in float32 gives the machine's integers, for every accumulator.

The machine: ``f(acc) = (acc*mult + 2**(shift-1)) >> shift``. The integer kernels of CPU libraries:
``g(acc) = rint(float32(acc) * scale)`` with ties to even; both clamped. With factors not below zero both are monotone
step functions, so they agree on all accumulators if they agree on the two integers around each of f's thresholds, of
which at most 255 lie in the range of an int8.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bpuc.base.rounding import MAX_SHIFT, Int64Array

_FAR = 1 << 40  # stands for a threshold that no accumulator reaches
# widest change of a multiplier, in its last place: 2**-15 of a 22-bit one
_REACH = 64


def certified_scales(
    mult: Int64Array, shift: Int64Array, bound: Int64Array, lo: int, hi: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """A scale for g, channel by channel, and whether it is proven equal to f.

    Args:
        mult, shift: [C]. bound: [C], no accumulator of the channel is larger in magnitude.
        lo, hi: the clamp; steps outside of it do not matter.
    """
    valid = (mult >= 0) & (shift >= 1) & (shift <= MAX_SHIFT) & (bound < 2**31)
    mult, shift = np.where(valid, mult, 0), np.where(valid, shift, 1)
    scale = np.ldexp(mult.astype(np.float64), -shift.astype(np.int32)).astype(np.float32)
    m, s, b = mult[:, None], shift[:, None], bound[:, None]
    k = np.arange(lo + 1, hi + 1, dtype=np.int64)
    # the least accumulator that f takes to k or above, where one within the bound can be
    near = np.abs(k - 0.5) * np.ldexp(1.0, s.astype(np.int32)) <= 1.001 * m * b.astype(np.float64)
    at = -(((np.int64(1) << (s - 1)) - (np.where(near, k, 0) << s)) // np.maximum(m, 1))
    at = np.where(near, at, np.where(k > 0, _FAR, -_FAR))
    # beyond the bound nothing has to hold; a threshold outside leaves one condition, on the outermost accumulator
    upper, upper_counts = np.maximum(at, -b).astype(np.float32), at <= b
    lower, lower_counts = np.minimum(at - 1, b).astype(np.float32), at - 1 >= -b

    def proven(scale: npt.NDArray[np.float32], rows: Any = slice(None)) -> npt.NDArray[np.bool_]:
        factor = scale[:, None]
        bad = (np.rint(upper[rows] * factor) < k) & upper_counts[rows]
        bad |= (np.rint(lower[rows] * factor) >= k) & lower_counts[rows]
        return np.asarray(~bad.any(1))

    good = proven(scale) & valid
    rows = np.flatnonzero(~good & valid)
    if len(rows):
        # each condition bounds the scale; try the middle of what all of them allow
        low, high = np.zeros(len(rows)), np.full(len(rows), np.inf)
        for value, counts, above in ((upper, upper_counts, True), (lower, lower_counts, False)):
            v, c = value[rows].astype(np.float64), counts[rows]
            with np.errstate(divide="ignore", invalid="ignore"):
                limit = (k - 0.5) / v
            low = np.maximum(low, np.where(c & ((v > 0) == above) & (v != 0), limit, 0.0).max(1, initial=0.0))
            high = np.minimum(high, np.where(c & ((v < 0) == above) & (v != 0), limit, np.inf).min(1, initial=np.inf))
        middle = np.where(np.isfinite(high), (low + high) / 2, scale[rows]).astype(np.float32)
        scale[rows] = middle
        good[rows] = proven(middle, rows)
    return scale, good


def certifiable(
    mult: Int64Array, shift: Int64Array, real: npt.NDArray[np.float64], bound: Int64Array, lo: int, hi: int
) -> Int64Array:
    """Multipliers moved to the nearest ones for which float32 is proven, at most 64 steps of the last place away.

    A real multiplier is rounded to an integer anyway; of the integers near it, this takes one that an ordinary CPU
    reproduces at full speed. What is exact already stays, and so does what no near neighbour helps.

    Args:
        mult, shift: [C], as `quantize_multipliers` gives them. real: [C], what they stand for.
        bound, lo, hi: as in `certified_scales`.
    """
    mult = mult.copy()
    exact = np.ldexp(mult.astype(np.float64), -shift.astype(np.int32)) == real
    _, good = certified_scales(mult, shift, bound, lo, hi)
    rows = np.flatnonzero(~good & ~exact & (mult > _REACH) & (bound < 2**31))
    for step in (s for d in range(1, _REACH + 1) for s in (d, -d)):
        if not len(rows):
            break
        _, good = certified_scales(mult[rows] + step, shift[rows], bound[rows], lo, hi)
        mult[rows[good]] += step
        rows = rows[~good]
    return mult
