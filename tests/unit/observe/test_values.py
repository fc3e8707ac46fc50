"""Each observer's threshold against one computed from the values themselves, on the shapes that activations have."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bpuc.base.errors import ConfigError
from bpuc.observe import make_observer
from bpuc.observe.histogram import LINE, Histogram, thinned

RNG = np.random.default_rng(2024)
N = 40_000


def clusters() -> np.ndarray:
    """LayerNorm-like: most near 0, some channels far out on both sides."""
    parts = [RNG.normal(m, 0.15, s) for m, s in ((0, N - 3000), (4.5, 1500), (-6, 1000), (9, 500))]
    return np.concatenate(parts)


SHAPES = {
    "uniform": RNG.uniform(-2, 3, N),
    "normal": RNG.normal(0.5, 1.5, N),
    "long tail": RNG.standard_t(2, N),
    "bimodal": np.concatenate([RNG.normal(-8, 0.3, N // 2), RNG.normal(8, 0.3, N // 2)]),
    "clusters": clusters(),
    "relu": np.maximum(RNG.normal(0, 2, N), 0),
}
VALUES = {name: x.astype(np.float32) for name, x in SHAPES.items()}
each_shape = pytest.mark.parametrize("shape", VALUES)


def threshold(name: str, x: np.ndarray, qmax: int = 127, **options: float) -> float:
    observer = make_observer(name, options)
    for part in np.array_split(x, 7):
        observer.update(part)
    return observer.threshold(qmax)


def error(x: np.ndarray, t: float, qmax: int = 127) -> float:
    s = t / qmax
    return float(np.mean((np.clip(np.floor(x.astype(np.float64) / s + 0.5), -qmax - 1, qmax) * s - x) ** 2))


@each_shape
def test_min_max(shape: str) -> None:
    assert threshold("min_max", VALUES[shape]) == np.abs(VALUES[shape]).max()


@each_shape
@pytest.mark.parametrize("c", [0.01, 0.5])
def test_moving_average(shape: str, c: float) -> None:
    parts = np.array_split(VALUES[shape].astype(np.float64), 7)
    low, high = parts[0].min(), parts[0].max()
    for p in parts[1:]:
        low, high = low + c * (p.min() - low), high + c * (p.max() - high)
    assert threshold("min_max", VALUES[shape], averaging_constant=c) == pytest.approx(max(-low, high), rel=1e-12)


@each_shape
@pytest.mark.parametrize(("percentile", "bins"), [(99.99, 2048), (99.9, 8192), (99, 512), (90, 2048)])
def test_percentile(shape: str, percentile: float, bins: int) -> None:
    ordered = np.sort(np.abs(VALUES[shape]).astype(np.float64))
    rank = percentile / 100 * N
    low, high = ordered[int(rank) - 1], ordered[min(int(np.ceil(rank)), N - 1)]
    got = threshold("percentile", VALUES[shape], percentile=percentile, bins=bins)
    assert low * (1 - 4 / bins) <= got <= high * (1 + 4 / bins)


@each_shape
@pytest.mark.parametrize("stride", [1, 5])
def test_mse(shape: str, stride: int) -> None:
    x = VALUES[shape]
    peak = float(np.abs(x).max())
    candidates = [peak * i / 100 for i in range(100, 0, -stride)]
    got = threshold("mse", x, stride=stride)
    assert min(abs(got - c) for c in candidates) < 1e-9 * peak
    assert error(x, got) <= min(error(x, c) for c in candidates) * 1.03


@each_shape
def test_mse_finer(shape: str) -> None:
    x = VALUES[shape]
    coarse, fine = threshold("mse", x), threshold("mse", x, finer=50)
    assert abs(fine - coarse) < 0.0101 * float(np.abs(x).max())
    assert error(x, fine) <= error(x, coarse) * 1.01
    around = np.linspace(coarse * 0.99, min(coarse * 1.01, float(np.abs(x).max())), 50)
    assert error(x, fine) <= min(error(x, t) for t in around) * 1.03


def kl_by_the_book(x: np.ndarray, bins: int, levels: int = 128) -> tuple[np.ndarray, np.ndarray]:
    """Thresholds and divergences with loops, from values: numpy's histogram, P with the tail, Q spread over groups."""
    top = 2.0 ** np.ceil(np.log2(np.abs(x).max()))
    counts = np.histogram(np.abs(x), bins=bins, range=(0, top))[0].astype(float)
    counts = counts[: np.flatnonzero(counts)[-1] + 1]
    counts[0] = min(counts[0], counts[1])
    sizes = np.unique(np.linspace(levels, len(counts), 128).round().astype(int))
    found = []
    for size in sizes:
        p = counts[:size].copy()
        p[-1] += counts[size:].sum()
        q = np.zeros(size)
        for level in range(levels):
            inside = [i for i in range(size) if i * levels // size == level]
            used = [i for i in inside if counts[i] > 0]
            for i in used:
                q[i] = counts[inside].sum() / len(used)
        p, q = p / p.sum(), q / q.sum()
        found.append(sum(a * np.log(a / max(b, 1e-9)) for a, b in zip(p, q) if a > 0))
    return sizes * top / bins, np.array(found)


@pytest.mark.parametrize("shape", ["normal", "long tail", "clusters", "relu"])
@pytest.mark.parametrize("bins", [512, 1024])
def test_kl(shape: str, bins: int) -> None:
    thresholds, divergences = kl_by_the_book(VALUES[shape], bins)
    best = float(thresholds[len(divergences) - 1 - int(np.argmin(divergences[::-1]))])
    peak = float(np.abs(VALUES[shape]).max())
    assert threshold("kl", VALUES[shape], bins=bins) == pytest.approx(min(best, peak), rel=1e-9)


def test_kl_grows_as_fine_as_the_smallest_sample_needs() -> None:
    small, large = RNG.normal(0, 1, N).astype(np.float32), RNG.normal(0, 6, N).astype(np.float32)
    observer = make_observer("kl", {"bins": 1024, "max_bins": 16384})
    observer.update(small)
    observer.update(large)
    ratio = np.abs(large).max() / np.abs(small).max()
    assert 4 < ratio < 8
    want = make_observer("kl", {"bins": 8192})
    want.update(np.concatenate([small, large]))
    assert observer.threshold() == want.threshold()
    other = make_observer("kl", {"bins": 1024, "max_bins": 16384})
    other.update(large)
    other.update(small)
    assert other.state() == observer.state()


def test_kl_takes_full_intervals_alone() -> None:
    parts = [RNG.normal(0, s, N).astype(np.float32) for s in (1, 2, 1, 9)]
    observer = make_observer("kl", {"update_interval": 3})
    for part in parts:
        observer.update(part)
    assert observer.threshold() == threshold("kl", np.concatenate(parts[:3]))
    assert observer.range() == (min(p.min() for p in parts), max(p.max() for p in parts))
    again = type(observer).from_state(json.loads(json.dumps(observer.state())))
    assert again.threshold() == observer.threshold()
    too_few = make_observer("kl", {"update_interval": 5})
    too_few.update(parts[0])
    with pytest.raises(ConfigError, match="update_interval is 5, but there were only 1 samples"):
        too_few.threshold()
    with pytest.raises(ConfigError, match="order"):
        observer.merge(too_few)


@each_shape
def test_mix(shape: str) -> None:
    x = VALUES[shape]
    others = [threshold("percentile", x, percentile=p) for p in (100, 99.9995, 99.999, 99.995, 99.99, 99.95, 99.9)]
    others.append(threshold("kl", x))
    got = threshold("mix", x)
    assert min(abs(got - t) for t in others) < 1e-9
    assert error(x, got) <= min(error(x, t) for t in others) * 1.03


@each_shape
@pytest.mark.parametrize("qmax", [127, 32767])
def test_lsq_is_a_fixed_point_and_no_worse_than_mse(shape: str, qmax: int) -> None:
    x = VALUES[shape].astype(np.float64)
    got = threshold("lsq", VALUES[shape], qmax)
    assert error(x, got, qmax) <= error(x, threshold("mse", VALUES[shape], qmax), qmax) * 1.02
    if qmax == 127 and got < np.abs(x).max() * 0.999:
        q = np.clip(np.floor(np.abs(x) / (got / qmax) + 0.5), 0, qmax)
        assert float(np.sum(np.abs(x) * q) / np.sum(q * q)) * qmax == pytest.approx(got, rel=0.01)


@each_shape
@pytest.mark.parametrize("multiple", [1, 3, 100])
def test_clip_std(shape: str, multiple: float) -> None:
    x = VALUES[shape].astype(np.float64)
    want = min(abs(x.mean()) + multiple * x.std(), np.abs(x).max())
    assert threshold("clip_std", VALUES[shape], multiple=multiple) == pytest.approx(want, rel=2e-3)


@each_shape
def test_clip(shape: str) -> None:
    peak = float(np.abs(VALUES[shape]).max())
    assert threshold("clip", VALUES[shape], range=peak / 2) == peak / 2
    assert threshold("clip", VALUES[shape], range=peak * 2) == peak


@each_shape
def test_default_alone_is_the_best_of_its_three(shape: str) -> None:
    x = VALUES[shape]
    three = [float(np.abs(x).max()), threshold("percentile", x, percentile=99.995), threshold("kl", x)]
    got = threshold("default", x)
    assert min(abs(got - t) for t in three) < 1e-9
    assert error(x, got) <= min(error(x, t) for t in three) * 1.03


# where single values decide, as in a long tail, a sample cannot know them
@pytest.mark.parametrize("shape", [s for s in VALUES if s != "long tail"])
@pytest.mark.parametrize("name", ["percentile", "mse", "mix", "lsq"])
def test_sampling_changes_little_and_keeps_the_extremes(shape: str, name: str) -> None:
    x = VALUES[shape]
    observer = make_observer(name, {"sampling": 4})
    observer.update(x)
    assert observer.range() == (x.min(), x.max())
    assert error(x, observer.threshold()) <= error(x, threshold(name, x)) * 1.5


@pytest.mark.parametrize("every", [2, 3, 4, 8])
@pytest.mark.parametrize("size", [1, 5, 1000, 16 * 64 * 3 + 7])
def test_thinning_takes_its_share_from_everywhere(every: int, size: int) -> None:
    flat = np.arange(size, dtype=np.float32)
    kept = thinned(flat, every)
    assert len(set(kept.tolist())) == kept.size
    assert size / every <= kept.size <= size / every + 1
    period = every * every * LINE
    if size >= 2 * period:
        # within a block, every lane of lines is met once
        lanes = {int(v) // LINE % every for v in kept[: period // every]}
        assert lanes == set(range(every))


def test_the_histogram_is_that_of_numpy_bin_by_bin() -> None:
    x = VALUES["long tail"]
    h = Histogram(1024)
    h.update(x)
    want, _ = np.histogram(np.abs(x).astype(np.float64), bins=h.edges())
    assert (h.counts[1:] == want[1:]).all()
    assert h.counts[0] == np.count_nonzero(np.abs(x) < h.edges()[1])
    counts, width = h.linear(256)
    assert (counts == np.histogram(np.abs(x), bins=256, range=(0, 256 * width))[0]).all()


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("percentile", {"sampling": 0}, "sampling"),
        ("mse", {"sampling": 65}, "sampling"),
        ("mse", {"finer": -1}, "finer"),
        ("kl", {"bins": 2048, "max_bins": 1024}, "max_bins"),
        ("kl", {"max_bins": 3000}, "max_bins is 3000"),
        ("kl", {"update_interval": -1}, "update_interval"),
        ("lsq", {"steps": 0}, "steps"),
        ("clip", {}, "needs its option range"),
        ("clip", {"range": 0}, "range"),
        ("clip_std", {"multiple": 0}, "multiple"),
    ],
)
def test_refused(name: str, options: dict[str, float], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make_observer(name, options)
