"""The search of the observer default: its candidates, when it goes on, and what it says of the vendor's next steps."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.unit.ops.onnx_cases import model

RNG = np.random.default_rng(6)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    w = {"w1": RNG.normal(size=(8, 3, 3, 3)), "w2": RNG.normal(size=(4, 8, 1, 1))}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "c1"),
        helper.make_node("Relu", ["a"], ["b"], "r"),
        helper.make_node("Conv", ["b", "w2"], ["y"], "c2"),
    ]
    m = model(nodes, {"x": (1, 3, 10, 10)}, ["y"], {n: a.astype(np.float32) for n, a in w.items()})
    Path("m.onnx").write_bytes(m.SerializeToString())
    np.savez("d.npz", x=RNG.standard_t(2, (6, 1, 3, 10, 10)).astype(np.float32))
    Path("c.yaml").write_text(
        "model_parameters: {onnx_model: m.onnx, march: bayes-e}\n"
        "calibration_parameters: {calibration_type: default, quant_config: {model_config: {modelwise_search: "
        "{similarity: 0.9999999}}}}\nbpuc: {data: d.npz}\n"
    )
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_it_goes_on_below_the_similarity_and_tells_what_is_not_there(bpuc: Any) -> None:
    words = ["calibrate", "m.onnx", "--data", "d.npz", "--observer", "default", "-o", "c.json", "--observer-opt"]
    done = bpuc(*words, "similarity=0.9999999")
    text = " ".join(done.err.split())
    found = re.search(r"observer default: (\w+) is taken, .* \(tried: (.*?)\)", text)
    assert found is not None
    tried = {name: float(cosine) for name, cosine in (p.split() for p in found[2].split(", "))}
    assert [*tried] == ["max", "percentile", "kl", "mse", "mix", "tuned"]
    assert tried[found[1]] == max(tried.values())
    channels = re.search(r"scales a channel would have (\S+), which compile uses", text)
    assert channels is not None
    assert "an offset, which integers here do not have" in text
    written = json.loads(Path("c.json").read_text())
    assert {t["observer"] for t in written["tensors"].values()} == {found[1]}
    search = written["search"]
    assert search["taken"] == found[1]
    assert {n: round(c, 5) for n, c in search["cosines"].items()} == pytest.approx(tried, abs=2e-5)
    assert search["with_channel_scales"] == pytest.approx(float(channels[1]), abs=2e-5)
    done = bpuc(*words, "similarity=0")
    assert "is taken" not in done.err
    assert json.loads(Path("c.json").read_text())["search"]["with_channel_scales"] is None
    assert bpuc(*words, "similarity=2").code == 2


@pytest.mark.usefixtures("folder")
def test_calibration_type_default_of_a_file_reaches_compile_and_calibrate(bpuc: Any) -> None:
    for command in (["compile", "-c", "c.yaml", "-o", "m.bpuc"], ["calibrate", "-c", "c.yaml", "-o", "c.json"]):
        done = bpuc(*command)
        assert done.code == 0
        assert "observer default: " in done.err
        assert "below 1" in done.err
    assert json.loads(Path("c.json").read_text())["observer"] == "default"
