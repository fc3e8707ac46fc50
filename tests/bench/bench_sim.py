"""CPU time of the fast engine over float onnxruntime on the same image, two threads."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from bpuc.flow.compile import compile_model
from bpuc.flow.request import make_request
from bpuc.sim.fast import FastEngine
from bpuc.sim.fast.probe import forms
from bpuc.sim.reference import ReferenceEngine
from tests.bench import workloads
from tests.bench.tables import write_section

THREADS = 2
LIMITS = {"resnet18": 1.2, "mobilenetv2": 1.6, "yolov8n": 1.6, "PP-OCR det": 2.0}
_rows: list[list[str]] = []


@pytest.fixture(scope="module", autouse=True)
def page():
    yield
    if _rows:
        print("\n" + write_section("Simulation", _TEXT, _HEADER, _rows))  # noqa: T201


_TEXT = (
    "CPU time (user and system, all threads) of one image, medians of 5 runs. Float is onnxruntime on "
    "the original model; both with 2 threads. Compiled for bayes-e."
)
_HEADER = ["model", "float ms", "fast ms", "ratio", "limit", "made ready in s", "reference ms"]


@pytest.mark.parametrize("name", LIMITS)
def test_fast_engine(name: str, tmp_path: Path) -> None:
    import onnxruntime as ort

    shapes = [workloads.PPOCR_SHAPE] if name == "PP-OCR det" else []
    model = workloads.detector() if shapes else workloads.graph(name, tmp_path)
    program = compile_model(make_request(str(model), "bayes-e", random_data=True, input_shape=shapes)).program
    rng = np.random.default_rng(0)
    feeds = {p.name: rng.random(p.shape).astype(np.float32) for p in program.inputs}
    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 3
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    forms()  # once a process, not once a model
    start = time.process_time()
    engine = FastEngine(program, THREADS)
    ready = time.process_time() - start
    floating, fast = workloads.cpu_seconds(lambda: session.run(None, feeds), lambda: engine.run(feeds))
    reference = ReferenceEngine(program, THREADS)
    start = time.process_time()
    want = reference.run(feeds)
    slow = time.process_time() - start
    for key, value in engine.run(feeds).items():
        np.testing.assert_array_equal(value, want[key], err_msg=key)
    ratio = fast / floating
    numbers = [f"{v * 1000:.1f}" for v in (floating, fast)]
    _rows.append([name, *numbers, f"{ratio:.2f}", str(LIMITS[name]), f"{ready:.2f}", f"{slow * 1000:.0f}"])
    assert ratio <= LIMITS[name]
