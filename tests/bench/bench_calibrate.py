"""CPU time and memory of calibration, against float onnxruntime on the same samples; two threads."""

from __future__ import annotations

import os
import subprocess
import sys
import time
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
MODELS = ("resnet18", "mobilenetv2", "yolov8n")
# column -> observer, options, thresholds by the readers (effort 1 without a named observer), limits by model
ROWS = {
    "min_max": ("min_max", {}, False, (1.2, 2.1, 1.5)),
    "percentile": ("percentile", {}, False, (1.5, 4.5, 2.4)),
    "mse": ("mse", {}, False, (1.5, 4.5, 2.4)),
    "kl": ("kl", {}, False, (1.5, 4.5, 2.4)),
    "mix": ("mix", {}, False, (1.5, 4.5, 2.4)),
    "percentile, sampling=4": ("percentile", {"sampling": 4}, False, (1.3, 3.0, 1.8)),
    "mse, sampling=4": ("mse", {"sampling": 4}, False, (1.3, 3.0, 1.8)),
    "kl, sampling=4": ("kl", {"sampling": 4}, False, (1.3, 3.0, 1.8)),
    "mix, sampling=4": ("mix", {"sampling": 4}, False, (1.3, 3.0, 1.8)),
}
EFFORTS = {"effort 0": False, "effort 1": True}
MEMORY_LIMIT = 300  # MB above the float session's process
_times: dict[str, list[str]] = {}
_memory: list[list[str]] = []
_TIME_TEXT = (
    f"CPU time (user and system, all threads) of {SAMPLES} samples through the optimized float graph with every tensor "
    "observed, over the same samples through a plain session of the original model; one run, 2 threads, sessions made "
    "before (float) and within (calibration). The limit stands behind each. Effort 0 is the default observer "
    "(percentile) alone; effort 1, the default, over effort 0: at most 2."
)
_MEMORY_TEXT = (
    "Largest resident memory in MB of a process that runs samples in float (onnxruntime alone) and of one that "
    f"calibrates on them with effort 1 (bpuc, its libraries and the model in memory); at most {MEMORY_LIMIT} MB apart."
)


@pytest.fixture(scope="module", autouse=True)
def page():
    yield
    if len(_times) == len(MODELS):
        table = [list(row) for row in zip(*_times.values())]
        names = [*ROWS, *EFFORTS]
        rows = [[name, *row] for name, row in zip(names, table)]
        print("\n" + write_section("Calibration", _TIME_TEXT, ["observer", *_times], rows))  # noqa: T201
    if _memory:
        header = ["model", "samples", "float", "calibrate", "apart"]
        print("\n" + write_section("Memory of calibration", _MEMORY_TEXT, header, _memory))  # noqa: T201


@pytest.mark.parametrize("name", MODELS)
def test_time(name: str, tmp_path: Path) -> None:
    import onnxruntime as ort

    model = workloads.graph(name, tmp_path)
    prepared = prepare(make_request(str(model)))
    (spec,) = prepared.inputs
    rng = np.random.default_rng(0)
    some = [{spec.name: rng.standard_normal(spec.shape).astype(np.float32)} for _ in range(20)]
    samples = some * (SAMPLES // len(some))
    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 3
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    session.run(None, samples[0])
    start = time.process_time()
    for sample in samples:
        session.run(None, sample)
    base = time.process_time() - start
    del session

    def ratio(observer: str, options: dict[str, int], channels: bool, tune: bool) -> float:
        start = time.process_time()
        calibrate_graph(prepared.graph, samples, observer, options, threads=THREADS, channels=channels, tune=tune)
        return (time.process_time() - start) / base

    limits = {c: limit[MODELS.index(name)] for c, (*_, limit) in ROWS.items()}
    got = {c: ratio(observer, given, True, tune) for c, (observer, given, tune, _) in ROWS.items()}
    effort = {c: ratio("percentile", {}, tune, tune) for c, tune in EFFORTS.items()}
    _times[name] = [*(f"{got[c]:.2f} ({limits[c]})" for c in got), *(f"{v:.2f}" for v in effort.values())]
    assert {c: v for c, v in got.items() if v > limits[c]} == {}
    assert effort["effort 1"] <= 2 * effort["effort 0"]


# VmHWM is of this program alone; ru_maxrss begins with what the process that started it held
_FLOAT = r"""
import re, sys
import numpy as np, onnxruntime as ort
path, samples = sys.argv[1], int(sys.argv[2])
options = ort.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = 2, 3
session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
(spec,) = session.get_inputs()
rng = np.random.default_rng(0)
for _ in range(samples):
    session.run(None, {spec.name: rng.standard_normal(spec.shape).astype(np.float32)})
print(int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) / 1024)
"""
_CALIBRATE = r"""
import re, sys
import numpy as np
from bpuc.calibrate import calibrate_graph
from bpuc.flow.prepare import prepare
from bpuc.flow.request import make_request
path, samples = sys.argv[1], int(sys.argv[2])
prepared = prepare(make_request(path))
(spec,) = prepared.inputs
rng = np.random.default_rng(0)
stream = ({spec.name: rng.standard_normal(spec.shape).astype(np.float32)} for _ in range(samples))
calibrate_graph(prepared.graph, stream, "percentile", {}, count=samples, threads=2, tune=True)
print(int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) / 1024)
"""


@pytest.mark.parametrize(("name", "samples"), [(m, n) for m in MODELS for n in (32, 512)])
def test_memory(name: str, samples: int, tmp_path: Path) -> None:
    model = workloads.graph(name, tmp_path)
    float_mb, own_mb = (
        float(
            subprocess.run(
                [sys.executable, "-c", code, str(model), str(samples)],
                env=os.environ,
                cwd=workloads.ROOT,
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        for code in (_FLOAT, _CALIBRATE)
    )
    _memory.append([name, str(samples), f"{float_mb:.0f}", f"{own_mb:.0f}", f"{own_mb - float_mb:.0f}"])
    assert own_mb - float_mb <= MEMORY_LIMIT
