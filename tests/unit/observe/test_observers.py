"""Observers against plain numpy, and what must hold for each of them."""

from __future__ import annotations

import json
import pickle
import re
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bpuc.base.errors import BpucError, ConfigError, DataError
from bpuc.observe import make_observer, observer_names, registry, weight_thresholds

SETTABLE = {"fixed": {"scale": 0.25}, "clip": {"range": 0.25}}
ALL = ["clip", "clip_std", "default", "fixed", "kl", "lsq", "min_max", "mix", "mse", "percentile"]
FROM_DATA = [n for n in ALL if n not in SETTABLE]


def fresh(name):
    return make_observer(name, SETTABLE.get(name, {}))


def fed(name, *parts, **options):
    observer = make_observer(name, options or SETTABLE.get(name, {}))
    for part in parts:
        observer.update(part)
    return observer


@pytest.fixture
def growing():
    """Samples whose ranges grow by a thousand."""
    rng = np.random.default_rng(61)
    return [rng.normal(0, s, (1, 2, 32, 32)).astype(np.float32) for s in (0.003, 0.03, 0.3, 1, 3, 3)]


def test_names():
    assert observer_names() == ALL


def test_min_max_is_the_largest_magnitude(growing):
    observer = fed("min_max", *growing)
    x = np.stack(growing)
    assert observer.range() == (x.min(), x.max())
    assert observer.threshold() == np.abs(x).max()


def test_min_max_moving_average():
    observer = fed("min_max", np.array([-1.0, 4.0]), np.array([-3.0, 2.0]), averaging_constant="0.25")
    assert observer.range() == (-1.5, 3.5)


@pytest.mark.parametrize("percentile", [50, 99, 99.9])
@pytest.mark.parametrize("bins", [512, 2048, 8192])
def test_percentile_is_that_of_numpy_within_a_bin(growing, percentile, bins):
    got = fed("percentile", *growing, percentile=percentile, bins=bins).threshold()
    ordered = np.sort(np.abs(np.stack(growing)).ravel().astype(np.float64))
    rank = percentile / 100 * ordered.size
    low, high = ordered[int(np.floor(rank)) - 1], ordered[min(int(np.ceil(rank)), ordered.size - 1)]
    slack = 4 / bins  # a bin's width over its lower edge is at most 2 / bins
    assert low * (1 - slack) <= got <= high * (1 + slack)


def test_percentile_counts_both_signs_and_100_is_the_maximum():
    rng = np.random.default_rng(59)
    v = rng.uniform(-4, 0.5, 10000).astype(np.float32)
    v[rng.choice(10000, 20, replace=False)] = -100
    assert 3.85 <= fed("percentile", v, percentile=99.5).threshold() <= 4.2
    assert 90 <= fed("percentile", v, percentile=99.9).threshold() <= 100.5
    assert fed("percentile", v, percentile=100).threshold() == 100


def test_percentile_of_a_single_far_outlier_stays_with_the_many():
    x = np.random.default_rng(0).normal(0, 1, 100_000).astype(np.float32)
    x[0] = 3e4
    exact = np.percentile(np.abs(x), 99.9)
    assert fed("percentile", x, percentile=99.9).threshold() == pytest.approx(exact, rel=0.01)


def test_percentile_of_a_tensor_of_nearly_all_zeros_keeps_the_rest():
    x = np.zeros(1_000_000, np.float32)
    x[:50] = np.linspace(1, 2, 50)
    assert 1.9 <= fed("percentile", x, percentile=99.99).threshold() <= 2


def squared_error(x, threshold, qmax):
    scale = threshold / qmax
    q = np.clip(np.floor(x.astype(np.float64) / scale + 0.5), -qmax - 1, qmax)
    return float(np.mean((q * scale - x) ** 2))


@pytest.mark.parametrize("qmax", [127, 32767])
@pytest.mark.parametrize("power", [1, 3, 5])
def test_mse_is_near_the_best_hundredth(power, qmax):
    x = (np.random.default_rng(power).normal(0, 1, 40_000) ** power).astype(np.float32)
    peak = float(np.abs(x).max())
    best = min(squared_error(x, peak * i / 100, qmax) for i in range(1, 101))
    assert squared_error(x, fed("mse", x).threshold(qmax), qmax) <= best * 1.03


def test_kl_cuts_a_thin_tail_and_keeps_a_uniform_range():
    rng = np.random.default_rng(3)
    bell = rng.normal(0, 1, 100_000).astype(np.float32)
    bell[:3] = 40
    assert 3 <= fed("kl", bell).threshold() <= 8
    flat = rng.uniform(-1, 1, 100_000).astype(np.float32)
    assert fed("kl", flat).threshold() >= 0.95
    assert fed("kl", bell).threshold(32767) == 40


def test_kl_does_not_mind_zeros():
    rng = np.random.default_rng(4)
    x = rng.normal(0, 1, 50_000).astype(np.float32)
    relu = np.concatenate([np.abs(x), np.zeros(500_000, np.float32)])
    assert fed("kl", relu).threshold() == pytest.approx(fed("kl", np.abs(x)).threshold(), rel=0.25)


@pytest.mark.parametrize("power", [1, 5])
def test_mix_is_no_worse_than_what_it_chooses_from(power):
    x = (np.random.default_rng(power).normal(0, 1, 40_000) ** power).astype(np.float32)
    others = [fed("kl", x), *(fed("percentile", x, percentile=p) for p in (99.9, 99.99, 100))]
    best = min(squared_error(x, o.threshold(), 127) for o in others)
    assert squared_error(x, fed("mix", x).threshold(), 127) <= best * 1.03


def test_fixed_takes_a_scale_or_a_threshold():
    x = np.array([-5.0, 3.0], np.float32)
    assert fed("fixed", x, scale="0.5").threshold() == 63.5
    assert fed("fixed", x, scale=0.5).threshold(32767) == 16383.5
    assert fed("fixed", x, threshold=2).threshold() == 2
    assert fed("fixed", x, threshold=2).range() == (-5, 3)


finite = arrays(np.float32, st.integers(0, 40), elements=st.floats(width=32, allow_nan=False, allow_infinity=False))


WITH_OPTIONS = [(n, {}) for n in ALL]
WITH_OPTIONS += [("kl", {"bins": 512, "max_bins": 4096}), ("percentile", {"sampling": 3}), ("mse", {"finer": 9})]


@pytest.mark.parametrize(("name", "options"), WITH_OPTIONS)
@given(parts=st.lists(finite, max_size=4), data=st.data())
@settings(max_examples=40, deadline=None)
def test_neither_order_nor_grouping_matters(name, options, parts, data):
    straight = fed(name, *parts, **options)
    shuffled = data.draw(st.permutations(parts))
    cut = data.draw(st.integers(0, len(parts)))
    merged, other = fed(name, *shuffled[:cut], **options), fed(name, *shuffled[cut:], **options)
    merged.merge(pickle.loads(pickle.dumps(other)))
    assert merged.state() == straight.state()
    assert merged.threshold() == straight.threshold()


@given(parts=st.lists(finite, max_size=5), cut=st.integers(0, 5), c=st.sampled_from([0.01, 0.5, 1.0]))
@settings(max_examples=40, deadline=None)
def test_a_moving_average_joins_in_order(parts, cut, c):
    straight = fed("min_max", *parts, averaging_constant=c)
    merged = fed("min_max", *parts[:cut], averaging_constant=c)
    merged.merge(fed("min_max", *parts[cut:], averaging_constant=c))
    assert merged.state() == straight.state()
    assert merged.range() == straight.range()


@pytest.mark.parametrize("name", ALL)
@given(parts=st.lists(finite, max_size=3), qmax=st.sampled_from([127, 32767]))
@settings(max_examples=40, deadline=None)
def test_threshold_is_always_finite_and_positive_and_state_round_trips(name, parts, qmax):
    observer = fed(name, *parts)
    assert 0 < observer.threshold(qmax) < float("inf")
    again = type(observer).from_state(json.loads(json.dumps(observer.state(), allow_nan=False)))
    assert again.state() == observer.state()
    assert again.threshold(qmax) == observer.threshold(qmax)


@pytest.mark.parametrize("name", FROM_DATA)
@given(x=arrays(np.float32, st.integers(1, 60), elements=st.floats(-1e6, 1e6, width=32)))
@settings(max_examples=30, deadline=None)
def test_threshold_does_not_exceed_the_data(name, x):
    peak = float(np.abs(x).max())
    observer = fed(name, x)
    assert observer.range() == (x.min(), x.max())
    if peak > 1e-20:
        assert observer.threshold() <= peak * (1 + 1e-12)


@pytest.mark.parametrize("name", FROM_DATA)
@pytest.mark.parametrize("parts", [[], [np.zeros((0, 3))], [np.zeros((2, 3))]])
def test_nothing_but_zeros_gives_one(name, parts):
    assert fed(name, *parts).threshold() == 1
    assert fed(name, *parts).range() == (0, 0)


@pytest.mark.parametrize("name", FROM_DATA)
def test_a_constant_is_kept(name):
    assert fed(name, np.full((3, 4), -2.5)).threshold() == pytest.approx(2.5, rel=0.02)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.uint8, np.int32])
def test_other_types_and_strides_are_read(dtype):
    x = np.arange(24).reshape(4, 6).astype(dtype).T[::2]
    assert fed("min_max", x).range() == (0, 22)
    assert fed("percentile", x, percentile=100).threshold() == 22


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39])
def test_values_that_are_not_finite_are_refused(name, bad):
    with pytest.raises(DataError, match="NaN or infinite"):
        fresh(name).update(np.array([0.0, bad, 1.0]))


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("entropy2", {}, ["entropy2", *ALL]),
        ("percentil", {}, ["did you mean 'percentile'"]),
        ("percentile", {"percentile": "150"}, ["percentile", "150", "100"]),
        ("percentile", {"percentile": -1}, ["percentile", "-1"]),
        ("percentile", {"percentile": 0}, ["percentile"]),
        ("percentile", {"percentile": "nan"}, ["percentile"]),
        ("percentile", {"percentile": "much"}, ["percentile", "'much'", "a number"]),
        ("percentile", {"bin": 2048}, ["'bin'", "did you mean 'bins'"]),
        ("percentile", {"bins": 1000}, ["bins", "1000", "power of two"]),
        ("percentile", {"bins": "2048.5"}, ["bins", "whole"]),
        ("kl", {"bins": 256}, ["bins", "512"]),
        ("mse", {"stride": 0}, ["stride"]),
        ("min_max", {"averaging_constant": 2}, ["averaging_constant"]),
        ("min_max", {"percentile": 99}, ["min_max", "percentile", "averaging_constant"]),
        ("mix", {"bins": 512}, ["mix", "no option 'bins'", "sampling"]),
        ("fixed", {}, ["scale"]),
        ("fixed", {"scale": 1, "threshold": 1}, ["one of the two"]),
        ("fixed", {"scale": 0}, ["scale"]),
        ("fixed", {"threshold": "inf"}, ["threshold"]),
    ],
)
def test_refusals(name, options, words):
    with pytest.raises(ConfigError) as e:
        make_observer(name, options)
    assert [w for w in words if w not in str(e.value)] == []


def test_weights_one_threshold_a_channel():
    w = np.random.default_rng(1).normal(size=(4, 3, 2, 2)).astype(np.float32)
    w[2] = 0
    got = weight_thresholds(w, 0)
    assert got.dtype == np.float64
    assert got.tolist() == [np.abs(w[0]).max(), np.abs(w[1]).max(), 1, np.abs(w[3]).max()]
    assert weight_thresholds(w, -3).tolist() == [np.abs(w[:, i]).max() for i in range(3)]
    assert weight_thresholds(np.zeros((2, 0)), 0).tolist() == [1, 1]
    w[3, 0, 0, 0] = np.inf
    with pytest.raises(BpucError, match="channel 3"):
        weight_thresholds(w, 0)


def test_the_example_of_the_guide_is_found_in_a_package(tmp_path, monkeypatch):
    guide = Path(__file__).parents[3] / "docs" / "adding-an-observer.md"
    code = re.findall(r"```python\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)[0]
    package = tmp_path / "guide_observers"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "rms.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = metadata.EntryPoint("guide", "guide_observers", "bpuc.observers")
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
    registry._observers.cache_clear()
    try:
        assert observer_names() == sorted([*ALL, "rms"])
        x = np.random.default_rng(0).normal(0, 2, 100_000).astype(np.float32)
        assert fed("rms", x, multiple=3).threshold() == pytest.approx(
            3 * float(np.sqrt(np.mean(x.astype(np.float64) ** 2))), rel=0.01
        )
    finally:
        registry._observers.cache_clear()
