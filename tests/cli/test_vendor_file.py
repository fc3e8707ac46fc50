"""A configuration file of the vendor's tools, as the model zoo has them, works unchanged with every command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import helper
from PIL import Image

from bpuc.cli.main import cli
from tests.unit.ops.onnx_cases import model

FILE = """
model_parameters:
  onnx_model: './yolo.onnx'
  march: "bayes-e"
  layer_out_dump: False
  working_dir: 'results'
  output_model_file_prefix: 'yolo_nv12'
  node_info: {"/attn/Softmax": {'ON': 'BPU', 'InputType': 'int16', 'OutputType': 'int16'}}
  remove_node_type: "Quantize; Transpose;Dequantize"
input_parameters:
  input_name: ""
  input_type_rt: 'nv12'
  input_type_train: 'rgb'
  input_layout_train: 'NCHW'
  norm_type: 'data_scale'
  scale_value: 0.003921568627451
calibration_parameters:
  cal_data_dir: './calibration_f32'
  cal_data_type: 'float32'
  calibration_type: 'default'
  optimization: set_Softmax_input_int8,set_Softmax_output_int8
compiler_parameters:
  jobs: 16
  compile_mode: 'latency'
  debug: True
  optimize_level: 'O3'
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    w1 = rng.normal(size=(8, 3, 3, 3)).astype(np.float32)
    w2 = rng.normal(size=(10, 8, 1, 1)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["images", "w1"], ["a"], "first", pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Conv", ["b", "w2"], ["c"], "second"),
        helper.make_node("Softmax", ["c"], ["d"], "/attn/Softmax", axis=1),
        helper.make_node("Transpose", ["d"], ["out"], "tail", perm=[0, 2, 3, 1]),
    ]
    m = model(nodes, {"images": (1, 3, 32, 32)}, ["out"], {"w1": w1, "w2": w2})
    (tmp_path / "yolo.onnx").write_bytes(m.SerializeToString())
    (tmp_path / "config.yaml").write_text(FILE)
    for name in ("calibration_f32", "images"):
        (tmp_path / name).mkdir()
    for i in range(3):
        rng.uniform(0, 255, (1, 3, 32, 32)).astype(np.float32).tofile(tmp_path / "calibration_f32" / f"{i}.rgbchw")
        Image.fromarray(rng.integers(0, 256, (40, 60, 3)).astype(np.uint8)).save(tmp_path / "images" / f"{i}.jpg")
    return tmp_path


def run(*args: str | Path) -> str:
    result = CliRunner().invoke(cli, [str(a) for a in args])
    assert result.exit_code == 0, result.output
    return result.output


def test_every_command(folder: Path) -> None:
    config = folder / "config.yaml"
    assert "0 CPU ops" in run("check", "-c", config)
    run("calibrate", "-c", config, "-o", folder / "x.calib.json")
    run("compile", "-c", config, "--report", folder / "r.json")
    binary = folder / "results" / "yolo_nv12.bpuc"
    report = json.loads((folder / "r.json").read_text())
    assert [n["op"] for n in report["nodes"]] == ["Image", "Conv", "Conv", "Softmax"]
    assert report["inputs"][0]["shape"] == [48, 32]
    assert (report["outputs"][0]["dtype"], report["outputs"][0]["shape"]) == ("int16", [1, 10, 16, 16])
    assert "images_Image" in run("perf", "-c", config)
    run("run", binary, "--inputs", folder / "images", "-o", folder / "o.npz")
    out = np.load(folder / "o.npz")["out"]
    assert (out.shape, out.dtype) == ((3, 1, 10, 16, 16), np.int16)
    np.testing.assert_allclose((out * report["outputs"][0]["scale"]).sum(2), 1, atol=0.05)


def test_measurements_run_the_model_as_it_is(folder: Path) -> None:
    config = folder / "config.yaml"
    rows = json.loads(
        run("compare-scales", "-c", config, "--json", folder / "s.json") and (folder / "s.json").read_text()
    )
    rows = rows if isinstance(rows, list) else next(v for v in rows.values() if isinstance(v, list))
    assert all(r["cosine"] > 0.99 for r in rows)
    run("compile", "-c", config, "--check-numerics", "--keep-stages", folder / "stages")
    assert len(list((folder / "stages").iterdir())) == 5
