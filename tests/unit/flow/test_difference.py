"""Differences of a tensor summed over samples, against numpy on all of them at once."""

from __future__ import annotations

import numpy as np
import pytest

from bpuc.base.dtypes import DType
from bpuc.flow.difference import Difference
from bpuc.isa import Ref, Space
from bpuc.program import TensorSymbol

RNG = np.random.default_rng(5)
WANT = RNG.normal(0.5, 2, (6, 1, 3, 8, 8)).astype(np.float32)
GOT = (WANT + RNG.normal(0, 0.1, WANT.shape)).astype(np.float32)


def symbol(scale: tuple[float, ...], axis: int | None = None) -> TensorSymbol:
    return TensorSymbol("t", Ref(Space.ARENA, DType.INT8, 0, (1, 3, 8, 8), (192, 64, 8, 1)), 0, scale, axis)


def seen(want: np.ndarray = WANT, got: np.ndarray = GOT, stored: TensorSymbol | None = None) -> Difference:
    d = Difference(1, stored)
    for a, b in zip(want, got):
        d.update(a, b)
    return d


def test_metrics_are_those_of_all_samples_together():
    a, b = WANT.astype(np.float64).ravel(), GOT.astype(np.float64).ravel()
    e = b - a
    want = {
        "cosine": a @ b / np.linalg.norm(a) / np.linalg.norm(b),
        "sqnr": 10 * np.log10((a**2).sum() / (e**2).sum()),
        "mse": (e**2).mean(),
        "l1": np.abs(e).mean(),
        "l2": np.sqrt((e**2).mean()),
        "max_abs": np.abs(e).max(),
        "relative": np.linalg.norm(e) / np.linalg.norm(a),
    }
    assert seen().metrics() == pytest.approx(want, rel=1e-6)


def test_moments_of_both_sides():
    found = seen().moments()
    for key, x in (("float", WANT), ("integer", GOT)):
        x = x.astype(np.float64)
        assert found[key] == pytest.approx({"min": x.min(), "max": x.max(), "mean": x.mean(), "var": x.var()}, rel=1e-6)


@pytest.mark.parametrize(("scale", "axis"), [((0.02,), None), ((0.01, 0.02, 0.05), 1)])
def test_what_the_own_scale_costs(scale, axis):
    d = seen(stored=symbol(scale, axis))
    s = np.asarray(scale, np.float64).reshape(-1, 1, 1)
    a = WANT.astype(np.float64)
    steps = np.floor(a / s + 0.5)
    lost = np.square(np.clip(steps, -128, 127) * s - a)
    assert d.own_sqnr == pytest.approx(10 * np.log10((a**2).sum() / lost.sum()), rel=1e-9)
    assert d.clipped_share == pytest.approx(((steps < -128) | (steps > 127)).mean())
    assert d.clips  # reaches 2.54 of values up to 8


def test_without_clipping_the_steps_count():
    d = seen(stored=symbol((0.5,)))
    assert not d.clips
    assert d.steps == pytest.approx(np.sqrt(np.square(WANT.astype(np.float64)).mean()) / 0.5)


def test_channels_come_worst_first():
    worse = GOT.copy()
    worse[:, :, 2] += 0.5
    rows = seen(got=worse).channels()
    a, e = WANT.astype(np.float64), worse.astype(np.float64) - WANT
    sqnr = 10 * np.log10((a**2).sum((0, 1, 3, 4)) / (e**2).sum((0, 1, 3, 4)))
    assert [r["channel"] for r in rows] == np.argsort(sqnr).tolist()
    assert rows[0]["channel"] == 2
    assert [r["sqnr"] for r in rows] == pytest.approx(np.sort(sqnr), rel=1e-6)
    assert rows[0]["max_abs"] == pytest.approx(np.abs(e[:, :, 2]).max(), rel=1e-6)
    assert rows[0]["reach"] == pytest.approx(np.abs(a[:, :, 2]).max(), rel=1e-6)


def test_infinite_values_count_apart():
    odd = WANT.copy()
    odd[0, 0, 0, 0, :2] = -np.inf, np.nan
    d = seen(want=odd)
    assert (d.not_finite, d.count) == (2, WANT.size - 2)
    rest = np.isfinite(odd)
    assert d.metrics()["mse"] == pytest.approx(np.square(GOT[rest].astype(np.float64) - WANT[rest]).mean(), rel=1e-6)


@pytest.mark.parametrize(("want", "got", "sqnr", "cosine", "relative"), [(0, 0, 120, 1, 0), (0, 1, -120, 0, 1e6)])
def test_zeros(want, got, sqnr, cosine, relative):
    d = Difference()
    d.update(np.full(4, want, np.float32), np.full(4, got, np.float32))
    m = d.metrics()
    assert (m["sqnr"], m["cosine"], m["relative"]) == (sqnr, cosine, relative)
    assert d.own_sqnr is None
