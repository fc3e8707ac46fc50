"""Rescales and accuracy with scales never, auto shared, and equalized, over the graphs of the latency collection.

Weights are seeded, images natural: those of the accuracy collection, resized. `BPUC_SCALES=googlenet,yolov8n` picks
graphs.
"""

from __future__ import annotations

import csv
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bpuc.flow.compare_scales import compare_scales
from bpuc.flow.request import make_request
from tests.bench import workloads
from tests.bench.tables import write_section

SAMPLES = 4
# integers are run below this; above it only rescales would be counted
MOST_MACS = 20e9
_TEXT = (
    "Rescales and SQNR (dB, mean over outputs and 4 images, against float) on bayes-e, seeded weights, natural images. "
    "Only graphs with a Concat that needs one."
)
_HEADER = ["graph", "never: rescales", "auto: rescales", "never dB", "auto dB", "equalized dB"]
_rows: dict[str, dict[str, tuple[int, float]]] = {}


def _names() -> list[str]:
    index = workloads.SHARED / "latency" / "graphs" / "INDEX.csv"
    if not index.is_file():
        return []
    with index.open(encoding="utf-8") as f:
        rows = sorted(csv.DictReader(f), key=lambda r: int(r["macs"]))
    picked = os.environ.get("BPUC_SCALES")
    names = [r["graph"].removesuffix(".onnx") for r in rows if int(r["macs"]) < MOST_MACS]
    return [n for n in names if n in picked.split(",")] if picked else names


def _images(shape: tuple[int, ...]) -> np.ndarray:
    """Pictures of the accuracy collection, normalized, resized to [samples, *shape]."""
    from PIL import Image

    folder = workloads.SHARED / "accuracy"
    spec = importlib.util.spec_from_file_location("metrics", folder / "metrics.py")
    assert spec is not None
    assert spec.loader is not None
    metrics: Any = importlib.util.module_from_spec(spec)
    sys.modules["metrics"] = metrics
    spec.loader.exec_module(metrics)
    import json

    meta = json.loads((folder / "efficientnet_lite0" / "meta.json").read_text(encoding="utf-8"))
    pictures = metrics.Inputs(str(folder / "efficientnet_lite0" / "calib.npz"), meta["input"]).block(0, SAMPLES)[:, 0]
    size = (shape[3], shape[2])
    planes = [[Image.fromarray(c).resize(size, Image.Resampling.BILINEAR) for c in p] for p in pictures]
    return np.stack([np.stack([np.asarray(c, np.float32) for c in p])[None] for p in planes])


@pytest.mark.parametrize("name", _names())
def test_graph(name: str, tmp_path: Path) -> None:
    import onnxruntime as ort

    model = workloads.graph(name, tmp_path)
    (port,) = ort.InferenceSession(str(model)).get_inputs()
    np.savez(tmp_path / "data.npz", **{port.name: _images(tuple(port.shape))})
    variants = compare_scales(make_request(str(model), "bayes-e", data=str(tmp_path / "data.npz")), SAMPLES)
    found = {v.name: (v.rescales, v.sqnr_db) for v in variants}
    if found["never"][0]:
        _rows[name] = found


def test_total() -> None:
    if not _rows:
        pytest.skip("no graph was measured")
    never, auto = (sum(r[m][0] for r in _rows.values()) for m in ("never", "auto"))
    db = {m: float(np.mean([r[m][1] for r in _rows.values()])) for m in ("never", "auto", "auto+equalize")}
    rows = [
        [n, *(str(r[m][0]) for m in ("never", "auto")), *(f"{r[m][1]:.2f}" for m in ("never", "auto", "auto+equalize"))]
        for n, r in _rows.items()
    ]
    rows.append(["all", str(never), str(auto), *(f"{v:.2f}" for v in db.values())])
    print("\n" + write_section("Scale sharing", _TEXT, _HEADER, rows))  # noqa: T201
    assert auto <= 0.05 * never
    assert db["auto"] >= db["never"] - 0.1
