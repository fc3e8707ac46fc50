"""The one integer requantize routine, and how real multipliers become integers.

The machine's own multiplier width is not public; this one is an assumption of bpuc: a multiplier of at most
22 bits beside an int32 accumulator, so that the product fits 53 bits and float64 arithmetic is exact too.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

MULTIPLIER_BITS = 22
MAX_SHIFT = 62

Int64Array = npt.NDArray[np.int64]


class MultiplierError(ValueError):
    """A real multiplier that the machine's pair of integers cannot express."""


def round_half_up(x: npt.NDArray[np.float64] | float) -> Int64Array:
    """Nearest integer, ties toward +infinity: the rounding rule of every instruction, Quantize included."""
    return np.floor(np.asarray(x, np.float64) + 0.5).astype(np.int64)


def quantize_multiplier(real: float, bits: int = MULTIPLIER_BITS) -> tuple[int, int]:
    """The pair (mult, shift) with mult / 2**shift nearest to `real`.

    Args:
        real: a finite number; negative ones give a negative mult (subtraction).
        bits: width of |mult|.

    Returns:
        mult with 2**(bits-1) <= |mult| < 2**bits where the shift allows, and 1 <= shift <= 62.

    Raises:
        MultiplierError: `real` is not finite or needs a shift below 1.
    """
    if not math.isfinite(real):
        raise MultiplierError(f"multiplier {real} is not finite")
    if real == 0:
        return 0, 1
    exponent = math.frexp(abs(real))[1]
    shift = min(bits - exponent, MAX_SHIFT)
    mult = math.floor(abs(real) * 2.0**shift + 0.5)
    if mult == 1 << bits:
        mult >>= 1
        shift -= 1
    if shift < 1:
        raise MultiplierError(f"multiplier {real:.3g} is too large for {bits} bits and a shift of at least 1")
    return (mult if real > 0 else -mult), shift


def requantize(acc: Int64Array, mult: Int64Array | int, shift: Int64Array | int, lo: int, hi: int) -> Int64Array:
    """``clamp((acc * mult + 2**(shift-1)) >> shift, lo, hi)``, elementwise with broadcasting, in int64."""
    shift = np.asarray(shift, np.int64)
    product = acc * np.asarray(mult, np.int64)
    result: Int64Array = np.clip((product + (np.int64(1) << (shift - 1))) >> shift, lo, hi)
    return result


def quantize_multipliers(
    real: npt.NDArray[np.float64], bits: int = MULTIPLIER_BITS, max_shift: int = MAX_SHIFT
) -> tuple[Int64Array, Int64Array]:
    """`quantize_multiplier` for an array, element by element; `max_shift` costs tiny ones their bits.

    Raises:
        MultiplierError: as there.
    """
    exponent = np.frexp(np.abs(real))[1].astype(np.int64)
    shift = np.where(real == 0, 1, np.minimum(bits - exponent, max_shift))
    mult = round_half_up(np.ldexp(np.abs(real), shift.astype(np.int32)))
    over = mult == 1 << bits
    mult, shift = np.where(over, mult >> 1, mult), shift - over
    if not np.isfinite(real).all() or (shift < 1).any():
        largest = float(np.abs(real).max())
        raise MultiplierError(f"multiplier {largest:.3g} is too large for {bits} bits and a shift of at least 1")
    return np.where(real < 0, -mult, mult), shift
