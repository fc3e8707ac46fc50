"""Counts beyond a magnitude against counting, on distributions of several kinds."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bpuc.base.errors import ConfigError
from bpuc.base.tail import Tail
from bpuc.observe.histogram import Histogram

RNG = np.random.default_rng(0)
VALUES = {
    "uniform": RNG.uniform(-1, 1, 20000),
    "normal": RNG.normal(size=20000),
    "long tail": RNG.standard_cauchy(20000),
    "two modes": np.concatenate([RNG.normal(0, 0.01, 9000), RNG.normal(40, 1, 9000)]),
    "zeros and one": np.concatenate([np.zeros(999), [3.0]]),
    "constant": np.full(500, -2.5),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("bins", [512, 2048])
def test_counts_enclose_the_truth(name: str, bins: int) -> None:
    values = VALUES[name].astype(np.float32)
    histogram = Histogram(bins)
    for part in np.array_split(values, 7):
        histogram.update(part)
    tail = Tail.from_text(json.loads(json.dumps(histogram.tail().to_text())))
    size = np.abs(values)
    for threshold in [0.3 * size.max(), *np.quantile(size, [0.5, 0.9, 0.99, 0.9999, 1]), 2 * size.max()]:
        true = int((size > threshold * (1 + 1e-6)).sum())
        least, most = tail.beyond(float(threshold))
        assert least <= true <= most
        # a bin at most, or a twentieth of what lies beyond
        close = int(((size >= threshold * (1 - 4 / bins)) & (size <= threshold * (1 + 4 / bins))).sum())
        near = histogram.tail(float(threshold)).beyond(float(threshold))
        assert near[0] <= true <= near[1] <= near[0] + close
        assert most - least <= close + 0.05 * most + 2 or name == "zeros and one"
    assert tail.beyond(float(size.max())) == (0, 0)
    assert tail.total == size.size


def test_exact_at_the_edge_of_a_bin() -> None:
    histogram = Histogram(2048)
    histogram.update(np.array([0.5, 0.5, 1.0, 1.5, 2.5, 3.5], np.float32))
    tail = histogram.tail()
    # 2.5 lies in the bin from 2.5 on, and may be more or just that
    assert tail.beyond(2.6) == (1, 2)
    assert histogram.tail(2.6).beyond(2.6) == (1, 1)
    assert histogram.tail(1.0).beyond(1.0) == (3, 4)
    assert tail.beyond(3.5) == (0, 0)
    assert tail.beyond(0.1) == (6, 6)


def test_empty_and_damaged() -> None:
    assert Histogram(256).tail().beyond(1.0) == (0, 0)
    good = {"of": 2, "peak": 1.0, "sampling": 1, "edges": "1 0.5", "counts": "1 2"}
    assert Tail.from_text(good).beyond(0.9) == (1, 2)
    for change in (
        {"edges": "1"},
        {"counts": "1 x"},
        {"of": -1},
        {"peak": "nan"},
        {"counts": "1 99999999999999999999"},
        {"counts": "2 1"},
    ):
        with pytest.raises(ConfigError, match="counts of large values"):
            Tail.from_text({**good, **change})
