"""Calibration in several processes gives the bits of one, also where a process is lost."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from bpuc.base.errors import BpucError, ConfigError, DataError, ModelError
from bpuc.calibrate import calibrate_graph
from bpuc.calibrate.parallel import LocalPool
from bpuc.calibrate.table import TensorRange
from bpuc.ir import Graph
from tests.unit.ops.onnx_cases import imported, model

Sample = dict[str, np.ndarray]  # type: ignore[type-arg]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A conv, a Relu, and both joined; everything observed."""
    w = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Concat", ["c", "r"], ["y"], "cat", axis=1),
    ]
    graph = imported(model(nodes, {"x": (1, 3, 10, 10)}, ["y"], {"w": w}), tmp_path).graph
    for tensor in graph.tensors():
        tensor.observer = "min_max"
    return graph


def samples(count: int) -> list[Sample]:
    rng = np.random.default_rng(1)
    return [{"x": rng.normal(0, 1 + i % 3, (1, 3, 10, 10)).astype(np.float32)} for i in range(count)]


def as_text(found: Mapping[str, TensorRange]) -> dict[str, Any]:
    return {
        n: (r.low, r.high, r.threshold, r.observer, r.channels.to_text() if r.channels else None)
        for n, r in found.items()
    }


@pytest.mark.parametrize(
    ("observer", "options", "tune"),
    [("percentile", {}, True), ("min_max", {"averaging_constant": 0.1}, False), ("default", {}, False)],
)
def test_two_processes_give_the_bits_of_one(graph: Graph, observer: str, options: dict[str, Any], tune: bool) -> None:
    one = calibrate_graph(graph, samples(11), observer, options, threads=1, tune=tune)
    two = calibrate_graph(graph, samples(11), observer, options, threads=1, tune=tune, pool=LocalPool(2))
    assert as_text(two) == as_text(one)


def test_a_process_that_is_killed_loses_nothing(graph: Graph) -> None:
    def stream() -> Iterator[Sample]:
        for i, sample in enumerate(samples(40)):
            if i == 20:
                os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)
            yield sample

    one = calibrate_graph(graph, samples(40), "mse", {}, threads=1)
    assert as_text(calibrate_graph(graph, stream(), "mse", {}, count=40, threads=1, pool=LocalPool(2))) == as_text(one)


def test_faults_of_the_data_are_those_of_one_process(graph: Graph) -> None:
    bad = samples(9)
    bad[6] = {"x": np.full((1, 3, 10, 10), 3e38, np.float32)}
    with pytest.raises(DataError, match="calibration sample 6 makes tensor c NaN or infinite") as e:
        calibrate_graph(graph, bad, "percentile", {}, pool=LocalPool(2))
    assert isinstance(e.value, BpucError)
    assert e.value.hint


def test_what_needs_the_order_is_refused(graph: Graph) -> None:
    with pytest.raises(ConfigError, match="observer kl of tensor x depends on the order of samples"):
        calibrate_graph(graph, samples(4), "kl", {"update_interval": 2}, pool=LocalPool(2))


def test_a_model_that_cannot_run_is_told_as_in_one_process(graph: Graph) -> None:
    conv = next(op for op in graph if op.kind == "Conv")
    conv.attrs = replace(conv.attrs, group=2)  # type: ignore[type-var]
    with pytest.raises(ModelError) as one:
        calibrate_graph(graph, samples(4), "min_max", {})
    with pytest.raises(ModelError) as two:
        calibrate_graph(graph, samples(4), "min_max", {}, pool=LocalPool(2))
    assert str(two.value) == str(one.value)
