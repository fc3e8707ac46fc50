"""CPU time of calibration over float onnxruntime inference of the same samples, two threads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bpuc.calibrate import calibrate_graph
from bpuc.flow.prepare import prepare
from bpuc.flow.request import make_request
from tests.bench import workloads
from tests.bench.tables import write_section

THREADS = 2
SAMPLES = 100
# min_max has a limit; the others are told
LIMITS = {("resnet18", "min_max"): 1.3}
MODELS = ("resnet18", "mobilenetv2", "yolov8n")
OBSERVERS = ("min_max", "percentile", "mse", "kl", "mix")
_rows: list[list[str]] = []
_TEXT = (
    f"CPU time (user and system, all threads) of {SAMPLES} samples through the optimized float graph with every tensor "
    "observed, over the same samples through a plain session of the original model; medians of 3 runs, 2 threads."
)


@pytest.fixture(scope="module", autouse=True)
def page():
    yield
    if _rows:
        print("\n" + write_section("Calibration", _TEXT, ["model", *OBSERVERS], _rows))  # noqa: T201


@pytest.mark.parametrize("name", MODELS)
def test_calibration(name: str, tmp_path: Path) -> None:
    import onnxruntime as ort

    model = workloads.graph(name, tmp_path)
    prepared = prepare(make_request(str(model)))
    rng = np.random.default_rng(0)
    (spec,) = prepared.inputs
    samples = [{spec.name: rng.standard_normal(spec.shape).astype(np.float32)} for _ in range(SAMPLES)]
    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 3
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    def floating() -> None:
        for sample in samples:
            session.run(None, sample)

    ratios = {}
    for observer in OBSERVERS:
        base, time = workloads.cpu_seconds(
            floating, lambda o=observer: calibrate_graph(prepared.graph, samples, o, {}, threads=THREADS), repeats=3
        )
        ratios[observer] = time / base
    _rows.append([name, *(f"{ratios[o]:.2f}" for o in OBSERVERS)])
    for observer in OBSERVERS:
        assert ratios[observer] <= LIMITS.get((name, observer), float("inf")), (name, observer)
