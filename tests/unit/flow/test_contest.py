"""Tables of thresholds judged by what their programs give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

from bpuc.calibrate import TensorRange
from bpuc.data import DataSource
from bpuc.flow.calibrate import collect, open_source
from bpuc.flow.contest import best_table, closeness_of
from bpuc.flow.prepare import Prepared, prepare
from bpuc.flow.request import make_request

NAMES = ["a", "b", "c"]


@pytest.fixture
def model(tmp_path: Path) -> tuple[Prepared, DataSource, dict[str, TensorRange]]:
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="c", pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["a"], ["y"], name="s"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, 8, 8])],
        [numpy_helper.from_array(rng.normal(size=(6, 3, 3, 3)).astype(np.float32), "w")],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "m.onnx")
    np.savez(tmp_path / "c.npz", x=rng.normal(size=(10, 1, 3, 8, 8)).astype(np.float32))
    request = make_request(str(tmp_path / "m.onnx"), "bayes-e", data=str(tmp_path / "c.npz"))
    prepared = prepare(request)
    source = open_source(request, prepared)
    assert source is not None
    return prepared, source, dict(collect(request, prepared, source).tensors)


def scaled(table: dict[str, TensorRange], factor: float) -> dict[str, TensorRange]:
    return {n: replace(t, threshold=t.threshold * factor) for n, t in table.items()}


def test_the_best_wins_and_the_first_where_none_is_clearly_better(
    model: tuple[Prepared, DataSource, dict[str, TensorRange]],
) -> None:
    prepared, source, good = model
    poor = scaled(good, 1 / 8)
    assert best_table(prepared, source, [poor, scaled(good, 16), good], NAMES, 1, 1) == 2
    row = prepared.ctx.refinements[-1]
    assert (row.step, row.what) == ("choose-thresholds", "thresholds c")
    assert "nearer to float than a, on 4 samples" in row.gain
    assert best_table(prepared, source, [good, poor], NAMES, 1, 1) == 0
    assert best_table(prepared, source, [good, poor], NAMES, 3, 1) == 0
    row = prepared.ctx.refinements[-1]
    assert row.what == "thresholds a"
    assert "nearer to float than b" in row.gain
    assert best_table(prepared, source, [good, dict(good)], NAMES, 1, 1) == 0


def test_closeness_in_db_for_every_table_and_sample(model: tuple[Prepared, DataSource, dict[str, TensorRange]]) -> None:
    prepared, source, good = model
    found = closeness_of(prepared, source, [good, scaled(good, 4)], 6, 1)
    assert found.shape == (2, 6)
    # four times the step is 12 dB more noise
    assert np.allclose(found[0] - found[1], 12, atol=2.5)


def test_without_a_march_the_first_stays(model: tuple[Prepared, DataSource, dict[str, TensorRange]]) -> None:
    prepared, source, good = model
    prepared.ctx.target = None
    assert best_table(prepared, source, [scaled(good, 1 / 8), good], NAMES, 1, 1) == 0
