"""Outputs of the user's choice, ops deleted at the ends, and types for single sides of nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from bpuc.base.errors import ConfigError
from bpuc.flow.compile import compile_model
from bpuc.flow.request import make_request
from bpuc.program import Program
from bpuc.sim.run import run_program
from tests.unit.lower.bench import exact_weights, int8s
from tests.unit.lower.test_accumulate import conv2d
from tests.unit.ops.onnx_cases import model

W = exact_weights((2, 3, 1, 1), [2**-7] * 2)
node = helper.make_node
NODES = [
    node("Transpose", ["x"], ["t"], "first", perm=[0, 3, 1, 2]),
    node("Relu", ["t"], ["r"], "relu"),
    node("Conv", ["r", "w"], ["c"], "conv"),
    node("Transpose", ["c"], ["y"], "last", perm=[0, 2, 3, 1]),
]
FIXED = {"x": 2**-6, "r": 2**-6}


def build(folder: Path, text: str, nodes: Any = NODES, scales: Any = FIXED, **options: Any) -> Program:
    (folder / "m.onnx").write_bytes(model(nodes, {"x": (1, 4, 5, 3)}, ["y"], {"w": W}).SerializeToString())
    (folder / "c.yaml").write_text(f"model_parameters:\n  march: bayes-e\n  onnx_model: m.onnx\n{text}")
    fixed = [f"{k}={v}" for k, v in scales.items()]
    return compile_model(make_request(None, config=str(folder / "c.yaml"), fixed_scale=fixed, **options)).program


def shapes(program: Program) -> list[tuple[tuple[int, ...], str]]:
    return [(p.shape, p.ref.dtype.value) for p in (*program.inputs, *program.outputs)]


def sums(x: np.ndarray) -> np.ndarray:
    return conv2d(np.maximum(x, 0).transpose(0, 3, 1, 2) * 2**-6, W)


def test_quantize_and_dequantize_go(tmp_path: Path) -> None:
    program = build(tmp_path, "  remove_node_type: Quantize;Dequantize\n")
    assert shapes(program) == [((1, 4, 5, 3), "int8"), ((1, 4, 5, 2), "int32")]
    x = int8s((1, 4, 5, 3)).astype(np.int8)
    want = sums(x).transpose(0, 2, 3, 1) / 2**-13
    for engine in ("fast", "reference"):
        np.testing.assert_array_equal(run_program(program, {"x": x}, engine)["y"], want)
    (port,) = program.report["outputs"]
    assert (port["dtype"], port["scale"]) == ("int32", [2**-13] * 2)
    with pytest.raises(Exception, match="has type float32"):
        run_program(program, {"x": x.astype(np.float32)})


@pytest.mark.parametrize("words", ["Transpose", "Transpose;Dequantize", "Quantize;Transpose;Dequantize;Cast;Reshape"])
def test_what_moves_values_goes_at_both_ends(tmp_path: Path, words: str) -> None:
    program = build(tmp_path, f"  remove_node_type: {words}\n")
    kinds = ["int8" if "Quantize" in words.split(";") else "float32", "int32" if "Deq" in words else "float32"]
    assert shapes(program) == [((1, 3, 4, 5), kinds[0]), ((1, 2, 4, 5), kinds[1])]
    x = int8s((1, 4, 5, 3))
    feed = x.transpose(0, 3, 1, 2)
    feed = feed.astype(np.int8) if kinds[0] == "int8" else (feed * 2**-6).astype(np.float32)
    got = run_program(program, {"x": feed})["y"]
    np.testing.assert_array_equal(got, sums(x) / (2**-13 if kinds[1] == "int32" else 1))


def test_by_name(tmp_path: Path) -> None:
    program = build(tmp_path, "  remove_node_name: last\n")
    assert shapes(program)[1] == ((1, 2, 4, 5), "float32")
    program = build(tmp_path, "  remove_node_name: relu\n")
    (warning,) = [w for w in program.report["warnings"] if w["code"] == "remove-node"]
    assert "relu: it stays" in warning["message"]
    with pytest.raises(ConfigError, match="remove_node_name lst") as e:
        build(tmp_path, "  remove_node_name: lst\n")
    assert "last" in str(e.value.hint)


def test_a_softmax_goes(tmp_path: Path) -> None:
    nodes = [node("Conv", ["t", "w"], ["c"], "conv"), node("Softmax", ["c"], ["y"], "soft", axis=1)]
    scales = {"x": 2**-6, "c": 2**-3}
    program = build(tmp_path, "  remove_node_type: Softmax\n", [NODES[0], *nodes], scales)
    assert "Softmax" not in [n["op"] for n in program.report["nodes"]]
    x = int8s((1, 4, 5, 3))
    want = conv2d(x.transpose(0, 3, 1, 2) * 2**-6, W)
    got = run_program(program, {"x": (x * 2**-6).astype(np.float32)})["y"]
    np.testing.assert_array_equal(got, np.clip(np.floor(want / 2**-3 + 0.5), -128, 127) * 2**-3)


@pytest.mark.parametrize("name", ["conv", "c"])
def test_output_nodes(tmp_path: Path, name: str) -> None:
    program = build(tmp_path, f"  output_nodes: {name};relu\n")
    assert [p.name for p in program.outputs] == ["c", "r"]
    assert "last" not in [n["name"] for n in program.report["nodes"]]
    with pytest.raises(ConfigError, match="output_nodes cnv"):
        build(tmp_path, "  output_nodes: cnv\n")


def tensors(program: Program) -> dict[str, str]:
    return {t["name"]: t["dtype"] for t in program.report["tensors"]}


def test_types_of_one_side(tmp_path: Path) -> None:
    found = tensors(build(tmp_path, "  node_info: {conv: {InputType0: int16}}\n"))
    assert (found["r"], found["c"]) == ("int16", "int32")
    found = tensors(build(tmp_path, "calibration_parameters: {optimization: set_Conv_output_int16}\n"))
    assert (found["r"], found["c"]) == ("int8", "int16")
    with pytest.raises(ConfigError, match="Cnv: no node and no op type"):
        build(tmp_path, "calibration_parameters: {optimization: set_Cnv_output_int16}\n")


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_the_type_of_outputs(tmp_path: Path, dtype: str) -> None:
    found = tensors(build(tmp_path, f"calibration_parameters: {{optimization: set_model_output_{dtype}}}\n"))
    assert (found["y"], found["r"]) == (dtype, "int8")


def told_twice(folder: Path, more: str, **options: Any) -> set[str]:
    text = "input_parameters: {input_type_train: rgb, input_layout_train: NHWC, mean_value: 120, scale_value: 0.02}\n"
    found = build(folder, f"{text}{more}", scales={}, **options).report["warnings"]
    return {w["message"] for w in found if w["code"] == "normalized-twice"}


def test_samples_that_are_normalized_already(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    np.save(folder / "0.npy", np.linspace(-2, 2, 60, dtype=np.float32).reshape(1, 4, 5, 3))
    (text,) = told_twice(tmp_path, f"calibration_parameters: {{cal_data_dir: {folder}}}\n")
    assert "reach 2 before mean_value" in text
    np.save(folder / "0.npy", np.linspace(0, 255, 60, dtype=np.float32).reshape(1, 4, 5, 3))
    assert not told_twice(tmp_path, f"calibration_parameters: {{cal_data_dir: {folder}}}\n")


def test_a_model_that_normalizes_itself(tmp_path: Path) -> None:
    nodes = [node("Mul", ["x", "s"], ["m"], "own"), node("Relu", ["m"], ["y"], "relu")]
    path = tmp_path / "own.onnx"
    path.write_bytes(model(nodes, {"x": (1, 4, 5, 3)}, ["y"], {"s": np.float32(1 / 255)}).SerializeToString())
    text = "input_parameters: {input_type_train: rgb, input_layout_train: NHWC, scale_value: 0.02}\n"
    (tmp_path / "c.yaml").write_text(text)
    found = compile_model(make_request(str(path), "bayes-e", str(tmp_path / "c.yaml"))).program.report["warnings"]
    assert any("normalized by Mul own of the model" in w["message"] for w in found)
