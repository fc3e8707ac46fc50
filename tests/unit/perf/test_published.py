"""The estimate stays as near to published latencies as the target says, on a few models that come with the project."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bpuc.plugins import get_target
from bpuc.target.hardware import Hardware

FIT = Path(__file__).parents[3] / "targets" / "fit"
FEW = ("convnext-atto", "fasternet-t1", "mobilenetv4-conv-small", "repvgg-a0", "resnet18")


@pytest.fixture
def pairs(monkeypatch):
    monkeypatch.syspath_prepend(str(FIT))
    from pairs import load_pairs

    return load_pairs(FIT / "data", "bayes-e", FEW)


def test_errors_are_those_that_the_target_states(pairs):
    assert [p.name for p in pairs] == list(FEW)
    target = get_target("bayes-e")
    hw, stated = Hardware.of(target), target.accuracy
    errors = [100 * abs(p.predicted_us(hw) / p.measured_us - 1) for p in pairs]
    assert stated is not None
    assert max(errors) <= stated.worst_percent
    assert np.mean(errors) <= stated.mean_percent


def test_the_graphs_may_be_passed_on():
    from csv import DictReader

    with (FIT / "data/graphs/INDEX.csv").open(encoding="utf-8") as f:
        rows = list(DictReader(f))
    assert {r["licence"] for r in rows} == {"Apache-2.0", "BSD-3-Clause"}
    assert {r["graph"].removesuffix(".onnx") for r in rows} == {p.stem for p in (FIT / "data/graphs").glob("*.onnx")}
    assert "timm" in (FIT / "data/NOTICE").read_text("utf-8")
