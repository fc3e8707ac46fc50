"""Exact requantization of accumulators in numpy: float64 where it provably loses nothing, int64 elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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

    def __post_init__(self) -> None:
        product = np.abs(self.mult.astype(np.float64)) * self.bound
        self.safe = bool(np.all(product < LIMIT))
        total = product + self.extra + np.ldexp(0.5, self.shift)
        self.exact = bool(np.all(total < EXACT))
        self.real = np.ldexp(self.mult.astype(np.float64), -self.shift)

    def __call__(self, acc: Array, extra: Array | None = None) -> Array:
        """Integers, as float64 or int64.

        Raises:
            ValueError: a product leaves int64.
        """
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
