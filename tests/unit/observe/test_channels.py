"""Channel statistics against numpy, and their way through a calibration file."""

from __future__ import annotations

import numpy as np
import pytest

from bpuc.base.channels import ChannelStats
from bpuc.base.errors import ConfigError
from bpuc.observe.channels import ChannelObserver


def test_statistics_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 2, 3, 5)).astype(np.float32) * np.array([1, 10, 0], np.float32)[:, None]
    observer = ChannelObserver(1, 3)
    for sample in x:
        observer.update(sample.reshape(2, 3, 5))
    s = observer.stats()
    assert s.peak == pytest.approx(np.abs(x).max((0, 1, 3)), rel=1e-6)
    assert s.mean == pytest.approx(x.mean((0, 1, 3)), rel=1e-4, abs=1e-7)
    assert s.square == pytest.approx(np.square(x).mean((0, 1, 3)), rel=1e-5)


def test_merging_is_as_one_observer() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(6, 1, 4, 7)).astype(np.float32)
    one, a, b = (ChannelObserver(1, 4) for _ in range(3))
    for i, sample in enumerate(x):
        one.update(sample)
        (a if i < 2 else b).update(sample)
    a.merge(b)
    assert (a.stats().peak == one.stats().peak).all()
    assert a.stats().mean == pytest.approx(one.stats().mean, rel=1e-5, abs=1e-8)
    assert a.stats().square == pytest.approx(one.stats().square, rel=1e-5)


def test_text_keeps_what_stats_gave() -> None:
    observer = ChannelObserver(2, 3)
    observer.update(np.random.default_rng(2).normal(size=(2, 5, 3)))
    s = observer.stats()
    back = ChannelStats.from_text(s.to_text())
    assert back.axis == 2
    assert all((getattr(back, k) == getattr(s, k)).all() for k in ("peak", "mean", "square"))


@pytest.mark.parametrize(
    "entry",
    [
        {"axis": 1, "peak": "1 2", "mean": "1", "square": "1 2"},
        {"axis": 1, "peak": "1 x", "mean": "1 1", "square": "1 2"},
        {"axis": 1, "peak": "1 nan", "mean": "1 1", "square": "1 2"},
        {"peak": "1", "mean": "1", "square": "1"},
    ],
)
def test_damaged_statistics_are_refused(entry: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        ChannelStats.from_text(entry)


def test_values_whose_squares_leave_float32() -> None:
    x = np.array([[1e30, -3e38], [2.0, 4.0]], np.float32).reshape(1, 2, 2)
    observer = ChannelObserver(1, 2)
    observer.update(x)
    observer.close()
    stats = observer.stats()
    np.testing.assert_allclose(stats.square, [(1e60 + 9e76) / 2, 10.0], rtol=1e-5)
    np.testing.assert_allclose(stats.mean, [(1e30 - 3e38) / 2, 3.0], rtol=1e-5)
    assert ChannelStats.from_text(stats.to_text()).square[0] == stats.square[0]


@pytest.mark.parametrize(("shape", "axis"), [((1, 5, 3, 4), 1), ((3, 5, 7), 1), ((2, 3, 5), 2), ((5,), 0), ((5, 1), 0)])
def test_extremes_are_those_of_each_channel(shape: tuple[int, ...], axis: int) -> None:
    x = np.random.default_rng(4).normal(size=shape).astype(np.float32)
    low, high = ChannelObserver(axis, 5).extremes(x)
    others = tuple(i for i in range(len(shape)) if i != axis)
    assert (low == x.min(others)).all()
    assert (high == x.max(others)).all()
    x.reshape(-1)[-1] = np.nan  # of the last channel
    low, high = ChannelObserver(axis, 5).extremes(x)
    assert np.isnan([low[-1], high[-1]]).all()
    assert np.isfinite([low[:-1], high[:-1]]).all()
