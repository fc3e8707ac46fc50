"""The search for hardware numbers, and how they get into a target.toml."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from bpuc.perf.memory import plan_memory
from bpuc.perf.model import busy_us
from bpuc.perf.rows import build_rows
from bpuc.perf.timeline import schedule
from bpuc.target.hardware import Hardware
from tests.unit.perf.perf_samples import chain, target

FOLDER = Path(__file__).parents[3] / "targets" / "fit"


@pytest.fixture(autouse=True)
def _scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))


def test_the_search_finds_a_minimum_and_stays_in_its_bounds():
    from search import evolve

    def loss(n):
        return abs(n["ddr_gb_per_s"] - 3) + abs(n["call_us"] - 500) / 100 + abs(n["tiles"] - 4)

    bounds = {"ddr_gb_per_s": (0.5, 10.0), "call_us": (10.0, 200.0)}
    start = asdict(Hardware.of(target()))
    found, value = evolve(loss, start, bounds, {"tiles": (1.0, 2.0, 4.0)}, rounds=60)
    assert found["ddr_gb_per_s"] == pytest.approx(3, rel=0.02)
    assert found["call_us"] == pytest.approx(200, rel=0.01)
    assert found["tiles"] == 4.0
    assert value == loss(found)
    tied, _ = evolve(loss, start, bounds, {}, 60, ties={"call_us": ("ddr_gb_per_s", 25.0)})
    assert tied["call_us"] == 25 * tied["ddr_gb_per_s"]
    assert evolve(loss, start, bounds, {}, rounds=3) == evolve(loss, start, bounds, {}, rounds=3)


def test_the_batch_model_is_the_latency_model():
    """Two candidates at once against one time line each."""
    from batch import Batch

    program = chain(channels=24, size=9, rescales=2)
    both = [Hardware.of(target(tiles=t, prefetch_ops=2.0, ddr_gb_per_s=d)) for t, d in ((1.0, 0.1), (4.0, 0.02))]
    plan = plan_memory(program, both[0])
    batch = Batch.of(program, plan, both[0])
    numbers = {n: np.array([asdict(hw)[n] for hw in both]) for n in asdict(both[0])}
    expected = []
    for hw in both:
        rows = build_rows(program, plan, hw)
        schedule(rows, hw)
        expected.append(busy_us(rows, bpu=True))
    assert batch.busy_us(numbers, 2, both[0].constant_buffer_bytes) == pytest.approx(expected)
    assert expected[0] != expected[1]


def test_new_numbers_replace_value_origin_and_source_of_the_common_table():
    from fit import updated

    text = (
        "[hardware]\n"
        'ddr_gb_per_s = { value = 5, unit = "GB/s", origin = "assumed", source = "a guess" }\n'
        'tiles = { value = 4, unit = "tiles", origin = "known", source = "x" }\n'
        "[variant.b.hardware]\n"
        'ddr_gb_per_s = { value = 9, unit = "GB/s", origin = "assumed", source = "a guess" }\n'
    )
    new = updated(text, {"ddr_gb_per_s": 7.21499}, ["ddr_gb_per_s"], "2 models")
    assert (
        new.splitlines()[1] == 'ddr_gb_per_s = { value = 7.21, unit = "GB/s", origin = "fitted", source = "2 models" }'
    )
    assert new.splitlines()[2:] == text.splitlines()[2:]


def test_every_free_number_is_one_of_the_model():
    from bounds import CHOICES, SPEED, ranges_for

    names = set(Hardware.__dataclass_fields__)
    for march in SPEED:
        assert set(ranges_for(march)) | set(CHOICES) <= names
        assert all(0 < low < high for low, high in ranges_for(march).values())
