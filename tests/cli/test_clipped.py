"""The share of clipped values in report.json against values counted in onnxruntime's float tensors."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.unit.ops.onnx_cases import model, run

RNG = np.random.default_rng(2)
W1, W2 = RNG.normal(size=(6, 3, 3, 3)).astype(np.float32), RNG.normal(size=(4, 10, 1, 1)).astype(np.float32)
W1[5] *= 6
NODES = [
    helper.make_node("Conv", ["x", "w1"], ["a"], "c1", pads=[1] * 4),
    helper.make_node("Sigmoid", ["s"], ["b"], "act"),
    helper.make_node("Concat", ["a", "b"], ["c"], "cat", axis=1),
    helper.make_node("Conv", ["c", "w2"], ["y"], "c2"),
]


@pytest.fixture
def truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    shapes = {"x": (1, 3, 12, 12), "s": (1, 4, 12, 12)}
    m = model(NODES, shapes, ["y", "a", "b"], {"w1": W1, "w2": W2})
    samples = {n: np.random.default_rng(4).standard_t(3, (9, *s)).astype(np.float32) for n, s in shapes.items()}
    rows = [run(m, {n: v[i] for n, v in samples.items()}) for i in range(9)]
    del m.graph.output[1:]
    Path("m.onnx").write_bytes(m.SerializeToString())
    np.savez("d.npz", **samples)
    return {**samples, **{n: np.stack([r[n] for r in rows]) for n in ("a", "b")}}


@pytest.mark.parametrize(
    ("options", "counted"),
    [
        (["--observer", "percentile", "--observer-opt", "percentile=99", "--no-channel-scales"], {"x", "a", "b", "s"}),
        (["--observer", "mse", "--share-scales", "always", "--no-channel-scales"], {"x", "a", "b", "s"}),
        (["--observer", "kl"], {"x", "a", "b", "s"}),
        (["--fixed-scale", "x=0.01", "--effort", "0"], {"x", "a", "b", "s"}),
        (["--observer", "min_max", "--effort", "0"], set()),
    ],
)
@pytest.mark.parametrize("through_file", [False, True])
def test_counts(bpuc: Any, truth: dict[str, Any], options: list[str], counted: set[str], through_file: bool) -> None:
    data = ["--data", "d.npz"]
    if through_file:
        assert bpuc("calibrate", "m.onnx", *data, *options, "-o", "c.json").code == 0
        data = ["--calib", "c.json", *data]
    words = ["--march", "bayes-e", *data, *options, "-o", "m.bpuc", "--report", "r.json"]
    assert bpuc("compile", "m.onnx", *words).code == 0
    tensors = {t["name"]: t for t in json.loads(Path("r.json").read_text())["tensors"]}
    for name, values in truth.items():
        t = tensors[name]
        scale = np.asarray(t["scale"])
        size = np.abs(np.moveaxis(values, 2, -1)) if scale.ndim else np.abs(values)
        true = int((size > scale * t["qmax"] * (1 + 1e-6)).sum())
        found = t["clipped"]
        assert found["least"] <= true <= found["most"], name
        assert found["of"] == (values.size if name in counted else None)
        if not scale.ndim:
            assert found["most"] - found["least"] <= 2 + 0.15 * true


def test_explain(bpuc: Any, truth: dict[str, Any]) -> None:
    words = ["--march", "bayes-e", "--data", "d.npz", "--fixed-scale", "x=0.0078125", "-o", "m.bpuc"]
    assert bpuc("compile", "m.onnx", *words, "--no-channel-scales").code == 0
    count = int((np.abs(truth["x"]) > 127 / 128).sum())
    text = " ".join(bpuc("explain", "m.bpuc", "scales", "x").out.split())
    found = re.search(r"clipped (\d+) to (\d+) of 3888 \(([\d.]+) to ([\d.]+) %\)", text)
    assert found is not None
    least, most, low, high = map(float, found.groups())
    assert least <= count <= most <= 1.1 * count
    assert (low, high) == pytest.approx((least / 38.88, most / 38.88), abs=0.05)
    text = bpuc("explain", "m.bpuc", "certificates", "c1").out
    assert "values of the result beyond the range, in calibration: " in text
