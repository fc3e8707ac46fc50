"""Where the benchmarks find their models, and how CPU time is measured."""

from __future__ import annotations

import importlib.util
import os
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("BPUC_SHARED", ROOT.parent / "shared"))
PPOCR_SHAPE = "x:1x3x480x640"


def graph(name: str, folder: Path) -> Path:
    """A graph of the latency collection, filled with weights, as an ONNX file in `folder`; skips when absent."""
    light = SHARED / "latency" / "light.py"
    source = SHARED / "latency" / "graphs" / f"{name}.onnx"
    if not light.is_file() or not source.is_file():
        pytest.skip(f"{source} is not there; BPUC_SHARED names the folder that holds `latency`")
    import onnx

    spec = importlib.util.spec_from_file_location("light", light)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = folder / f"{name}.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the loader leaves its file to the garbage collector
        onnx.save(module.load_light(str(source)), str(path))
    return path


def detector() -> Path:
    """PP-OCR's text detector, downloaded once as for the demo; skips where that is not possible."""
    from models import ppocr

    here = SHARED / "accuracy" / "ppocrv4_det" / "model.onnx"
    if here.is_file():
        return here
    try:
        return ppocr.fetch(ROOT / "build" / "bench")
    except (ppocr.FetchError, OSError) as e:
        pytest.skip(f"no text detector: {e}")


def cpu_seconds(*functions: Callable[[], object], repeats: int = 5) -> list[float]:
    """Median CPU time (user and system, all threads) of each function, after one run of it to warm up."""
    medians = []
    for function in functions:
        time.sleep(0.1)  # threads of the one before may still spin, at this one's cost
        function()
        row = []
        for _ in range(repeats):
            start = time.process_time()
            function()
            row.append(time.process_time() - start)
        medians.append(statistics.median(row))
    return medians
