"""The time line on rows made by hand."""

from __future__ import annotations

import pytest

from bpuc.perf.timeline import Row, schedule
from bpuc.target.hardware import Hardware
from tests.unit.perf.perf_samples import target


def test_a_result_is_handed_on_tile_by_tile_once_its_op_has_started_up():
    hw = Hardware.of(target(tiles=4.0))
    rows = [
        Row(0, 0, True, "mac", compute=8.0, overhead=3.0),
        Row(1, 0, True, "vector", compute=4.0, overhead=1.0, producers=[0]),
        Row(2, 0, True, "mac", compute=8.0, overhead=3.0, producers=[1]),
    ]
    end = schedule(rows, hw)
    # the vector unit begins with the first quarter, 3 + 8/4, and ends a quarter of its work after the last, 11 + 4/4
    assert [(r.start, r.end) for r in rows[:2]] == [(0.0, 11.0), (5.0, 12.0)]
    # the array is free at 11; the vector unit's first quarter was there at 5 + 1 + (12 - 5 - 1)/4
    assert (rows[2].start, rows[2].end) == (11.0, 22.0)
    assert end == 22.0


def test_a_short_op_between_two_of_another_engine_costs_its_start_up():
    """Why a rescale that computes nearly nothing is not hidden: the op behind it waits for its start."""
    hw = Hardware.of(target(tiles=4.0))
    convs = [Row(i, 0, True, "mac", compute=0.4, overhead=3.0, producers=[i - 1] if i else []) for i in range(2)]
    assert schedule(convs, hw) == pytest.approx(6.8)
    rescaled = [
        Row(0, 0, True, "mac", compute=0.4, overhead=3.0),
        Row(1, 0, True, "vector", compute=0.4, overhead=3.0, producers=[0]),
        Row(2, 0, True, "mac", compute=0.4, overhead=3.0, producers=[1]),
    ]
    # each begins with the first quarter of the one before: 3.1, then 3.1 + 3.1
    assert schedule(rescaled, hw) == pytest.approx(2 * 3.1 + 3.4)
