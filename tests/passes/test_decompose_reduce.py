"""Reductions taken apart: where they run, in which types, and what that costs in accuracy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from bpuc.cli.main import cli

SHAPE, AXIS = (1, 4, 12, 96), 3
FLOAT = {
    "ReduceL1": lambda x: np.abs(x).sum(AXIS + 1, keepdims=True),
    "ReduceL2": lambda x: np.sqrt((x * x).sum(AXIS + 1, keepdims=True)),
    "ReduceSumSquare": lambda x: (x * x).sum(AXIS + 1, keepdims=True),
}


def compiled(folder: Path, kind: str, march: str, *options: str) -> tuple[dict[str, Any], np.ndarray]:
    """The report, and the op's results [4, *shape] on samples of the seed 1."""
    axes = numpy_helper.from_array(np.array([AXIS], np.int64), "axes")
    graph = helper.make_graph(
        [helper.make_node(kind, ["x", "axes"], ["y"], name="norm")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (*SHAPE[:AXIS], 1))],
        [axes],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, folder / "m.onnx")
    return ran(folder, march, samples(0), samples(1), *options)


def ran(folder: Path, march: str, calib: np.ndarray, test: np.ndarray, *options: str) -> tuple[dict[str, Any], Any]:
    """The report of m.onnx compiled, and its result y for each sample of `test`."""
    np.savez(folder / "calib.npz", x=calib)
    np.savez(folder / "test.npz", x=test)
    files = {name: str(folder / name) for name in ("m.onnx", "calib.npz", "test.npz", "m.bpuc", "out.npz", "r.json")}
    for words in (
        ["compile", files["m.onnx"], "--march", march, "--data", files["calib.npz"], "--observer", "min_max",
         "-o", files["m.bpuc"], "--report", files["r.json"], *options],
        ["run", files["m.bpuc"], "--inputs", files["test.npz"], "-o", files["out.npz"]],
    ):  # fmt: skip
        result = CliRunner().invoke(cli, words)
        assert result.exit_code == 0, result.output
    with np.load(folder / "out.npz") as out:
        return json.loads((folder / "r.json").read_text()), out["y"]


def samples(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((4, *SHAPE)).astype(np.float32)


def sqnr(want: np.ndarray, got: np.ndarray) -> float:
    return float(10 * np.log10((want**2).mean() / ((got - want) ** 2).mean()))


def rounded(x: np.ndarray, threshold: float) -> np.ndarray:
    step = threshold / 127
    return np.clip(np.floor(x / step + 0.5), -128, 127) * step


@pytest.mark.parametrize("kind", FLOAT)
def test_parts_run_on_the_bpu_as_well_as_int8_ports_allow(tmp_path, kind):
    report, got = compiled(tmp_path, kind, "bayes-e")
    assert {n["op"] for n in report["nodes"] if n["device"] == "CPU"} == {"Quantize", "Dequantize"}
    assert all(n["onnx_nodes"] == ["norm"] for n in report["nodes"] if n["device"] == "BPU")
    tensors = {t["name"]: t for t in report["tensors"]}
    x = samples(1).astype(np.float64)
    want = FLOAT[kind](x)
    # nothing but the input and the result rounded to int8
    best = rounded(FLOAT[kind](rounded(x, tensors["x"]["threshold"])), tensors["y"]["threshold"])
    assert sqnr(want, got) > sqnr(want, best) - 0.5


def test_inner_tensors_are_int16_where_the_march_has_it(tmp_path):
    report, _ = compiled(tmp_path, "ReduceL2", "bayes-e")
    types = {t["name"]: t["dtype"] for t in report["tensors"]}
    assert [types[n] for n in ("x", "y_squares", "y_sum", "y")] == ["int8", "int16", "int16", "int8"]


def test_the_users_type_wins(tmp_path):
    report, _ = compiled(tmp_path, "ReduceL2", "bayes-e", "--dtype=y_squares=int8", "--dtype=y_sum=int8")
    types = {t["name"]: t["dtype"] for t in report["tensors"]}
    assert [types[n] for n in ("y_squares", "y_sum")] == ["int8", "int8"]


def test_without_a_reduction_on_the_bpu_all_of_it_is_on_the_cpu(tmp_path):
    report, got = compiled(tmp_path, "ReduceL2", "bernoulli2")
    assert {n["device"] for n in report["nodes"]} == {"CPU"}
    assert not [w for w in report["warnings"] if "int16" in w["code"]]
    np.testing.assert_allclose(got, FLOAT["ReduceL2"](samples(1)), rtol=1e-5)


def test_a_pin_keeps_it_whole(tmp_path):
    report, _ = compiled(tmp_path, "ReduceL2", "bayes-e", "--run-on-cpu=ReduceL2")
    assert [(n["op"], n["device"]) for n in report["nodes"]] == [("ReduceL2", "CPU")]


def test_a_mean_over_three_axes_runs_on_the_bpu(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("ReduceMean", ["x"], ["y"], name="mean", axes=[1, 2, 3], keepdims=0)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1,))],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9), tmp_path / "m.onnx")
    x = samples(0) + np.arange(1, 5, dtype=np.float32).reshape(4, 1, 1, 1, 1)
    report, got = ran(tmp_path, "bayes-e", x, x)
    assert [(n["op"], n["device"]) for n in report["nodes"][1:-1]] == [("ReduceMean", "BPU")] * 2
    want = x.reshape(4, -1).mean(1)
    step = next(t["scale"] for t in report["tensors"] if t["name"] == "y")
    np.testing.assert_allclose(got.reshape(-1), want, atol=0.6 * step)
