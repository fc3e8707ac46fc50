"""Sensitivities against the same roundings done here by hand."""

from __future__ import annotations

import numpy as np
import pytest

from bpuc.base.channels import ChannelStats
from bpuc.base.dtypes import DType
from bpuc.calibrate.sensitivity import OutputError, measure_sensitivity
from bpuc.ir import Graph, QuantParams
from bpuc.ir.text import parse_graph
from bpuc.ops.registry import all_defs

BODY = """graph g
  input %x: float32[1,3]
  const %w: float32[3,2] = [1.0, 0.5, -2.0, 0.25, 3.0, 1.5]
  %m: float32[1,2] = MatMul(%x, %w) name="fc" {}
  %y: float32[1,2] = Sigmoid(%m) name="sig" {}
  %c: float32[1,4] = Concat(%m, %y) name="cat" {axis=1}
  output %c as "c"
"""
W = np.array([[1.0, 0.5], [-2.0, 0.25], [3.0, 1.5]])


def graph() -> Graph:
    return parse_graph(BODY, {kind: d.attrs for kind, d in all_defs().items()})


def step(v: np.ndarray, s: float) -> np.ndarray:
    return np.clip(np.floor(v / s + 0.5), -128, 127) * s


def forward(x: np.ndarray) -> np.ndarray:
    m = x @ W
    return np.concatenate([m, 1 / (1 + np.exp(-m))], 1)


def test_each_group_is_rounded_alone_and_channels_count_alike() -> None:
    samples = [np.random.default_rng(i).normal(size=(1, 3)).astype(np.float32) for i in range(3)]
    power = np.array([4.0, 1.0, 0.5, 0.25])
    stats = {"c": ChannelStats(1, np.ones(4), np.zeros(4), power)}
    quants = {"x": QuantParams(DType.INT8, (0.1,)), "m": QuantParams(DType.INT8, (0.25,))}
    found = measure_sensitivity(graph(), ({"x": s} for s in samples), quants, stats, count=2)
    by_x, by_m = [], []
    for s in samples[:2]:
        want = forward(s.astype(float))
        by_x.append((np.square(forward(step(s.astype(float), 0.1)) - want)[0] / power).mean())
        m = step(s.astype(float) @ W, 0.25)
        by_m.append((np.square(np.concatenate([m, 1 / (1 + np.exp(-m))], 1) - want)[0] / power).mean())
    assert found == pytest.approx({"x": np.mean(by_x), "m": np.mean(by_m)}, rel=1e-3)


def test_a_channel_counts_at_most_once() -> None:
    stats = {"c": ChannelStats(1, np.ones(4), np.zeros(4), np.full(4, 1e-6))}
    error = OutputError(graph(), stats)
    want = np.zeros((1, 4), np.float32)
    assert error({"c": want}, {"c": want + np.array([0, 0, 0, 9], np.float32)}) == pytest.approx(0.25)
