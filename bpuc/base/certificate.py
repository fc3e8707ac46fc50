"""Proof that a requantization in float32 gives the machine's integers, for every accumulator.

The machine: ``f(acc) = (acc*mult + 2**(shift-1)) >> shift``. The integer kernels of CPU libraries:
``g(acc) = rint(float32(acc) * scale)`` with ties to even; both clamped. With factors not below zero both are monotone
step functions, so they agree on all accumulators if they agree on the two integers around each of f's thresholds, of
which at most 255 lie in the range of an int8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bpuc.base.rounding import MAX_SHIFT, Int64Array

_FAR = 1 << 40  # stands for a threshold that no accumulator reaches
# widest change of a multiplier, in its last place: 2**-15 of a 22-bit one
_STEPS = 64


@dataclass(frozen=True)
class Reach:
    """The accumulators that a channel can have: int64 [C] each, both ends included."""

    low: Int64Array
    high: Int64Array

    @classmethod
    def around(cls, bias: Int64Array, sums: Int64Array) -> Reach:
        """Everything within `sums` of a bias."""
        return cls(bias - sums, bias + sums)

    def __getitem__(self, rows: Any) -> Reach:
        return Reach(self.low[rows], self.high[rows])

    @property
    def peak(self) -> Int64Array:
        """The largest magnitude."""
        return np.maximum(np.abs(self.low), np.abs(self.high))


def certified_scales(
    mult: Int64Array, shift: Int64Array, reach: Reach, lo: int, hi: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """A scale for g, channel by channel, and whether it is proven equal to f.

    Args:
        mult, shift: [C]. reach: where equality must hold.
        lo, hi: the clamp; steps outside of it do not matter.
    """
    valid = (mult >= 0) & (shift >= 1) & (shift <= MAX_SHIFT) & (reach.peak < 2**31)
    mult, shift = np.where(valid, mult, 0), np.where(valid, shift, 1)
    scale = np.ldexp(mult.astype(np.float64), -shift.astype(np.int32)).astype(np.float32)
    m, s, low, high = mult[:, None], shift[:, None], reach.low[:, None], reach.high[:, None]
    k = np.arange(lo + 1, hi + 1, dtype=np.int64)
    # the least accumulator that f takes to k or above, where it can be one that occurs
    near = np.abs(k - 0.5) * np.ldexp(1.0, s.astype(np.int32)) <= 1.001 * m * reach.peak[:, None].astype(np.float64)
    at = -(((np.int64(1) << (s - 1)) - (np.where(near, k, 0) << s)) // np.maximum(m, 1))
    at = np.where(near, at, np.where(k > 0, _FAR, -_FAR))
    # f is at least k from `upper` on and less than k up to `lower`, as far as accumulators go
    upper, upper_counts = np.maximum(at, low).astype(np.float32), at <= high
    lower, lower_counts = np.minimum(at - 1, high).astype(np.float32), at - 1 >= low

    def proven(scale: npt.NDArray[np.float32], rows: Any = slice(None)) -> npt.NDArray[np.bool_]:
        factor = scale[:, None]
        bad = (np.rint(upper[rows] * factor) < k) & upper_counts[rows]
        bad |= (np.rint(lower[rows] * factor) >= k) & lower_counts[rows]
        return np.asarray(~bad.any(1))

    good = proven(scale) & valid
    rows = np.flatnonzero(~good & valid)
    if len(rows):
        # each condition bounds the scale; try the middle of what all of them allow
        least, most = np.zeros(len(rows)), np.full(len(rows), np.inf)
        for value, counts, above in ((upper, upper_counts, True), (lower, lower_counts, False)):
            v, c = value[rows].astype(np.float64), counts[rows]
            with np.errstate(divide="ignore", invalid="ignore"):
                limit = (k - 0.5) / v
            least = np.maximum(least, np.where(c & ((v > 0) == above) & (v != 0), limit, 0.0).max(1, initial=0.0))
            most = np.minimum(most, np.where(c & ((v < 0) == above) & (v != 0), limit, np.inf).min(1, initial=np.inf))
        middle = np.where(np.isfinite(most), (least + most) / 2, scale[rows]).astype(np.float32)
        scale[rows] = middle
        good[rows] = proven(middle, rows)
    return scale, good


def certifiable(
    mult: Int64Array, shift: Int64Array, real: npt.NDArray[np.float64], reach: Reach, lo: int, hi: int
) -> Int64Array:
    """Multipliers moved to the nearest ones for which float32 is proven, at most 64 steps of the last place away.

    A real multiplier is rounded to an integer anyway; of the integers near it, this takes one that an ordinary CPU
    reproduces at full speed. What is exact already stays, and so does what no near neighbour helps.

    Args:
        mult, shift: [C], as `quantize_multipliers` gives them. real: [C], what they stand for.
        reach, lo, hi: as in `certified_scales`.
    """
    mult = mult.copy()
    exact = np.ldexp(mult.astype(np.float64), -shift.astype(np.int32)) == real
    _, good = certified_scales(mult, shift, reach, lo, hi)
    rows = np.flatnonzero(~good & ~exact & (mult > _STEPS) & (reach.peak < 2**31))
    for step in (s for d in range(1, _STEPS + 1) for s in (d, -d)):
        if not len(rows):
            break
        _, good = certified_scales(mult[rows] + step, shift[rows], reach[rows], lo, hi)
        mult[rows[good]] += step
        rows = rows[~good]
    return mult
