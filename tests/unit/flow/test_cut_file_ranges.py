"""Quantized files cut off what lies beyond their integers: the program's results beside onnxruntime's there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bpuc.sim.run import run_program
from tests.unit.flow.test_qat import compiled
from tests.unit.ops.onnx_cases import run

HEAD = """
<ir_version: 8, opset_import: ["": 13]> g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y)
<float sx = {0.015625}, TYPE zx = {ZERO}, float sa = {0.03125}, uint8 za = {64}, float sy = {0.03125}, int8 zy = {0},
 int8[2, 2, 1, 1] w = {3, -5, 127, 64}, float[2] sw = {0.0078125, 0.015625}, int8[2] zw = {0, 0}>
{
  xq = QuantizeLinear(x, sx, zx)    xd = DequantizeLinear(xq, sx, zx)
  wd = DequantizeLinear <axis = 0> (w, sw, zw)
"""
# a is cut to -2..5.97
A = "aq = QuantizeLinear(a, sa, za)  ad = DequantizeLinear(aq, sa, za)"
LAST = A + " b = Conv(ad, wd)  yq = QuantizeLinear(b, sy, zy)  y = DequantizeLinear(yq, sy, zy) }"
BODIES = {
    "input": "a = Conv(xd, wd) yq = QuantizeLinear(a, sy, zy)  y = DequantizeLinear(yq, sy, zy) }",
    "conv": "a = Conv(xd, wd) " + LAST,
    "add": "a = Add(xd, xd) " + LAST,
    "leaky": "a = LeakyRelu <alpha = 0.9> (xd) " + LAST,
    "silu": "s = Sigmoid(xd)  a = Mul(xd, s) " + LAST,
    "residual": "b = Conv(xd, wd)  a = Add(b, xd)  aq = QuantizeLinear(a, sa, za)  y = DequantizeLinear(aq, sa, za) }",
}
# Weights of a channel add up to at most 2.98. Steps of x are at most 4 / 127 here and 1 / 64 in the file, those of a
# 5.97 / 127 and 1 / 32, of y 1 / 32: a difference in x makes at most half the sum of both steps times 2.98 in a, ...
_BOUND = ((0.0315 + 0.0157) / 2 * 2.985 + (0.0471 + 0.0313) / 2) * 2.985 + 0.0313


def difference(kind: str, dtype: str, zero: int, folder: Path, **options: Any) -> tuple[float, Any]:
    text = HEAD.replace("TYPE", dtype).replace("ZERO", str(zero)) + BODIES[kind]
    proto, program = compiled(text, folder, **options)
    x = np.random.default_rng(0).uniform(-4, 4, (1, 2, 4, 4)).astype(np.float32)
    expected = run(proto, {"x": x})["y"]
    return float(np.abs(run_program(program, {"x": x})["y"] - expected).max()), program


def data(folder: Path, low: float, high: float) -> str:
    values = np.random.default_rng(1).uniform(low, high, (8, 1, 2, 4, 4)).astype(np.float32)
    np.savez(folder / "d.npz", x=values)
    return str(folder / "d.npz")


@pytest.mark.parametrize("with_data", [False, True])
@pytest.mark.parametrize(("dtype", "zero"), [("uint8", 0), ("int8", -30)])
@pytest.mark.parametrize("kind", list(BODIES))
def test_values_beyond_the_range_end_where_the_file_ends_them(
    kind: str, dtype: str, zero: int, with_data: bool, tmp_path: Path
) -> None:
    options = {"data": data(tmp_path, -4, 4)} if with_data else {}
    found, program = difference(kind, dtype, zero, tmp_path, **options)
    assert found <= _BOUND
    ops = [n["op"] for n in program.report["nodes"] if n["device"] == "BPU"]
    assert ops.count("Clip") == 1  # of the input; the rest is in the op that computes the value
    assert len(ops) == {"input": 2, "residual": 2}.get(kind, 3)


def test_a_symmetric_input_needs_no_clip(tmp_path: Path) -> None:
    found, program = difference("conv", "int8", 0, tmp_path)
    assert found <= _BOUND
    assert [n["op"] for n in program.report["nodes"] if n["device"] == "BPU"] == ["Conv", "Conv"]


def test_an_input_within_the_range_on_all_samples_costs_nothing(tmp_path: Path) -> None:
    _, program = difference("conv", "uint8", 0, tmp_path, data=data(tmp_path, 0, 3.9))
    assert [n["op"] for n in program.report["nodes"] if n["device"] == "BPU"] == ["Conv", "Conv"]


def test_a_reader_in_front_of_the_pair_sees_all_values(tmp_path: Path) -> None:
    """a is read by a pair and, as it is, by an addition: it must not be clamped."""
    text = HEAD.replace("TYPE", "int8").replace("ZERO", "0") + (
        "a = Conv(xd, wd) " + A + " r = Relu(ad) s = Sub(a, r) yq = QuantizeLinear(s, sy, zy)"
        " y = DequantizeLinear(yq, sy, zy) }"
    )
    proto, program = compiled(text, tmp_path, data=data(tmp_path, -2, 2))
    x = np.random.default_rng(0).uniform(-2, 2, (1, 2, 4, 4)).astype(np.float32)
    expected = run(proto, {"x": x})["y"]
    assert expected.min() < -2.5  # below what the pair lets through
    found = run_program(program, {"x": x})["y"]
    assert np.abs(found - expected).max() <= 2 * _BOUND
    assert found.min() < -2.5
