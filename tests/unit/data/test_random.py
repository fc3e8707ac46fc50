"""Made-up samples: their values, and the memory that making them takes."""

from __future__ import annotations

import tracemalloc

import numpy as np

from bpuc.data import InputSpec, random_data


def test_values_are_one_draw_whatever_their_number() -> None:
    shape = (3, 700, 1001)  # more than two pieces
    (sample,) = random_data([InputSpec("x", shape)], 1, seed=5)
    want = np.random.default_rng(5).uniform(-1, 1, shape).astype(np.float32)
    assert sample["x"].dtype == np.float32
    assert (sample["x"] == want).all()


def test_a_large_input_is_in_memory_once() -> None:
    shape = (16, 1 << 20)
    source = iter(random_data([InputSpec("x", shape)], 1))
    tracemalloc.start()
    next(source)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.5 * 4 * np.prod(shape)
