"""Certified float32 requantization against exhaustive integer arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from bpuc.base.certificate import Reach, certifiable, certified_scales
from bpuc.base.rounding import quantize_multipliers


def machine(acc: np.ndarray, mult: int, shift: int, lo: int, hi: int) -> np.ndarray:
    return np.clip((acc * int(mult) + (1 << (int(shift) - 1))) >> int(shift), lo, hi)


def within(*bound: int) -> Reach:
    high = np.array(bound)
    return Reach(-high, high)


def library(acc: np.ndarray, scale: np.float32, lo: int, hi: int) -> np.ndarray:
    return np.clip(np.rint(acc.astype(np.float32) * scale), lo, hi).astype(np.int64)


@pytest.mark.parametrize("lo", [-128, 0, 17])
@pytest.mark.parametrize("real", [0.3, 5e-3, 1e-3, 3e-4])
def test_what_is_certified_agrees_on_every_accumulator(real: float, lo: int) -> None:
    rng = np.random.default_rng(1)
    mult, shift = quantize_multipliers(real * 2 ** rng.uniform(-0.5, 0.5, 12))
    bound = within(*[1 << 18] * 12)
    scale, good = certified_scales(mult, shift, bound, lo, 127)
    assert good.any()
    acc = np.arange(-(1 << 18), (1 << 18) + 1)
    for m, s, f, g in zip(mult, shift, scale, good):
        agree = bool((machine(acc, m, s, lo, 127) == library(acc, f, lo, 127)).all())
        assert agree or not g


def test_some_multipliers_need_another_scale_or_none_serves() -> None:
    """The plain float32 value fails for some that the certificate still finds a scale for, and refuses the rest."""
    rng = np.random.default_rng(2)
    mult, shift = quantize_multipliers(2e-4 * 2 ** rng.uniform(-0.5, 0.5, 300))
    scale, good = certified_scales(mult, shift, within(*[1 << 22] * 300), -128, 127)
    plain = np.ldexp(mult.astype(np.float64), -shift).astype(np.float32)
    assert (good & (scale != plain)).any()
    assert not good.all()


def test_a_bound_spares_thresholds_that_cannot_be_reached() -> None:
    mult, shift = quantize_multipliers(np.full(1, 2.3e-5))
    near, far = (certified_scales(mult, shift, within(b), -128, 127)[1][0] for b in (1000, 1 << 23))
    assert near
    assert not far


def test_ties_of_a_power_of_two_are_rounded_up_and_so_not_certified() -> None:
    """0.5 steps up and -0.5 steps up to 0: no float32 scale with ties to even does both."""
    half = np.array([1 << 21]), np.array([22]), within(1000)
    assert not certified_scales(*half, -128, 127)[1][0]
    scale, good = certified_scales(*half, 0, 127)
    assert good[0]
    assert library(np.array([1, 3, 5]), scale[0], 0, 127).tolist() == [1, 2, 3]


@pytest.mark.parametrize(("mult", "shift"), [(-5, 4), (1 << 21, 63), (7, 0)])
def test_what_the_proof_does_not_cover_is_not_certified(mult: int, shift: int) -> None:
    assert not certified_scales(np.array([mult]), np.array([shift]), within(100), -128, 127)[1][0]


def test_channels_that_give_next_to_nothing() -> None:
    """Dead channels have no multiplier, or one so small that a bias near the end of int32 is what they amount to."""
    mult, shift = quantize_multipliers(np.array([0.0, 1e-13, 3e-8, 2e-7]))
    peak = (1 << 31) - 1
    scale, good = certified_scales(mult, shift, within(*[peak] * 4), -128, 127)
    assert good[:2].all()
    edge = np.linspace(-peak, peak, 1_000_003).astype(np.int64)
    for m, s, f in zip(mult[good], shift[good], scale[good]):
        np.testing.assert_array_equal(machine(edge, m, s, -128, 127), library(edge, f, -128, 127))


def test_only_what_lies_around_a_large_bias_matters() -> None:
    """Sums near -2**30 have no room in float32, yet all of them give the same."""
    mult, shift, bias = np.array([4081938]), np.array([45]), np.array([-(1 << 30)])
    sums = np.array([2560])
    scale, good = certified_scales(mult, shift, Reach.around(bias, sums), -128, 127)
    assert good[0]
    acc = np.arange(bias[0] - sums[0], bias[0] + sums[0] + 1)
    np.testing.assert_array_equal(machine(acc, 4081938, 45, -128, 127), library(acc, scale[0], -128, 127))
    assert not certified_scales(mult, shift, within(1 << 30), -128, 127)[1][0]


def test_an_accumulator_beyond_int32_is_not_certified() -> None:
    assert not certified_scales(np.array([3 << 20]), np.array([32]), within(1 << 31), -128, 127)[1][0]


def test_nearby_multipliers_are_certified_and_close() -> None:
    rng = np.random.default_rng(3)
    real = 3e-4 * 2 ** rng.uniform(-0.5, 0.5, 200)
    mult, shift = quantize_multipliers(real)
    bound = within(*[1 << 22] * 200)
    assert not certified_scales(mult, shift, bound, -128, 127)[1].all()
    moved = certifiable(mult, shift, real, bound, -128, 127)
    assert certified_scales(moved, shift, bound, -128, 127)[1].all()
    assert np.abs(moved - mult).max() <= 64
    assert (moved == mult).any()


def test_an_exact_multiplier_stays() -> None:
    real = np.array([0.5, 0.25, 0.0])
    mult, shift = quantize_multipliers(real)
    np.testing.assert_array_equal(certifiable(mult, shift, real, within(1000, 1000, 1000), -128, 127), mult)
