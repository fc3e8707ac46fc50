"""Wall time of compile and of perf without data."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest

from bpuc.flow.compile import compile_for_perf, compile_model
from bpuc.flow.request import make_request
from bpuc.perf import estimate
from bpuc.plugins import get_target
from tests.bench import workloads
from tests.bench.tables import write_section

# seconds: a model of about 300 nodes with 8 random samples (design goal 10), and its latency without data (goal 3)
LIMITS = {"yolov10n": (10.0, 3.0)}
_rows: list[list[str]] = []
_TEXT = "Wall time in seconds, medians of 3: compile on 8 random samples; estimate without data. Compiled for bayes-e."
_HEADER = ["model", "ONNX nodes", "compile s", "limit", "estimate s", "limit"]


@pytest.fixture(scope="module", autouse=True)
def page():
    yield
    if _rows:
        print("\n" + write_section("Compile", _TEXT, _HEADER, _rows))  # noqa: T201


@pytest.mark.parametrize("name", LIMITS)
def test_compile(name: str, tmp_path: Path) -> None:
    import onnx

    model = workloads.graph(name, tmp_path)
    nodes = len(onnx.load(str(model)).graph.node)
    compile_s = _median(lambda: compile_model(make_request(str(model), "bayes-e", random_data=True)))
    perf_s = _median(lambda: estimate(compile_for_perf(str(model), "bayes-e", {}), get_target("bayes-e")))
    limits = LIMITS[name]
    _rows.append([name, str(nodes), f"{compile_s:.1f}", str(limits[0]), f"{perf_s:.1f}", str(limits[1])])
    assert compile_s <= limits[0]
    assert perf_s <= limits[1]


def _median(function: object) -> float:
    assert callable(function)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
