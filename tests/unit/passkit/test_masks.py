"""Masks of attention: what hides positions has no part in any scale, whatever number the exporter hides them with."""

import numpy as np
import onnx
import pytest

from bpuc import backend
from bpuc.flow.compile import compile_model
from bpuc.flow.request import make_request
from bpuc.sim.run import run_program
from tests.unit.ops.onnx_cases import values

HEAD = '<ir_version: 8, opset_import: ["": 17]> '
STATIC = (
    HEAD
    + """g (float[8, 16] x) => (float[8, 16] y) <float one = {1}> {
  t = Transpose(x)  s = MatMul(x, t)  m = Add(s, mask)  p = Softmax(m)  y = MatMul(p, x) }"""
)
CHOSEN = (
    HEAD
    + """g (float[8, 16] x) => (float[8, 16] y) <float one = {1}> {
  t = Transpose(x)  s = MatMul(x, t)  m = Where(there, s, hide)  p = Softmax(m)  y = MatMul(p, x) }"""
)
GIVEN = (
    HEAD
    + """g (float[8, 16] x, int64[1, 8] given) => (float[8, 16] y) <float one = {1}> {
  f = Cast <to = 1> (given)  absent = Sub(one, f)  bias = Mul(absent, hide)
  t = Transpose(x)  s = MatMul(x, t)  m = Add(s, bias)  p = Softmax(m)  y = MatMul(p, x) }"""
)
NUMBERS = [-1e4, -65504.0, -1e9, float(np.finfo(np.float32).min)]


def attention(x, there):
    e = np.where(there, np.exp((x @ x.T).astype(np.float64)), 0)
    return e / e.sum(1, keepdims=True) @ x


def with_constants(text, **constants):
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items())
    return proto


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("text", [STATIC, CHOSEN])
def test_a_mask_in_the_model(text, number, tmp_path):
    there, x = np.tril(np.ones((8, 8), bool)), values((8, 16))
    mask = np.where(there, 0, number).astype(np.float32)
    proto = with_constants(text, mask=mask, there=there, hide=np.float32(number))
    (y,) = backend.run_model(proto, [x], march="bayes-e", observer="min_max")
    assert np.abs(y - attention(x, there)).max() < 0.03 * np.abs(x).max()


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("shown", [True, False])
def test_a_mask_that_is_an_input_hides_also_where_calibration_saw_nothing_hidden(shown, number, tmp_path):
    proto, x = with_constants(GIVEN, hide=np.float32(number)), values((8, 16))
    given = np.array([[1, 1, 1, 1, 1, 0, 0, 0]])
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    np.savez(tmp_path / "d.npz", x=x[None], given=given[None] if shown else np.ones((1, 1, 8), np.int64))
    request = make_request(str(tmp_path / "m.onnx"), "bayes-e", data=str(tmp_path / "d.npz"), observer="min_max")
    program = compile_model(request).program
    y = run_program(program, {"x": x, "given": given})["y"]
    assert np.abs(y - attention(x, given > 0)).max() < (0.03 if shown else 0.15) * np.abs(x).max()
    assert next(n for n in program.report["nodes"] if n["name"] == "Softmax_p")["device"] == "CPU"


def test_a_large_constant_on_the_way_to_no_softmax_is_an_ordinary_one(tmp_path):
    proto = with_constants(HEAD + "g (float[2, 4] x) => (float[2, 4] y) { y = Add(x, c) }", c=np.float32([-2e4] * 4))
    x = values((2, 4), 0, -1e4, 1e4)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    np.savez(tmp_path / "d.npz", x=x[None])
    request = make_request(str(tmp_path / "m.onnx"), "bayes-e", data=str(tmp_path / "d.npz"), observer="min_max")
    assert {n["device"] for n in compile_model(request).program.report["nodes"] if n["op"] == "Affine"} == {"BPU"}
