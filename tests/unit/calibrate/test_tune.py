"""Thresholds chosen by their readers, held against errors computed here."""

from __future__ import annotations

import numpy as np
import pytest

from bpuc.calibrate.table import TensorRange
from bpuc.calibrate.tune import tune_thresholds
from bpuc.ir import Graph
from bpuc.ir.text import parse_graph
from bpuc.ops.registry import all_defs

CONV = "{strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}"


def graph(body: str) -> Graph:
    text = "graph g\n  input %x: float32[1,2,1,1]\n" + body
    return parse_graph(text, {kind: d.attrs for kind, d in all_defs().items()})


def seen(values: np.ndarray, dtype: str = "int8") -> TensorRange:
    top = float(np.abs(values).max())
    return TensorRange(float(values.min()), float(values.max()), top, "percentile", dtype)


def silu(v: np.ndarray) -> np.ndarray:
    return v / (1 + np.exp(-v))


def quantized(v: np.ndarray, threshold: float) -> np.ndarray:
    return np.clip(np.floor(v * 127 / threshold + 0.5), -128, 127) * threshold / 127


def test_what_a_table_maps_to_nothing_needs_no_range() -> None:
    g = graph('  %y: float32[1,2,1,1] = Swish(%x) name="s" {}\n  output %y as "y"\n')
    values = np.random.default_rng(0).uniform(-60, 4, (4096, 2)).astype(np.float32)
    found = tune_thresholds(g, {"x": seen(values)}, {"x": values})["x"]
    assert found.observer == "tuned"
    # above 4 nothing is clipped that matters; finer than a quarter of an octave it does not search
    assert 4 / 2**0.25 < found.threshold < 12
    errors = [
        np.square(silu(quantized(values.astype(float), t)) - silu(values.astype(float))).mean()
        for t in (60, found.threshold)
    ]
    assert errors[1] < errors[0] / 10


def test_finer_steps_find_what_is_better_still() -> None:
    g = graph('  %y: float32[1,2,1,1] = Swish(%x) name="s" {}\n  output %y as "y"\n')
    values = np.random.default_rng(0).uniform(-60, 4, (4096, 2)).astype(np.float32)
    coarse, fine = (
        tune_thresholds(g, {"x": seen(values)}, {"x": values}, 1.0, f)["x"].threshold for f in (False, True)
    )
    exact = values.astype(float)
    error = {t: np.square(silu(quantized(exact, t)) - silu(exact)).mean() for t in (coarse, fine)}
    assert fine != coarse
    assert error[fine] < error[coarse]
    assert abs(np.log2(fine / coarse)) < 1 / 4


def test_an_even_spread_keeps_its_whole_range() -> None:
    g = graph(
        "  const %w: float32[1,2,1,1] = [1.0, 1.0]\n"
        f'  %y: float32[1,1,1,1] = Conv(%x, %w) name="c" {CONV}\n  output %y as "y"\n'
    )
    values = np.random.default_rng(1).uniform(-3, 3, (4096, 2)).astype(np.float32)
    before = seen(values)
    assert tune_thresholds(g, {"x": before}, {"x": values})["x"] == before


def test_a_channel_that_no_weight_reads_needs_no_range() -> None:
    body = (
        "  const %w: float32[1,2,1,1] = [0.0, 1.0]\n"
        f'  %y: float32[1,1,1,1] = Conv(%x, %w) name="c" {CONV}\n  output %y as "y"\n'
    )
    values = np.random.default_rng(2).uniform(-1, 1, (4096, 2)).astype(np.float32)
    values[:, 0] *= 100
    found = tune_thresholds(graph(body), {"x": seen(values)}, {"x": values})["x"]
    assert 0.8 < found.threshold <= 100 / 16 + 1e-3  # 4 octaves below is the last candidate


def test_moved_values_are_one_decision_and_concats_limit_their_members() -> None:
    body = """  %r: float32[1,2] = Reshape(%x) name="r" {shape=(1, 2)}
  %c: float32[1,4] = Concat(%r, %r) name="cat" {axis=1}
  %y: float32[1,4] = Swish(%c) name="s" {}
  output %y as "y"
"""
    values = np.random.default_rng(3).uniform(-60, 4, (4096, 2)).astype(np.float32)
    ranges = {n: seen(values) for n in ("x", "r", "c")}
    rows = {"x": values, "r": values.reshape(-1, 1), "c": np.tile(values, 2)}
    found = tune_thresholds(graph(body), ranges, rows)
    assert found["c"].observer == "tuned"
    assert found["x"].threshold == found["r"].threshold == found["c"].threshold


@pytest.mark.parametrize("count", [0, 100])
def test_too_few_values_change_nothing(count: int) -> None:
    g = graph('  %y: float32[1,2,1,1] = Swish(%x) name="s" {}\n  output %y as "y"\n')
    values = np.random.default_rng(0).uniform(-60, 4, (count, 2)).astype(np.float32)
    before = TensorRange(-60.0, 4.0, 60.0, "percentile")
    assert tune_thresholds(g, {"x": before}, {"x": values})["x"] == before


def test_int16_tensors_are_left_alone() -> None:
    g = graph('  %y: float32[1,2,1,1] = Swish(%x) name="s" {}\n  output %y as "y"\n')
    values = np.random.default_rng(0).uniform(-60, 4, (4096, 2)).astype(np.float32)
    before = seen(values, "int16")
    assert tune_thresholds(g, {"x": before}, {"x": values})["x"] == before
