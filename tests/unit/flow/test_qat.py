"""Models that carry their own scales: Q/DQ pairs and QLinear operators, with and without data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from bpuc import backend
from bpuc.base.errors import ConfigError
from bpuc.calibrate import save_calibration
from bpuc.flow.calibrate import calibrate
from bpuc.flow.compile import compile_model
from bpuc.flow.request import make_request
from bpuc.passkit import CompileOptions, PassContext
from bpuc.passkit.context import FileScale
from bpuc.sim.run import run_program
from tests.unit.ops.onnx_cases import run

QDQ = """
<ir_version: 8, opset_import: ["": 13]>
g (float[1, 2, 4, 4] x) => (float[1, 4, 4, 4] y)
<float sx = {0.03125}, int8 z = {0}, float sa = {0.0625}, float sb = {0.03125}, float sy = {0.0625},
 int8[2, 2, 1, 1] w = {3, -5, 127, 64}, float[2] sw = {0.0078125, 0.015625}, int8[2] zw = {0, 0}>
{
  xq = QuantizeLinear(x, sx, z)      xd = DequantizeLinear(xq, sx, z)
  wd = DequantizeLinear <axis = 0> (w, sw, zw)
  a = Conv(xd, wd)
  aq = QuantizeLinear(a, sa, z)      ad = DequantizeLinear(aq, sa, z)
  b = Relu(xd)
  bq = QuantizeLinear(b, sb, z)      bd = DequantizeLinear(bq, sb, z)
  c = Concat <axis = 1> (ad, bd)
  cq = QuantizeLinear(c, sy, z)      y = DequantizeLinear(cq, sy, z)
}"""


FLOAT_WEIGHTS = "float[2, 2, 1, 1] w = {0.0234375, -0.0390625, 1.984375, 1.0}"  # the same, times their scales

FOUR_CHANNELS = (
    "{3, -5, 127, 64, 9, 8, -100, 30}, float[4] sw = {0.0078125, 0.015625, 0.01, 0.02}, int8[4] zw = {0, 0, 0, 0}"
)


def compiled(text: str | onnx.ModelProto, folder: Path, assume: bool = False, **options: Any) -> Any:
    proto = onnx.parser.parse_model(text) if isinstance(text, str) else text
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    request = make_request(str(folder / "m.onnx"), "bayes-e", threads=1, **options)
    return proto, compile_model(request, assume=assume).program


@pytest.mark.parametrize("way", ["backend", "original_float_model", "optimized_float_model"])
def test_in_float_a_quantized_file_rounds_as_it_says(way: str, tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(QDQ)
    x = np.linspace(-5, 5, 32, dtype=np.float32).reshape(1, 2, 4, 4)
    expected = run(proto, {"x": x})["y"]
    if way == "backend":
        (found,) = backend.run_model(proto, [x])
    else:
        compiled(QDQ, tmp_path, keep_stages=str(tmp_path / "stages"))
        found = run(onnx.load(tmp_path / "stages" / f"m_{way}.onnx"), {"x": x})["y"]
    np.testing.assert_array_equal(found, expected)
    assert expected.max() == 4.0  # of 5.0, cut off at 127 / 32 and rounded to sixteenths


def scales(program: Any) -> dict[str, Any]:
    return {t["name"]: t["scale"] for t in program.report["tensors"]}


@pytest.mark.parametrize(("mode", "rescales"), [("fold", 0), ("strict", 1)])
def test_scales_of_the_file_give_its_integers(mode: str, rescales: int, tmp_path: Path) -> None:
    """No data: every scale is in the file. The result is onnxruntime's on the file's own integers."""
    proto, program = compiled(QDQ, tmp_path, qat_scales=mode)
    x = np.random.default_rng(1).uniform(-4, 4, (1, 2, 4, 4)).astype(np.float32)
    found = run_program(program, {"x": x})["y"]
    expected = run(proto, {"x": x})["y"]
    assert np.abs(found - expected).max() <= 0.0625 + 1e-6
    assert np.mean(found == expected) > 0.9
    assert len(program.report["rescales"]) == rescales
    known = scales(program)
    assert known["x"] == 0.03125
    assert known["wd"] == [0.0078125, 0.015625]
    assert known["y"] == 0.0625
    assert known["b"] == (0.03125 if mode == "strict" else 0.0625)
    observers = {t["name"]: t["observer"] for t in program.report["tensors"]}
    assert observers["x"] == "qdq"


def test_uint8_around_128_is_the_same_in_int8(tmp_path: Path) -> None:
    text = QDQ.replace("float sx = {0.03125}, int8 z = {0}", "float sx = {0.03125}, uint8 u = {128}, int8 z = {0}")
    text = text.replace("(x, sx, z)", "(x, sx, u)").replace("(xq, sx, z)", "(xq, sx, u)")
    _, program = compiled(text, tmp_path)
    assert scales(program)["x"] == 0.03125
    assert not [w for w in program.report["warnings"] if w["code"] == "zero-point"]


def test_a_zero_point_that_costs_a_bit_is_told(tmp_path: Path) -> None:
    text = QDQ.replace("int8 z = {0}", "int8 z = {0}, uint8 u = {0}").replace("(b, sb, z)", "(b, sb, u)")
    text = text.replace("(bq, sb, z)", "(bq, sb, u)")
    _, program = compiled(text, tmp_path, qat_scales="strict")
    assert [w["where"] for w in program.report["warnings"] if w["code"] == "zero-point"] == ["b"]
    assert scales(program)["b"] == 0.0625  # the concat's


def test_what_the_file_leaves_out_needs_data(tmp_path: Path) -> None:
    text = QDQ.replace("c = Concat <axis = 1> (ad, bd)", "e = Exp(bd) c = Concat <axis = 1> (ad, e)")
    text = text.replace("cq = QuantizeLinear(c, sy, z)      y = DequantizeLinear(cq, sy, z)", "y = Tanh(c)")
    with pytest.raises(ConfigError, match="no scale to tensor e"):
        compiled(text, tmp_path)
    np.savez(tmp_path / "d.npz", x=np.linspace(-1, 1, 32, dtype=np.float32).reshape(1, 1, 2, 4, 4))
    _, program = compiled(text, tmp_path, data=str(tmp_path / "d.npz"))
    assert scales(program)["x"] == 0.03125


def test_a_model_without_scales_needs_data(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["": 13]> g (float[1, 4] x) => (float[1, 4] y) { y = Relu(x) }'
    with pytest.raises(ConfigError, match="nothing to choose scales from"):
        compiled(text, tmp_path)


def test_the_user_s_scale_wins(tmp_path: Path) -> None:
    _, program = compiled(QDQ, tmp_path, fixed_scale=["x=0.5"])
    assert scales(program)["x"] == 0.5


def test_qlinear_conv_is_compiled_with_its_scales(tmp_path: Path) -> None:
    """QuantizeLinear, QLinearConv, DequantizeLinear against onnxruntime's own integers."""
    text = """
    <ir_version: 8, opset_import: ["": 13]> g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y)
    <float sx = {0.03125}, int8 z = {0}, float sy = {0.0625}, int8[2, 2, 1, 1] w = {3, -5, 127, 64},
     float[2] sw = {0.0078125, 0.015625}, int8[2] zw = {0, 0}, int32[2] bias = {100, -2000}>
    {
      xq = QuantizeLinear(x, sx, z)
      q = QLinearConv(xq, sx, z, w, sw, zw, sy, z, bias)
      y = DequantizeLinear(q, sy, z)
    }"""
    proto, program = compiled(text, tmp_path)
    assert [n["op"] for n in program.report["nodes"] if n["device"] == "BPU"] == ["Conv"]
    x = np.random.default_rng(2).uniform(-4, 4, (1, 2, 4, 4)).astype(np.float32)
    found, expected = run_program(program, {"x": x})["y"], run(proto, {"x": x})["y"]
    assert np.abs(found - expected).max() <= 0.0625 + 1e-6


def test_a_calibration_of_a_quantized_model_holds_the_file_s_scales(tmp_path: Path) -> None:
    """Calibrated on data twice as large as the file's range, compiled from the calibration alone."""
    (tmp_path / "m.onnx").write_bytes(onnx.parser.parse_model(QDQ).SerializeToString())
    np.savez(tmp_path / "d.npz", x=np.linspace(-8, 8, 64, dtype=np.float32).reshape(2, 1, 2, 4, 4))
    made, _ = calibrate(make_request(str(tmp_path / "m.onnx"), data=str(tmp_path / "d.npz"), threads=1))
    assert (made.tensors["x"].threshold, made.tensors["x"].observer) == (0.03125 * 127, "qdq")
    assert made.weights["wd"][0] == [0.0078125 * 127, 0.015625 * 127]
    save_calibration(made, tmp_path / "c.json")
    _, program = compiled(QDQ, tmp_path, calib=str(tmp_path / "c.json"))
    known = scales(program)
    assert (known["x"], known["wd"], known["y"]) == (0.03125, [0.0078125, 0.015625], 0.0625)


def test_a_model_of_fake_quant_nodes_from_yaml(tmp_path: Path) -> None:
    """As PyTorch exports it for opset 11: weights in float behind a Q/DQ pair of their own, an axis in it."""
    text = QDQ.replace('"": 13', '"": 11').replace("int8[2, 2, 1, 1] w = {3, -5, 127, 64}", FLOAT_WEIGHTS)
    text = text.replace("wd = Dequ", "wq = QuantizeLinear <axis = 0> (w, sw, zw) wd = Dequ")
    text = text.replace("DequantizeLinear <axis = 0> (w,", "DequantizeLinear <axis = 0> (wq,")
    (tmp_path / "m.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
    (tmp_path / "c.yaml").write_text(
        "model_parameters: {onnx_model: m.onnx, march: bayes-e}\ncalibration_parameters: {calibration_type: load}"
    )
    program = compile_model(make_request(None, config=str(tmp_path / "c.yaml"), threads=1), assume=False).program
    known = scales(program)
    assert (known["x"], known["y"], known["wd"]) == (0.03125, 0.0625, [0.0078125, 0.015625])


def test_a_sum_of_rounded_results_is_that_of_the_file(tmp_path: Path) -> None:
    """Conv, its result rounded, and a shortcut. Fused, a fifth of the integers would be others than onnxruntime's."""
    text = """
    <ir_version: 8, opset_import: ["": 13]> g (float[1, 2, 8, 8] x) => (float[1, 2, 8, 8] y)
    <float sx = {0.03}, int8 z = {0}, float sa = {0.2}, float sy = {0.07},
     int8[2, 2, 1, 1] w = {3, -5, 127, 64}, float[2] sw = {0.0078, 0.0155}, int8[2] zw = {0, 0}>
    {
      xq = QuantizeLinear(x, sx, z)      xd = DequantizeLinear(xq, sx, z)
      wd = DequantizeLinear <axis = 0> (w, sw, zw)
      a = Conv(xd, wd)
      aq = QuantizeLinear(a, sa, z)      ad = DequantizeLinear(aq, sa, z)
      c = Add(ad, xd)
      cq = QuantizeLinear(c, sy, z)      y = DequantizeLinear(cq, sy, z)
    }"""
    proto, program = compiled(text, tmp_path)
    assert [n["op"] for n in program.report["nodes"] if n["device"] == "BPU"] == ["Conv", "Add"]
    x = np.random.default_rng(4).uniform(-4, 4, (1, 2, 8, 8)).astype(np.float32)
    assert np.mean(run_program(program, {"x": x})["y"] == run(proto, {"x": x})["y"]) > 0.98


@pytest.mark.parametrize(
    ("scale", "effort", "expected"),
    [
        (FileScale(0.1, 0.0, 25.5), 1, 3),  # uint8 around 0
        (FileScale(0.1, 0.0, 25.5), 0, 0),
        (FileScale(0.1, -12.8, 12.7), 1, 1),
        (FileScale(0.1, -3276.8, 3276.7, wide=True), 2, 2),
    ],
)
def test_effort_of_int16(scale: FileScale, effort: int, expected: int) -> None:
    ctx = PassContext(options=CompileOptions(effort=effort), file_scales={"a": scale})
    assert ctx.int16_effort == expected
