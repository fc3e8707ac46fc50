"""The use case compile: where scales come from, and what is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from bpuc.base.errors import ConfigError, FileError
from bpuc.calibrate import save_calibration
from bpuc.flow.calibrate import calibrate
from bpuc.flow.compile import compile_model
from bpuc.flow.request import make_request
from bpuc.program.container import to_bytes
from tests.unit.ops.onnx_cases import model


@pytest.fixture
def net(tmp_path: Path) -> str:
    """y = sigmoid(relu(conv(x))), and two samples of x with 4 as the largest value."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["c"], "conv"),
        node("Relu", ["c"], ["r"], "relu"),
        node("Sigmoid", ["r"], ["y"], "sig"),
    ]
    w = np.array([[[[1.0]], [[0.5]]], [[[-1.0]], [[2.0]]]], np.float32)
    (tmp_path / "net.onnx").write_bytes(model(nodes, {"x": (1, 2, 2, 2)}, ["y"], {"w": w}).SerializeToString())
    np.savez(tmp_path / "data.npz", x=np.linspace(-3, 4, 16, dtype=np.float32).reshape(2, 1, 2, 2, 2))
    return str(tmp_path / "net.onnx")


def report(net: str, **options: Any) -> dict[str, Any]:
    return compile_model(make_request(net, "bayes-e", threads=1, **options)).program.report


def tensors(found: dict[str, Any]) -> dict[str, Any]:
    return {t["name"]: t for t in found["tensors"]}


def data(net: str) -> str:
    return str(Path(net).with_name("data.npz"))


def codes(found: dict[str, Any]) -> set[str]:
    return {w["code"] for w in found["warnings"]}


def test_a_march_is_needed(net: str) -> None:
    with pytest.raises(ConfigError, match="no march was named"):
        compile_model(make_request(net, data=data(net)))


def test_thresholds_of_the_data(net: str) -> None:
    found = tensors(report(net, data=data(net), observer="min_max"))
    assert found["x"]["threshold"] == pytest.approx(4.0)
    assert found["x"]["scale"] == pytest.approx(4 / 127)
    assert found["x"]["observer"] == "min_max"
    assert found["w"]["scale"] == pytest.approx([1 / 127, 2 / 127])
    assert (found["w"]["axis"], found["w"]["constant"]) == (0, True)


def test_data_and_their_calibration_file_give_the_same_program(net: str, tmp_path: Path) -> None:
    calibration, _ = calibrate(make_request(net, data=data(net), threads=1))
    save_calibration(calibration, tmp_path / "c.json")
    by_file = compile_model(make_request(net, "bayes-e", calib=str(tmp_path / "c.json"))).program
    by_data = compile_model(make_request(net, "bayes-e", data=data(net), threads=1)).program
    by_file.report = by_data.report = {}
    assert to_bytes(by_file) == to_bytes(by_data)


def test_a_calibration_belongs_to_one_model(net: str, tmp_path: Path) -> None:
    calibration, _ = calibrate(make_request(net, data=data(net), threads=1))
    save_calibration(calibration, tmp_path / "c.json")
    value = json.loads((tmp_path / "c.json").read_text())
    value["model_sha256"] = "0" * 64
    (tmp_path / "c.json").write_text(json.dumps(value))
    with pytest.raises(FileError, match="made for another model"):
        report(net, calib=str(tmp_path / "c.json"))


def test_gaps_of_a_calibration_are_named_or_filled_from_data(net: str, tmp_path: Path) -> None:
    calibration, _ = calibrate(make_request(net, data=data(net), threads=1, observer="min_max"))
    save_calibration(calibration, tmp_path / "c.json")
    value = json.loads((tmp_path / "c.json").read_text())
    del value["tensors"]["r"]
    value["tensors"]["x"]["threshold"] = 12.7
    (tmp_path / "c.json").write_text(json.dumps(value))
    with pytest.raises(FileError, match="no threshold for tensor r"):
        report(net, calib=str(tmp_path / "c.json"))
    found = tensors(report(net, calib=str(tmp_path / "c.json"), data=data(net), observer="min_max"))
    assert found["x"]["scale"] == pytest.approx(0.1), "what the file says stands"
    assert found["r"]["threshold"] == pytest.approx(calibration.tensors["r"].threshold)


def test_random_data_are_called_so(net: str) -> None:
    assert "random-data" in codes(report(net, random_data=True))


def test_without_data_it_is_said_what_is_missing(net: str) -> None:
    found = report(net)
    assert "no-data" in codes(found)
    assert {t["scale"] for t in tensors(found).values() if not t["constant"] and t["scale"]} == {1 / 127}


def test_constant_inputs_are_told(net: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "zero.npz", x=np.zeros((1, 1, 2, 2, 2), np.float32))
    found = report(net, data=str(tmp_path / "zero.npz"))
    assert [w["message"] for w in found["warnings"] if w["code"] == "constant-input"] == [
        "input x is zero in all samples"
    ]


def test_a_fixed_scale_of_a_fused_tensor_is_told(net: str) -> None:
    found = report(net, data=data(net), fixed_scale=["c=0.5"])
    (warning,) = [w for w in found["warnings"] if w["code"] == "fixed-scale"]
    assert warning["where"] == "c"
    assert "fused" in warning["message"]


def test_fixed_scales_are_kept_and_called_fixed(net: str) -> None:
    found = tensors(report(net, data=data(net), fixed_scale=["r=0.0625", "y=0.0078125"]))
    assert (found["r"]["scale"], found["r"]["observer"]) == (0.0625, "fixed")
    assert found["y"]["scale"] == 0.0078125


def test_every_live_tensor_or_its_heir_is_reported(net: str) -> None:
    found = report(net, data=data(net))
    assert {"x", "r", "y", "w"} <= set(tensors(found))
    nodes = {n["name"]: n for n in found["nodes"]}
    assert nodes["conv"]["onnx_nodes"] == ["conv", "relu"]
    assert nodes["conv"]["outputs"] == ["r"]


def test_pins_split_the_net_and_conversions_show(net: str) -> None:
    found = report(net, data=data(net), run_on_cpu=["relu"], run_on_bpu=["conv", "sig"])
    nodes = {n["name"]: n for n in found["nodes"]}
    assert nodes["relu"]["device"] == "CPU"
    assert "--run-on-cpu" in nodes["relu"]["reason"]
    order = [n["op"] for n in found["nodes"]]
    assert order == ["Quantize", "Conv", "Dequantize", "Relu", "Quantize", "Sigmoid", "Dequantize"]
    assert [s["device"] for s in found["segments"]] == ["CPU", "BPU", "CPU", "BPU", "CPU"]
