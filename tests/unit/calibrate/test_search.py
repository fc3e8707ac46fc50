"""The search of the observer default: scales a channel as its last candidate, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from bpuc.base.channels import ChannelStats
from bpuc.calibrate import calibrate_graph
from bpuc.calibrate.search import Search, free_scales
from bpuc.ir.text import parse_graph
from bpuc.ops.registry import all_defs

ATTRS = {kind: d.attrs for kind, d in all_defs().items()}
CONV = "strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)"
# channel 1 of b is 64 times as small as channel 0, and its reader's weight as much larger: both count alike in y
TWO = f"""graph g
  input %x: float32[1,2,8,8]
  const %w1: float32[2,2,1,1] = [[[[1.0]], [[0.25]]], [[[-0.0078125]], [[0.015625]]]]
  const %w2: float32[2,2,1,1] = [[[[1.0]], [[48.0]]], [[[0.5]], [[-64.0]]]]
  %b: float32[1,2,8,8] = Conv(%x, %w1) name="c1" {{{CONV}, low=0.0}}
  %y: float32[1,2,8,8] = Conv(%b, %w2) name="c2" {{{CONV}}}
  output %y as "y"
"""
W1 = np.array([[1.0, 0.25], [-0.0078125, 0.015625]])
W2 = np.array([[1.0, 48.0], [0.5, -64.0]])


def rounded(v: np.ndarray, scale: np.ndarray) -> np.ndarray:
    s = np.asarray(scale).reshape(-1, 1)
    return np.clip(np.rint(v / s), -128, 127) * s


def outputs(x: np.ndarray, scales: dict[str, np.ndarray]) -> np.ndarray:
    """The two layers on [2, pixels], every tensor rounded; with no scales exactly."""

    def at(name: str, v: np.ndarray) -> np.ndarray:
        return rounded(v, scales[name]) if scales else v

    return at("y", W2 @ at("b", np.maximum(W1 @ at("x", x), 0)))


@pytest.mark.parametrize("channels", [True, False])
def test_scales_a_channel_are_tried_where_no_candidate_is_near_enough(channels: bool) -> None:
    samples = np.random.default_rng(3).normal(size=(3, 1, 2, 8, 8)).astype(np.float32)
    found: list[Search] = []
    graph = parse_graph(TWO, ATTRS)
    for tensor in graph.tensors():
        tensor.observer = "default" if tensor.const is None else tensor.observer
    options = {"similarity": 0.99999}
    table = calibrate_graph(
        graph, [{"x": s} for s in samples], "default", options, channels=channels, threads=1, tell=found.append
    )
    (search,) = found
    assert [*search.cosines] == ["max", "percentile", "kl", "mse", "mix", "tuned"]
    assert search.as_json()["taken"] == table["b"].observer
    if not channels:
        assert search.channels is None
        assert "--effort 0 observes no channels" in search.note
        return
    xs = [s.reshape(2, -1).astype(np.float64) for s in samples]
    exact = [outputs(x, {}) for x in xs]
    peaks = {
        "b": np.max([np.maximum(W1 @ x, 0).max(1) for x in xs], 0),
        "y": np.max([np.abs(y).max(1) for y in exact], 0),
    }
    one = {n: np.array(table[n].threshold / 127) for n in ("x", "b", "y")}
    each = one | {n: np.minimum(p, table[n].threshold) / 127 for n, p in peaks.items()}

    def cosine(scales: dict[str, np.ndarray]) -> float:
        pairs = [(outputs(x, scales), y) for x, y in zip(xs, exact)]
        return float(np.mean([(a * y).sum() / np.sqrt((a**2).sum() * (y**2).sum()) for a, y in pairs]))

    assert search.cosines[search.taken] == pytest.approx(cosine(one), abs=1e-5)
    assert search.channels == pytest.approx(cosine(each), abs=1e-5)
    assert search.channels > search.cosines[search.taken] + 1e-3  # a channel with few levels costs this much
    assert f"{search.channels:.5f}" in search.note


def test_near_enough_ends_the_search() -> None:
    graph = parse_graph(TWO, ATTRS)
    for tensor in graph.tensors():
        tensor.observer = "default" if tensor.const is None else tensor.observer
    samples = np.random.default_rng(3).normal(size=(3, 1, 2, 8, 8)).astype(np.float32)
    found: list[Search] = []
    calibrate_graph(graph, [{"x": s} for s in samples], "default", {"similarity": 0.5}, threads=1, tell=found.append)
    assert found[0].note == ""
    assert found[0].as_json()["with_channel_scales"] is None
    assert [*found[0].cosines] == ["max", "percentile", "kl"]


def test_channels_that_an_addition_ties_take_the_larger_part() -> None:
    text = f"""graph g
  input %x: float32[1,2,1,1]
  const %w: float32[2,2,1,1] = [[[[1.0]], [[1.0]]], [[[1.0]], [[1.0]]]]
  %a: float32[1,2,1,1] = Conv(%x, %w) name="c1" {{{CONV}}}
  %b: float32[1,2,1,1] = Conv(%x, %w) name="c2" {{{CONV}}}
  %s: float32[1,2,1,1] = Add(%a, %b) name="add" {{}}
  %y: float32[1,2,1,1] = Conv(%s, %w) name="c3" {{{CONV}}}
  output %y as "y"
"""
    peaks = {"x": (1.0, 4.0), "a": (8.0, 1.0), "b": (2.0, 2.0), "s": (8.0, 3.0), "y": (5.0, 5.0)}
    seen = {n: ChannelStats(1, np.array(p), np.zeros(2), np.ones(2)) for n, p in peaks.items()}
    found = free_scales(parse_graph(text, ATTRS), {n: max(p) / 127 for n, p in peaks.items()}, seen)
    # parts of their ranges that channels use: a 1, 1/8; b 1, 1; s 1, 3/8. The largest of each channel is 1: all one.
    assert found == {}
    scales = {**{n: max(p) / 127 for n, p in peaks.items()}, "b": 16 / 127}
    found = free_scales(parse_graph(text, ATTRS), scales, seen)
    # b uses an eighth of its range in both, so the second channel of all three is held by s: 3/8
    assert sorted(found) == ["a", "b", "s"]
    np.testing.assert_allclose(found["a"], np.array([8, 3]) / 127)
    np.testing.assert_allclose(found["b"], np.array([16, 6]) / 127)
    np.testing.assert_allclose(found["s"], np.array([8, 3]) / 127)
