"""The histogram's counts against numpy's own binning by its edges."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from bpuc.observe.histogram import CHUNK, LANES, Histogram


def _counted(histogram: Histogram, values: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """How many magnitudes lie in [edge, next edge) of each bin."""
    return np.histogram(np.abs(values).astype(np.float64), histogram.edges())[0]


@pytest.mark.parametrize("size", [1, LANES + 1, CHUNK - 1, 2 * CHUNK + 3])
@pytest.mark.parametrize("zeros", [0.0, 0.5, 1.0])
def test_every_value_is_in_its_bin(size: int, zeros: float) -> None:
    rng = np.random.default_rng(size)
    # from far below the lowest bin that is kept up to the largest
    values = (rng.normal(size=size) * 2.0 ** rng.integers(-24, 3, size)).astype(np.float32)
    values[rng.random(size) < zeros] = 0
    histogram = Histogram(256)
    histogram.update(values)
    assert (histogram.counts == _counted(histogram, values)).all()
    assert histogram.total == size


def test_the_bins_next_to_the_rest_are_their_own() -> None:
    """The rest bin has several cells while values are counted; neighbours in the keys must not fall into them."""
    top = Histogram(256)
    top.update(np.array([1.0], np.float32))
    edges = top.edges()[:12].astype(np.float32)
    near = np.concatenate([np.nextafter(edges, np.float32(0)), edges, np.nextafter(edges, np.float32(9))])
    values = np.concatenate([np.repeat(near, 5), np.ones(1, np.float32)]).astype(np.float32)
    histogram = Histogram(256)
    histogram.update(values)
    assert (histogram.counts == _counted(histogram, values)).all()


def test_known_ends_change_nothing() -> None:
    values = np.random.default_rng(3).normal(size=5000).astype(np.float32)
    told, found = Histogram(512), Histogram(512)
    told.update(values, (float(values.min()), float(values.max())))
    found.update(values)
    assert told.state() == found.state()
