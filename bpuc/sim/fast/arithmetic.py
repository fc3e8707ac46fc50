"""Exact requantization of accumulators in numpy: float64 where it provably loses nothing, int64 elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bpuc.base.certificate import Reach, certified_scales
from bpuc.base.dtypes import DType
from bpuc.sim.engine import Array

EXACT = 2.0**53  # float64 holds every integer below
LIMIT = 2.0**62  # int64 arithmetic with room for the rounding term


def along(vector: Array, axis: int, rank: int) -> Array:
    """A vector shaped to broadcast along `axis` of a tensor of `rank` axes."""
    shape = [1] * rank
    shape[axis] = vector.size
    return vector.reshape(shape)


@dataclass
class Requantizer:
    """``clamp((acc*mult + extra + 2**(shift-1)) >> shift, lo, hi)``, elementwise.

    Args:
        mult, shift: int64, broadcast against acc. bound: at least the greatest |acc|, broadcast likewise, as float64.
        extra: at least the greatest |extra|.
    """

    mult: Array
    shift: Array
    lo: int
    hi: int
    bound: Any
    extra: Any = 0.0
    single: Any = field(init=False, default=None)
    narrow: tuple[Array, Array] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if np.all(np.asarray(self.extra) == 0):
            self._find_narrow()
        product = np.abs(self.mult.astype(np.float64)) * self.bound
        self.safe = bool(np.all(product < LIMIT))
        total = product + self.extra + np.ldexp(0.5, self.shift)
        self.exact = bool(np.all(total < EXACT))
        self.real = np.ldexp(self.mult.astype(np.float64), -self.shift)

    def _find_narrow(self) -> None:
        """Arithmetic of 32 bits, where it is proven: a certified float32 scale, or int32 without the common zeros."""
        if self.mult.size == 1 and 0 <= self.hi - self.lo < 256 and np.all(self.bound < 2.0**31):
            bound = np.ceil(np.max(self.bound)).astype(np.int64).reshape(1)
            row = (self.mult.reshape(1), self.shift.reshape(1))
            scale, good = certified_scales(*row, Reach(-bound, bound), self.lo, self.hi)
            if good[0]:
                self.single = scale[0]
                return
        # zeros at the end of the multiplier need not be multiplied and shifted out again
        lowest = np.maximum(self.mult & -self.mult, 1).astype(np.float64)
        zeros = np.minimum(np.frexp(lowest)[1] - 1, self.shift - 1)
        mult, shift = self.mult >> zeros, self.shift - zeros
        peak = np.abs(mult) * np.asarray(self.bound, np.float64) + np.ldexp(0.5, shift)
        if np.all(peak < 2.0**31) and np.all(shift < 31) and np.all(shift >= 1) and abs(self.lo) + abs(self.hi) < 2**31:
            self.narrow = mult.astype(np.int32), shift.astype(np.int32)

    def fits(self, y: DType) -> bool:
        """Whether the clamp alone keeps results in y's type."""
        return y.qmin <= self.lo <= self.hi <= y.qmax

    def __call__(self, acc: Array, extra: Array | None = None) -> Array:
        """Integers, in whatever type was enough.

        Raises:
            ValueError: a product leaves int64.
        """
        if self.single is not None:
            single: Array = np.multiply(acc, self.single, dtype=np.float32)
            np.rint(single, out=single)
            np.clip(single, self.lo, self.hi, out=single)
            return single
        if self.narrow is not None:
            mult, shift = self.narrow
            acc = acc.astype(np.int32) * mult
            acc += np.int32(1) << (shift - 1)
            acc >>= shift
            return np.clip(acc, self.lo, self.hi, out=acc)
        if self.exact:
            value = np.multiply(acc, self.real, dtype=np.float64)
            if extra is not None:
                value += np.ldexp(extra.astype(np.float64), -self.shift)
            value += 0.5
            np.floor(value, out=value)
            return np.clip(value, self.lo, self.hi, out=value)
        acc = acc.astype(np.int64)
        if not self.safe and acc.size and np.max(np.abs(acc.astype(np.float64)) * np.abs(self.mult)) >= LIMIT:
            raise ValueError("product of accumulator and multiplier leaves int64")
        total = acc * self.mult
        if extra is not None:
            total = total + extra
        result: Array = np.clip((total + (np.int64(1) << (self.shift - 1))) >> self.shift, self.lo, self.hi)
        return result


def scaler(mult: int, shift: int, lo: int, hi: int, bound: float) -> Requantizer:
    """One multiplier for a whole tensor whose values stay within `bound`."""
    return Requantizer(np.array(mult, np.int64), np.array(shift, np.int64), lo, hi, float(bound))


def floor_divide(a: Array, b: Array) -> Array:
    """``a // b`` of int64, b > 0, by float64 division where that is exact.

    With |a| < 2**52 a quotient lies at least 1/b from the next integer above, and the division errs by less.
    """
    if a.size and np.abs(a).max() < 2**52 and b.max() < 2**52:
        return np.floor(a / b).astype(np.int64)
    return a // b
