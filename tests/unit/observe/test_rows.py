"""The sample of rows: whole channels, bounded, repeatable."""

from __future__ import annotations

import numpy as np

from bpuc.observe.rows import MOST_ROWS, RowSampler


def test_rows_hold_all_channels_of_one_place() -> None:
    x = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
    sampler = RowSampler(1, 3)
    sampler.update(x, 0)
    places = {tuple(x[n, :, i]) for n in range(2) for i in range(4)}
    rows = {tuple(r) for r in sampler.rows()}
    assert rows == places  # few places: every one is taken


def test_memory_is_flat_and_all_arrays_have_a_share() -> None:
    sampler = RowSampler(1, 2, samples=200)
    for i in range(200):
        sampler.update(np.full((1, 2, 1000), i, np.float32), i)
    rows = sampler.rows()
    assert len(rows) <= MOST_ROWS
    assert len(set(rows[:, 0].tolist())) > 100
    assert rows[:, 0].min() < 10
    assert rows[:, 0].max() == 199


def test_the_same_arrays_give_the_same_rows() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(1, 4, 50, 50)).astype(np.float32) for _ in range(5)]
    a, b = RowSampler(1, 4), RowSampler(1, 4)
    for i, x in enumerate(arrays):
        a.update(x, i)
        b.update(x, i)
    assert (a.rows() == b.rows()).all()


def test_a_tensor_without_channels_gives_rows_of_one() -> None:
    sampler = RowSampler(None)
    sampler.update(np.arange(10, dtype=np.float32).reshape(2, 5), 0)
    sampler.update(np.zeros((0,), np.float32), 1)
    assert sampler.rows().shape == (10, 1)


def test_parts_merged_in_order_are_what_one_sampler_keeps() -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=(1, 3, 20, 20)).astype(np.float32) for _ in range(30)]
    one, a, b = (RowSampler(1, 3, samples=30) for _ in range(3))
    for i, x in enumerate(arrays):
        one.update(x, i)
        (a if i < 13 else b).update(x, i)
    a.merge(b)
    assert (a.rows() == one.rows()).all()


def test_more_samples_than_room_share_it_evenly() -> None:
    sampler = RowSampler(1, 4096, samples=1000)  # room for 64 rows
    for i in range(1000):
        sampler.update(np.full((1, 4096), i, np.float32), i)
    numbers = sampler.rows()[:, 0]
    assert len(numbers) == 64
    assert set(np.diff(numbers)) <= {15, 16}
