"""How close outputs are, at the edges."""

import math

import numpy as np
import pytest

from bpuc.flow.judge import affordable, closeness
from bpuc.ir import Graph


def test_ten_percent_off_is_20_db() -> None:
    x = np.array([1.0, -2.0, 3.0], np.float32)
    cosine, db = closeness(x, x * np.float32(1.1))
    assert cosine == pytest.approx(1)
    assert db == pytest.approx(20, abs=1e-4)


@pytest.mark.parametrize(
    ("want", "got", "db"),
    [([1, 2], [1, 2], 120), ([0, 0], [0, 0], 120), ([0, 0], [1, 0], -120), ([1, 0], [1e9, 0], -120)],
)
def test_limits(want: list[float], got: list[float], db: float) -> None:
    assert closeness(np.array(want, np.float32), np.array(got, np.float32))[1] == db


def test_what_is_infinite_is_no_crash() -> None:
    cosine, db = closeness(np.array([1.0]), np.array([math.inf]))
    assert db == -120
    assert not math.isfinite(cosine) or cosine <= 1


def test_nothing_to_measure_is_not_judged() -> None:
    assert not affordable(Graph("no outputs"))
