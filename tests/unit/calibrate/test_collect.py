"""Thresholds of a graph's tensors against numpy on the same samples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from bpuc.base.errors import ConfigError, DataError
from bpuc.calibrate import calibrate_graph
from bpuc.ir import Graph
from tests.unit.ops.onnx_cases import imported, model


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """y = relu(x) * 2; everything observed but the constant."""
    nodes = [helper.make_node("Relu", ["x"], ["r"], "relu"), helper.make_node("Mul", ["r", "c"], ["y"], "mul")]
    graph = imported(model(nodes, {"x": (2, 3)}, ["y"], {"c": np.float32(2)}), tmp_path).graph
    for tensor in graph.tensors():
        tensor.observer = "min_max"
    return graph


def samples(*values: float) -> list[dict[str, np.ndarray]]:  # type: ignore[type-arg]
    return [{"x": np.array([[v, -1, 0], [0.5, 0, -v]], np.float32)} for v in values]


def test_ranges_are_those_of_all_samples(graph: Graph) -> None:
    found = calibrate_graph(graph, samples(1.0, -4.0, 2.5), "min_max", {}, threads=1)
    assert {n: (t.low, t.high, t.threshold) for n, t in found.items()} == {
        "x": (-4.0, 4.0, 4.0),
        "r": (0.0, 4.0, 4.0),
        "y": (0.0, 8.0, 8.0),
    }
    assert {(t.observer, t.dtype) for t in found.values()} == {("min_max", "int8")}


def test_only_marked_tensors_are_observed(graph: Graph) -> None:
    graph.find("r").observer = ""  # type: ignore[union-attr]
    assert set(calibrate_graph(graph, samples(1.0), "min_max", {}, threads=1)) == {"x", "y"}


def test_samples_are_a_stream(graph: Graph) -> None:
    def stream() -> Iterator[dict[str, np.ndarray]]:  # type: ignore[type-arg]
        yield from samples(1.0, 2.0)

    assert calibrate_graph(graph, stream(), "min_max", {}, threads=1)["x"].threshold == 2.0


def test_the_order_of_samples_changes_nothing(graph: Graph) -> None:
    one = calibrate_graph(graph, samples(1.0, 3.0, 2.0), "percentile", {"percentile": 90.0}, threads=1)
    assert calibrate_graph(graph, samples(3.0, 2.0, 1.0), "percentile", {"percentile": 90.0}, threads=1) == one


def test_wide_tensors_are_told_so(graph: Graph) -> None:
    found = calibrate_graph(graph, samples(1.0), "min_max", {}, wide=lambda n: n == "r", threads=1)
    assert {n: t.dtype for n, t in found.items()} == {"x": "int8", "r": "int16", "y": "int8"}


def test_a_dead_tensor_has_a_threshold(graph: Graph) -> None:
    found = calibrate_graph(graph, [{"x": np.zeros((2, 3), np.float32)}], "min_max", {}, threads=1)
    assert all(t.threshold > 0 and t.high == 0 for t in found.values())


def test_a_sample_that_overflows_is_named(graph: Graph) -> None:
    with pytest.raises(DataError, match=r"calibration sample 1 makes tensor y NaN or infinite"):
        calibrate_graph(graph, samples(1.0, 3e38), "min_max", {}, threads=1)


def test_an_unknown_observer_is_refused_before_any_sample(graph: Graph) -> None:
    with pytest.raises(ConfigError, match="no observer 'middle'"):
        calibrate_graph(graph, iter(()), "middle", {}, threads=1)
