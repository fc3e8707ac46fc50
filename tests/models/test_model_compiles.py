"""The models do what they are there for, through the command line."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import models
from bpuc.cli.main import cli

FOLDER = Path(models.__file__).parent


def bpuc(*args: object) -> None:
    result = CliRunner().invoke(cli, [str(arg) for arg in args])
    assert result.exit_code == 0, result.output


def compiled(folder: Path, name: str, *options: str, march: str = "bayes-e") -> tuple[Path, dict]:
    """Compile a model on its own data; gives the binary and the report."""
    data = FOLDER / ("digits_calib.npz" if name == "digits_inception" else f"{name}_calib.npz")
    binary, report = folder / "x.bpuc", folder / "report.json"
    model = FOLDER / f"{name}.onnx"
    bpuc("compile", model, "--march", march, "--data", data, "-o", binary, "--report", report, *options)
    return binary, json.loads(report.read_text(encoding="utf-8"))


def ran(folder: Path, binary: Path, data: Path, *options: str) -> dict[str, np.ndarray]:
    """What both engines give; they must agree."""
    outs = []
    for engine in ("fast", "reference"):
        bpuc("run", binary, "--inputs", data, "-o", folder / f"{engine}.npz", "--engine", engine, *options)
        with np.load(folder / f"{engine}.npz") as z:
            outs.append(dict(z))
    for name in outs[0]:
        np.testing.assert_array_equal(outs[0][name], outs[1][name])
    return outs[0]


def test_kv_concat_104_rescales_or_none(tmp_path):
    _, naive = compiled(tmp_path, "kv_concat", "--share-scales", "never")
    _, shared = compiled(tmp_path, "kv_concat")
    assert (len(naive["rescales"]), len(shared["rescales"])) == (104, 0)
    avoided = shared["avoided"]
    assert sorted((r["node"], r["tensor"]) for r in avoided) == sorted(
        (r["node"], r["tensor"]) for r in naive["rescales"]
    )
    assert all(r["latency_us"] > 0 for r in avoided)


def test_digits_keep_their_accuracy(tmp_path):
    binary, report = compiled(tmp_path, "digits_inception")
    assert {node["op"] for node in report["nodes"] if node["device"] == "CPU"} <= {"Quantize", "Dequantize"}
    assert report["rescales"] == []
    bpuc("run", binary, "--inputs", FOLDER / "digits_eval.npz", "-o", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as out, np.load(FOLDER / "digits_labels.npz") as truth:
        right = (out["logits"].reshape(500, 10).argmax(1) == truth["label"]).mean()
    assert right >= 0.984 - 0.01


def test_add_with_fixed_scales_to_the_integer(tmp_path):
    """At 1/32, 1/32 and 1/16 the sum of the integers is halved, and a half goes up."""
    fixed = [f"--fixed-scale={name}={scale}" for name, scale in (("x1", 1 / 32), ("x2", 1 / 32), ("y", 1 / 16))]
    binary, report = compiled(tmp_path, "add_fixed", *fixed)
    scales = {t["name"]: (t["scale"], t["dtype"]) for t in report["tensors"]}
    assert [scales[name] for name in ("x1", "x2", "y")] == [(1 / 32, "int8"), (1 / 32, "int8"), (1 / 16, "int8")]
    out = ran(tmp_path, binary, FOLDER / "add_fixed_calib.npz", "--integers")
    with np.load(FOLDER / "add_fixed_calib.npz") as data:
        a, b = (np.rint(data[name] * 32).astype(np.int64) for name in ("x1", "x2"))
    np.testing.assert_array_equal(out["y"], np.clip((a + b + 1) >> 1, -128, 127))


def test_hybrid_is_split_where_it_was_asked_to_be(tmp_path):
    forced = ["Selu", "conv1.conv", "conv3"]
    binary, report = compiled(tmp_path, "hybrid", *(f"--run-on-cpu={name}" for name in forced))
    devices = {node["name"]: node["device"] for node in report["nodes"]}
    on_cpu = {"selu0", "conv1.conv", "conv1.selu", "conv3", "selu1"}
    assert {name for name in on_cpu if devices.get(name) == "CPU"} == on_cpu
    assert {devices[name] for name in ("prelu0", "conv2", "conv4")} == {"BPU"}
    # a table of 2048 values between two CPU ops is not worth a call
    (island,) = (node for node in report["nodes"] if node["name"] == "conv1.prelu")
    assert island["device"] == "CPU"
    assert re.search(r"would cost \d+\.\d us more on the BPU: Quantize .*call .*\(estimate\)", island["reason"])
    out = ran(tmp_path, binary, FOLDER / "hybrid_calib.npz")
    want = float_output("hybrid")
    signal, noise = (want**2).mean(), ((out["out"] - want) ** 2).mean()
    assert 10 * np.log10(signal / noise) > 25


def test_an_island_of_the_hybrid_stays_on_the_bpu_when_asked(tmp_path):
    names = ["Selu", "conv1.conv", "conv3"]
    _, report = compiled(tmp_path, "hybrid", *(f"--run-on-cpu={n}" for n in names), "--run-on-bpu=conv1.prelu")
    assert {node["device"] for node in report["nodes"] if node["name"] == "conv1.prelu"} == {"BPU"}


def test_mlp_in_int16_with_its_norm_in_int8(tmp_path):
    binary, report = compiled(tmp_path, "ln_mlp", "--template=int16", "--dtype=norm=int8")
    dtypes = {t["name"]: t["dtype"] for t in report["tensors"]}
    assert {name: dtypes[name] for name in ("linear1", "norm", "relu", "linear2")} == {
        "linear1": "int16",
        "norm": "int8",
        "relu": "int16",
        "linear2": "int16",
    }
    out = ran(tmp_path, binary, FOLDER / "ln_mlp_calib.npz")
    want = float_output("ln_mlp")
    assert 10 * np.log10((want**2).mean() / ((out["linear3"] - want) ** 2).mean()) > 30


def float_output(name: str) -> np.ndarray:
    """The float model on its calibration data, stacked."""
    ort = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession(str(FOLDER / f"{name}.onnx"), providers=["CPUExecutionProvider"])
    with np.load(FOLDER / f"{name}_calib.npz") as data:
        (key,) = data.files
        return np.stack([session.run(None, {key: x})[0] for x in data[key]])
