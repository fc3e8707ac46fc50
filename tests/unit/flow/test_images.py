"""Inputs that take pixels: compiled programs against the float model on the same pixels, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from click.testing import CliRunner
from onnx import helper
from PIL import Image as Picture

from bpuc.base.errors import BpucError, DataError
from bpuc.cli.main import cli
from bpuc.flow.compile import compile_model
from bpuc.flow.request import make_request
from bpuc.perf import estimate
from bpuc.plugins import get_target
from bpuc.program import Program
from bpuc.program.container import from_bytes, to_bytes
from bpuc.sim.run import run_program
from tests.unit.ops.onnx_cases import model

RNG = np.random.default_rng(5)
NORM = "  mean_value: 123.675 116.28 103.53\n  scale_value: 0.0171 0.0175 0.0174\n"
W = RNG.normal(size=(8, 3, 3, 3)).astype(np.float32) * 0.2
B = RNG.normal(size=8).astype(np.float32)


def write(
    folder: Path, readers: str, train: str, rt: str, layout: str, norm: str = NORM, rt_layout: str = "NHWC"
) -> str:
    """A small model and its configuration; `readers`: conv (padded), valid (not padded) or both (a Conv and a Relu)."""
    nodes = [] if layout == "NCHW" else [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2])]
    source = "x" if layout == "NCHW" else "t"
    pads = [0, 0, 0, 0] if readers == "valid" else [1, 1, 1, 1]
    nodes += [helper.make_node("Conv", [source, "w", "b"], ["y"], "conv", pads=pads, strides=[2, 2])]
    outputs = ["y"]
    if readers == "both":
        nodes += [helper.make_node("Relu", [source], ["z"], "relu")]
        outputs += ["z"]
    shape = (1, 3, 16, 12) if layout == "NCHW" else (1, 16, 12, 3)
    path = folder / "m.onnx"
    path.write_bytes(model(nodes, {"x": shape}, outputs, {"w": W, "b": B}).SerializeToString())
    (folder / "c.yaml").write_text(
        f"model_parameters: {{onnx_model: m.onnx, march: bayes-e}}\ninput_parameters:\n  input_type_train: {train}\n"
        f"  input_type_rt: {rt}\n  input_layout_train: {layout}\n  input_layout_rt: {rt_layout}\n{norm}"
    )
    return str(path)


def compiled(folder: Path, **options: Any) -> Program:
    request = make_request(
        None, config=str(folder / "c.yaml"), data=str(folder / "d.npz"), observer="min_max", **options
    )
    return compile_model(request).program


def ops(program: Program) -> list[str]:
    return [n["op"] for n in program.report["nodes"]]


@pytest.mark.parametrize("readers", ["conv", "valid", "both"])
@pytest.mark.parametrize(
    ("train", "rt", "layout"),
    [
        ("rgb", "nv12", "NCHW"),
        ("bgr", "nv12", "NHWC"),
        ("bgr", "yuv444", "NCHW"),
        ("rgb", "bgr", "NCHW"),
        ("rgb", "rgb", "NHWC"),
        ("yuv444", "nv12", "NCHW"),
    ],
)
def test_pixels_give_what_the_float_model_gives(tmp_path: Path, readers: str, train: str, rt: str, layout: str) -> None:
    path = write(tmp_path, readers, train, rt, layout)
    np.savez(tmp_path / "d.npz", x=np.zeros((1, 3, 16, 12) if layout == "NCHW" else (1, 16, 12, 3), np.float32))
    image = compiled(tmp_path).inputs[0].image
    assert image is not None
    pixels = RNG.integers(0, 256, image.port_shape).astype(np.uint8)
    x = image.to_model(pixels)
    np.savez(tmp_path / "d.npz", x=x)
    program = from_bytes(to_bytes(compiled(tmp_path)), "")
    assert "Quantize" not in ops(program)
    assert program.report["inputs"][0]["shape"] == list(pixels.shape)
    assert program.report["inputs"][0]["dtype"] == "uint8"
    got = run_program(program, {"x": pixels})
    for name, value in run_program(program, {"x": pixels}, "reference").items():
        np.testing.assert_array_equal(got[name], value)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    for name, want in zip(program.outputs, session.run(None, {"x": x})):
        # one step of int8 pixels is 1 / 255 of their range; weights and results have steps of 1 / 254 of theirs
        assert np.abs(got[name.name] - want).max() < 0.02 * np.abs(want).max()
    warnings: list[str] = []
    back = run_program(program, {"x": x}, warn=warnings.append)
    np.testing.assert_array_equal(back["y"], got["y"])
    assert "nearest pixels" in warnings[0]


def test_folded_into_the_convolution_unless_another_op_reads_the_input(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=RNG.normal(size=(2, 1, 3, 16, 12)).astype(np.float32))
    write(tmp_path, "conv", "rgb", "nv12", "NCHW")
    assert ops(compiled(tmp_path)) == ["Image", "Conv", "Dequantize"]
    write(tmp_path, "both", "rgb", "nv12", "NCHW")
    assert ops(compiled(tmp_path))[:2] == ["Image", "HzPreprocess"]


def test_nv12_costs_no_time_of_the_cpu_before_the_bpu(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=RNG.normal(size=(2, 1, 3, 16, 12)).astype(np.float32))
    write(tmp_path, "conv", "rgb", "nv12", "NCHW")
    rows = {o["op"]: o for o in estimate(compiled(tmp_path), get_target("bayes-e"))["ops"]}
    assert (rows["Image"]["device"], rows["Image"]["compute_us"]) == ("BPU", 0.0)
    write(tmp_path, "conv", "rgb", "rgb", "NCHW")
    rows = {o["op"]: o for o in estimate(compiled(tmp_path), get_target("bayes-e"))["ops"]}
    assert rows["Image"]["compute_us"] > 0


def test_floats_in_the_shape_of_pixels_must_be_pixels(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=RNG.normal(size=(2, 1, 3, 16, 12)).astype(np.float32))
    write(tmp_path, "conv", "rgb", "nv12", "NCHW")
    program = compiled(tmp_path)
    pixels = RNG.integers(0, 256, (24, 12)).astype(np.uint8)
    want = run_program(program, {"x": pixels})
    got = run_program(program, {"x": pixels.astype(np.float32)})
    np.testing.assert_array_equal(got["y"], want["y"])
    for wrong in (pixels - 0.5, pixels - 300.0, pixels * 1e9 + 256):
        with pytest.raises(DataError, match="not all of its values can be kept in uint8"):
            run_program(program, {"x": wrong.astype(np.float32)})


def test_a_folder_of_images_is_the_same_at_calibration_and_at_run(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for i in range(3):
        Picture.fromarray(RNG.integers(0, 256, (20, 30, 3)).astype(np.uint8)).save(folder / f"{i}.png")
    write(tmp_path, "conv", "rgb", "nv12", "NCHW")
    with (tmp_path / "c.yaml").open("a") as f:
        f.write("bpuc: {preprocess: {resize: letterbox, interpolation: opencv_bilinear}}\n")
    args = ["compile", "-c", str(tmp_path / "c.yaml"), "--data", str(folder), "-o", str(tmp_path / "m.bpuc")]
    assert CliRunner().invoke(cli, args).exit_code == 0
    args = ["run", str(tmp_path / "m.bpuc"), "--inputs", str(folder), "-o", str(tmp_path / "o.npz")]
    assert CliRunner().invoke(cli, args).exit_code == 0
    got = np.load(tmp_path / "o.npz")["y"]
    from bpuc.config import load_config
    from bpuc.data import InputSpec, open_data

    spec = InputSpec("x", (1, 3, 16, 12))
    source = open_data(folder, [spec], load_config(tmp_path / "c.yaml"))
    session = ort.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    want = np.stack([session.run(None, sample)[0] for sample in source])
    assert got.shape == want.shape
    assert np.abs(got - want).max() < 0.02 * np.abs(want).max()


@pytest.mark.parametrize(
    ("rt", "norm", "words"),
    [
        ("nv12", "  input_shape: 1x3x15x12\n", "even height and width, not 15x12"),
        ("rgb", "  scale_value: 0\n", "a scale_value is 0"),
    ],
)
def test_refusals(tmp_path: Path, rt: str, norm: str, words: str) -> None:
    write(tmp_path, "conv", "rgb", rt, "NCHW", norm)
    if "15" in norm:
        path = tmp_path / "m.onnx"
        node = helper.make_node("Conv", ["x", "w", "b"], ["y"], "conv")
        path.write_bytes(model([node], {"x": (1, 3, 15, 12)}, ["y"], {"w": W, "b": B}).SerializeToString())
    np.savez(tmp_path / "d.npz", x=np.zeros((1, 3, 16, 12), np.float32))
    with pytest.raises(BpucError, match=words):
        compiled(tmp_path)


def test_the_model_must_take_such_an_image(tmp_path: Path) -> None:
    write(tmp_path, "conv", "gray", "gray", "NCHW", "")
    with pytest.raises(BpucError, match="which no gray image in NCHW has"):
        compiled(tmp_path)
