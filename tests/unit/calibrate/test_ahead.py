"""Samples run ahead: the same tensors, in the same order, as one after another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from bpuc.base.errors import DataError
from bpuc.calibrate import ahead
from bpuc.calibrate.ahead import Sample, run_samples
from bpuc.execute import ort
from bpuc.ir import Graph
from tests.unit.ops.onnx_cases import imported, model

TAPS = ("x", "r", "y")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Mul", ["r", "c"], ["y"])]
    return imported(model(nodes, {"x": (2, 3)}, ["y"], {"c": np.float32(2)}), tmp_path).graph


def _samples(count: int) -> list[Sample]:
    return [{"x": np.full((2, 3), i - 2, np.float32)} for i in range(count)]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("room", [ort.ROOM, 8])
@pytest.mark.parametrize("most", [ahead.MOST_BYTES, 0])
def test_results_come_in_order(
    graph: Graph, threads: int, room: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ort, "ROOM", room)  # 8 bytes: a session for every op
    monkeypatch.setattr(ahead, "MOST_BYTES", most)
    got = [list(t) for t in run_samples(graph, TAPS, iter(_samples(7)), 7, threads)]
    assert [[name for name, _ in sample] for sample in got] == [list(TAPS)] * 7
    for i, sample in enumerate(got):
        for (_, array), want in zip(sample, (i - 2, max(i - 2, 0), 2 * max(i - 2, 0))):
            assert (array == np.full((2, 3), want, np.float32)).all()


def test_only_a_few_samples_are_read_ahead(graph: Graph) -> None:
    read: list[int] = []

    def stream() -> Iterator[Sample]:
        for i, sample in enumerate(_samples(20)):
            read.append(i)
            yield sample

    for number, tensors in enumerate(run_samples(graph, TAPS, stream(), 20, 2)):
        list(tensors)
        assert len(read) <= number + 3


def test_a_sample_at_fault_is_told_when_its_turn_comes(graph: Graph) -> None:
    samples = _samples(4)
    samples[2] = {"x": np.zeros((1, 1), np.float32)}
    runs = run_samples(graph, TAPS, samples, 4, 2)
    assert [len(list(next(runs))) for _ in range(2)] == [3, 3]
    third = next(runs)
    with pytest.raises(DataError, match="input 'x' has shape"):
        list(third)


def test_no_samples_give_nothing(graph: Graph) -> None:
    assert list(run_samples(graph, TAPS, [], 100, 2)) == []
