"""The profile of a tensor's values against numpy on all of them at once."""

from __future__ import annotations

import numpy as np
import pytest

from bpuc.observe.profile import PERCENTILES, Profile


def arrays(seed: int = 0) -> list[np.ndarray]:
    """Five of one shape with different means and spreads, some clamped at 0."""
    rng = np.random.default_rng(seed)
    first = [rng.normal(3 * i - 4, 1 + i, (1, 4, 30, 30)) for i in range(3)]
    return [a.astype(np.float32) for a in [*first, *(np.maximum(a - 2, 0) for a in first[:2])]]


def profile(seen: list[np.ndarray], axis: int | None = 1) -> Profile:
    p = Profile(axis)
    for a in seen:
        p.update(a)
    return p


def test_moments_are_those_of_all_values():
    seen = arrays()
    p, whole = profile(seen), np.concatenate([a.ravel() for a in seen]).astype(np.float64)
    d = whole - whole.mean()
    assert p.count == whole.size
    assert (p.low, p.high) == (whole.min(), whole.max())
    assert p.mean == pytest.approx(whole.mean(), rel=1e-12)
    assert p.std == pytest.approx(whole.std(), rel=1e-12)
    assert p.skewness == pytest.approx((d**3).mean() / whole.std() ** 3, rel=1e-9)
    assert p.kurtosis == pytest.approx((d**4).mean() / whole.var() ** 2, rel=1e-9)
    assert p.zeros == (whole == 0).sum() > 1000


def test_a_large_mean_costs_no_digits():
    seen = [a + np.float32(1e5) for a in arrays()]
    whole = np.concatenate([a.ravel() for a in seen]).astype(np.float64)
    assert profile(seen).std == pytest.approx(whole.std(), rel=1e-9)


def test_percentiles_to_the_fineness_of_a_bin():
    seen = arrays()
    whole = np.sort(np.concatenate([a.ravel() for a in seen]).astype(np.float64))
    for key, value in profile(seen).percentiles().items():
        at = float(key) / 100 * whole.size
        near = whole[[max(int(at) - 2, 0), min(int(at) + 2, whole.size - 1)]]
        fine = abs(value) / 256 + 1e-9
        assert near[0] - fine <= value <= near[1] + fine, key
    assert list(profile(seen).percentiles()) == [f"{p:g}" for p in PERCENTILES]


def test_the_histogram_counts_all_values():
    seen = arrays()
    whole = np.concatenate([a.ravel() for a in seen]).astype(np.float64)
    edges, counts = profile(seen).histogram(32)
    want, _ = np.histogram(whole, edges)
    assert sum(counts) == whole.size
    assert (edges[0], edges[-1]) == (whole.min(), whole.max())
    # a bin of the inner histogram that an edge cuts is shared out evenly
    assert np.abs(np.cumsum(counts) - np.cumsum(want)).max() < 0.004 * whole.size


def test_channels_have_their_ranges():
    seen = arrays()
    low, high = profile(seen).channels() or ([], [])
    joined = np.stack(seen)
    assert low == joined.min((0, 1, 3, 4)).tolist()
    assert high == joined.max((0, 1, 3, 4)).tolist()
    assert profile(seen, None).channels() is None


def test_what_is_not_finite_counts_apart():
    odd = np.array([[1.0, np.nan, -np.inf, 3.0]], np.float32)
    p = profile([odd])
    assert (p.count, p.not_finite, p.low, p.high, p.mean) == (2, 2, 1.0, 3.0, 2.0)
    assert p.channels() == ([1.0, 0.0, 0.0, 3.0], [1.0, 0.0, 0.0, 3.0])


@pytest.mark.parametrize("value", [0.0, -2.5, 7.0])
def test_values_that_are_all_alike(value):
    p = profile([np.full((1, 2, 3), value, np.float32)] * 2)
    assert (p.count, p.std, p.kurtosis, p.low, p.high) == (12, 0.0, 0.0, value, value)
    assert set(p.percentiles().values()) == {value}
    assert p.histogram() == ([value, value], [12])


def test_nothing_seen_is_no_fault():
    p = profile([np.empty((1, 2, 0), np.float32)])
    assert (p.count, p.low, p.high, p.std) == (0, 0.0, 0.0, 0.0)
    assert sum(p.histogram()[1]) == 0
