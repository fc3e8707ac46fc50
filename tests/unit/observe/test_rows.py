"""The sample of rows: whole channels, bounded, repeatable."""

from __future__ import annotations

import numpy as np

from bpuc.observe.rows import MOST_ROWS, RowSampler


def test_rows_hold_all_channels_of_one_place() -> None:
    x = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
    sampler = RowSampler(1, 3)
    sampler.update(x)
    places = {tuple(x[n, :, i]) for n in range(2) for i in range(4)}
    rows = {tuple(r) for r in sampler.rows()}
    assert rows == places  # few places: every one is taken


def test_memory_is_flat_and_all_arrays_have_a_share() -> None:
    sampler = RowSampler(1, 2)
    for i in range(200):
        sampler.update(np.full((1, 2, 1000), i, np.float32))
    rows = sampler.rows()
    assert len(rows) <= MOST_ROWS
    assert len(set(rows[:, 0].tolist())) > 100
    assert rows[:, 0].min() < 10
    assert rows[:, 0].max() == 199


def test_the_same_arrays_give_the_same_rows() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(1, 4, 50, 50)).astype(np.float32) for _ in range(5)]
    a, b = RowSampler(1, 4), RowSampler(1, 4)
    for x in arrays:
        a.update(x)
        b.update(x)
    assert (a.rows() == b.rows()).all()


def test_a_tensor_without_channels_gives_rows_of_one() -> None:
    sampler = RowSampler(None)
    sampler.update(np.arange(10, dtype=np.float32).reshape(2, 5))
    sampler.update(np.zeros((0,), np.float32))
    assert sampler.rows().shape == (10, 1)
