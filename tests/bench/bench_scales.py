"""Rescales and accuracy with scales never, auto shared, and equalized, over the graphs of the latency collection.

Weights are seeded, images natural: those of the accuracy collection, resized; some calibrate, others are measured.
`BPUC_SCALES=googlenet,yolov8n` picks graphs; what is known of the others from runs before, in build/bench, stays in
the table.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bpuc.flow.compare_scales import compare_scales, compile_variant
from bpuc.flow.compile import calibrated
from bpuc.flow.request import make_request
from bpuc.program import Program
from tests.bench import workloads
from tests.bench.tables import write_section

CALIBRATE, MEASURE = 8, 4
# integers are run below this; above it only rescales are counted, and from fewer images
MOST_MACS, FEW = 20e9, 2
KNOWN = workloads.ROOT / "build" / "bench" / "scales.json"
_TEXT = (
    "Rescales, and SQNR in dB (mean over outputs and 4 images that calibration did not see, against float) on bayes-e; "
    "seeded weights, natural images, 8 to calibrate. Only graphs with a Concat that needs a rescale; those without dB "
    "have more than 20 GMAC."
)
_MODES = ("never", "auto", "auto+equalize")
_HEADER = ["graph", "never: rescales", "auto: rescales", "never dB", "auto dB", "equalized dB"]


def _graphs() -> list[tuple[str, float]]:
    """Names with their multiply-accumulates, smallest first."""
    index = workloads.SHARED / "latency" / "graphs" / "INDEX.csv"
    if not index.is_file():
        return []
    with index.open(encoding="utf-8") as f:
        rows = sorted(csv.DictReader(f), key=lambda r: int(r["macs"]))
    picked = os.environ.get("BPUC_SCALES")
    found = [(r["graph"].removesuffix(".onnx"), float(r["macs"])) for r in rows]
    return [g for g in found if g[0] in picked.split(",")] if picked else found


def _images(shape: tuple[int, ...], count: int) -> np.ndarray:
    """Pictures of the accuracy collection, normalized, resized to [samples, *shape]."""
    from PIL import Image

    folder = workloads.SHARED / "accuracy"
    spec = importlib.util.spec_from_file_location("metrics", folder / "metrics.py")
    assert spec is not None
    assert spec.loader is not None
    metrics: Any = importlib.util.module_from_spec(spec)
    sys.modules["metrics"] = metrics
    spec.loader.exec_module(metrics)
    meta = json.loads((folder / "efficientnet_lite0" / "meta.json").read_text(encoding="utf-8"))
    pictures = metrics.Inputs(str(folder / "efficientnet_lite0" / "calib.npz"), meta["input"]).block(0, count)[:, 0]
    size = (shape[3], shape[2])
    planes = [[Image.fromarray(c).resize(size, Image.Resampling.BILINEAR) for c in p] for p in pictures]
    return np.stack([np.stack([np.asarray(c, np.float32) for c in p])[None] for p in planes])


@pytest.mark.parametrize(("name", "macs"), _graphs())
def test_graph(name: str, macs: float, tmp_path: Path) -> None:
    import onnxruntime as ort

    model = workloads.graph(name, tmp_path)
    (port,) = ort.InferenceSession(str(model)).get_inputs()
    few = macs >= MOST_MACS
    images = _images(tuple(port.shape), FEW if few else CALIBRATE + MEASURE)
    cut = len(images) if few else CALIBRATE
    for part, values in (("data", images[:cut]), ("test", images[cut:])):
        np.savez(tmp_path / f"{part}.npz", **{port.name: values})
    request = make_request(str(model), "bayes-e", data=str(tmp_path / "data.npz"))
    found: dict[str, tuple[int, float | None]]
    if few:
        ready = calibrated(request)
        programs = {m: compile_variant(request, *ready, m, False) for m in _MODES[:2]}
        none_for_nothing("auto", programs["auto"])
        found = {m: (len(p.report["rescales"]), None) for m, p in programs.items()}
    else:
        shares = [(m.split("+")[0], "+" in m) for m in _MODES]
        variants = compare_scales(request, MEASURE, None, str(tmp_path / "test.npz"), shares, none_for_nothing)
        found = {v.name: (v.rescales, v.sqnr_db) for v in variants}
    known = json.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.is_file() else {}
    known[name] = found
    KNOWN.parent.mkdir(parents=True, exist_ok=True)
    KNOWN.write_text(json.dumps(known, indent=1), encoding="utf-8")


def none_for_nothing(mode: str, program: Program) -> None:
    """With shared scales every Rescale that is left spares somebody bits."""
    idle = [r["name"] for r in program.report["rescales"] if not (r["bits_lost"] > 0 and r["readers"])]
    assert mode == "never" or not idle, idle


def test_total() -> None:
    if not KNOWN.is_file():
        pytest.skip("no graph was measured")
    known = json.loads(KNOWN.read_text(encoding="utf-8"))
    rows = {n: r for n, r in known.items() if r["never"][0]}
    never, auto = (sum(r[m][0] for r in rows.values()) for m in ("never", "auto"))
    run = [r for r in rows.values() if r["never"][1] is not None]
    db = {m: float(np.mean([r[m][1] for r in run])) for m in _MODES}
    lines = [[n, *(str(r[m][0]) for m in ("never", "auto")), *(_db(r, m) for m in _MODES)] for n, r in rows.items()]
    text = f"{_TEXT} Measured so far: {len(known)} of the collection's graphs."
    lines.append([f"all {len(rows)}", str(never), str(auto), *(f"{v:.2f}" for v in db.values())])
    print("\n" + write_section("Scale sharing", text, _HEADER, lines))  # noqa: T201
    assert auto <= 0.05 * never
    assert db["auto"] >= db["never"] - 0.1
    assert db["auto+equalize"] > db["never"]


def _db(row: dict[str, Any], mode: str) -> str:
    return "" if row.get(mode, (0, None))[1] is None else f"{row[mode][1]:.2f}"
