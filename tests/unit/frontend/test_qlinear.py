"""Integer operators in files of onnxruntime's quantizer: taken apart, and close to onnxruntime's integers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bpuc.base.errors import ModelError
from bpuc.flow.compile import compile_model
from bpuc.flow.request import make_request
from bpuc.sim.run import run_program
from tests.unit.ops.onnx_cases import imported, run, values

HEAD = '<ir_version: 8, opset_import: ["": 13, "com.microsoft": 1]> g (float[1, 4, 6, 6] x) => (float[?] y) '
SCALES = (
    "float s = {0.03125}, float t = {0.0625}, uint8 z = {128}, float[4] sw = {0.01, 0.02, 0.03, 0.04}, "
    "int8[4] zw = {0, 0, 0, 0}, int8[4, 4] w = {3, -5, 127, 64, 9, -8, 7, 6, -1, 2, -3, 4, 50, 60, -70, 80}, "
    "int32[4] b = {10, -200, 30, 40}, int64[2] flat = {1, 144}, int64[1] ax = {1}, int64[1] two = {2}, "
    "int64[1] five = {5}, float[0] none = {}, float[4] twice = {1.0, 1.0, 2.0, 2.0}"
)
FORMS = {
    "QLinearAdd": "q2 = com.microsoft.QLinearAdd(q, s, z, q, s, z, t, z)",
    "QLinearMul": "q2 = com.microsoft.QLinearMul(q, s, z, q, s, z, t, z)",
    "QLinearSigmoid": "q2 = com.microsoft.QLinearSigmoid(q, s, z, t, z)",
    "QLinearLeakyRelu": "q2 = com.microsoft.QLinearLeakyRelu <alpha = 0.25> (q, s, z, t, z)",
    "QLinearAveragePool": "q2 = com.microsoft.QLinearAveragePool <kernel_shape = [2, 2]> (q, s, z, t, z)",
    "QLinearGlobalAveragePool": "q2 = com.microsoft.QLinearGlobalAveragePool(q, s, z, t, z)",
    "QLinearConcat": "q2 = com.microsoft.QLinearConcat <axis = 1> (t, z, q, s, z, q, s, z)",
    "QGemm": "a = com.microsoft.QLinearGlobalAveragePool(q, s, z, s, z) f = Flatten(a) "
    "q2 = com.microsoft.QGemm <transB = 1> (f, s, z, w, sw, zw, b, t, z)",
    "QLinearSoftmax": "q2 = com.microsoft.QLinearSoftmax <axis = 1, opset = 13> (q, s, z, t, z)",
    "MaxPool": "q2 = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (q)",
    "Reshape": "m = Reshape(q, flat) q2 = Transpose <perm = [1, 0]> (m)",
    "Slice": "q2 = Slice(q, two, five, ax)",
    "Split": "q1, q2 = Split <axis = 1> (q)",
    "Concat": "m = MaxPool <kernel_shape = [1, 1]> (q) q2 = Concat <axis = 2> (m, q)",
    "Resize": 'q2 = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> '
    "(q, none, twice)",
}


@pytest.mark.parametrize("name", FORMS)
def test_integer_operators_at_the_file_s_scales(name, tmp_path):
    keeps = not FORMS[name].rpartition("q2 =")[2].strip().startswith("com.microsoft")
    scale = "s" if keeps else "t"
    text = f"{HEAD} <{SCALES}> {{ q = QuantizeLinear(x, s, z) {FORMS[name]} y = DequantizeLinear(q2, {scale}, z) }}"
    proto = onnx.parser.parse_model(text)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    kinds = {op.onnx_type for op in imported(proto, tmp_path).graph}
    request = make_request(str(tmp_path / "m.onnx"), "bayes-e", run_on_bpu=sorted(kinds), threads=1)
    program = compile_model(request, assume=False).program
    inside = [n for n in program.report["nodes"] if n["op"] not in ("Quantize", "Dequantize")]
    assert {n["device"] for n in inside} == {"BPU"}
    x = values((1, 4, 6, 6), 3, -4, 4)
    found, expected = run_program(program, {"x": x})["y"], run(proto, {"x": x})["y"]
    step = 0.03125 if keeps else 0.0625
    assert np.abs(found - expected).max() <= (0 if keeps else step) + 1e-6


def test_a_form_that_cannot_be_said_is_refused_with_its_domain(tmp_path):
    text = f"{HEAD} <{SCALES}> {{ q = QuantizeLinear(x, s, z) "
    text += "q2 = com.microsoft.QLinearAveragePool <kernel_shape = [2, 2], channels_last = 1> (q, s, z, t, z) "
    text += "y = DequantizeLinear(q2, t, z) }"
    with pytest.raises(ModelError, match=r"QLinearAveragePool of domain 'com.microsoft'"):
        imported(onnx.parser.parse_model(text), tmp_path)


@pytest.mark.parametrize("domain", ["", "com.microsoft."])
def test_pairs_of_sixteen_bits_in_an_old_opset(domain, tmp_path):
    """Older quantizers wrote them with onnxruntime's domain. Opset 11 has no axis either; what is meant is clear."""
    text = f"""<ir_version: 8, opset_import: ["": 11, "com.microsoft": 1]> g (float[1, 4, 6, 6] x) => (float[?] y)
    <float s = {{0.0001220703125}}, int16 z = {{0}}, float t = {{0.001}},
     float[4] sw = {{0.01, 0.02, 0.03, 0.04}}, int8[4] zw = {{0, 0, 0, 0}},
     int8[4, 4, 1, 1] w = {{3, -5, 127, 64, 9, -8, 7, 6, -1, 2, -3, 4, 50, 60, -70, 80}}>
    {{
      q = {domain}QuantizeLinear(x, s, z)  d = {domain}DequantizeLinear(q, s, z)
      v = DequantizeLinear <axis = 0> (w, sw, zw)
      c = Conv(d, v)
      r = {domain}QuantizeLinear(c, t, z)  y = {domain}DequantizeLinear(r, t, z)
    }}"""
    proto = onnx.parser.parse_model(text)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    program = compile_model(make_request(str(tmp_path / "m.onnx"), "bayes-e", threads=1), assume=False).program
    tensors = {t["name"]: t for t in program.report["tensors"]}
    assert (tensors["x"]["dtype"], tensors["x"]["scale"]) == ("int16", 0.0001220703125)
    assert (tensors["y"]["dtype"], tensors["y"]["scale"]) == ("int16", pytest.approx(0.001))
    assert tensors["v"]["scale"] == pytest.approx([0.01, 0.02, 0.03, 0.04])
    x = values((1, 4, 6, 6), 3, -4, 4)
    weights = np.array(onnx.numpy_helper.to_array(proto.graph.initializer[-1]), np.float64).reshape(4, 4)
    expected = np.einsum("ok,bkhw->bohw", weights * np.array([[0.01], [0.02], [0.03], [0.04]]), x)
    assert np.abs(run_program(program, {"x": x})["y"] - expected).max() < 1.5e-3


def test_a_march_without_sixteen_bits_says_so(tmp_path):
    text = """<ir_version: 8, opset_import: ["": 21]> g (float[1, 4] x) => (float[1, 4] y)
    <float s = {0.0001220703125}, int16 z = {0}>
    { q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = Relu(d) }"""
    (tmp_path / "m.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
    program = compile_model(make_request(str(tmp_path / "m.onnx"), "bernoulli2", threads=1), assume=False).program
    told = {w["code"]: w["message"] for w in program.report["warnings"]}
    assert "no int16 activations" in told["int16"]
    assert {t["dtype"] for t in program.report["tensors"] if t["name"] == "x"} == {"int8"}


CLIPPED = {  # what stands before a Q/DQ pair whose range starts at 0 -> whether the pair may cut something off
    "a = Relu(x) b = Transpose <perm = [1, 0]> (a)": False,
    "a = Abs(x) c = Sigmoid(x) b = Add(a, c)": False,
    "a = Relu(x) b = Concat <axis = 0> (a, x)": True,
    "b = Clip(x, minus)": True,
    "b = Clip(x, nothing)": False,
    "b = Add(x, x)": True,
}


@pytest.mark.parametrize("text", CLIPPED)
def test_a_range_from_zero_cuts_what_may_be_negative(text, tmp_path):
    head = '<ir_version: 8, opset_import: ["": 13]> g (float[2, 4] x) => (float[?] y) <float s = {0.03125}, '
    head += "uint8 z = {0}, float minus = {-1.0}, float nothing = {0.0}> {"
    proto = onnx.parser.parse_model(
        f"{head} {text} q = QuantizeLinear(b, s, z) d = DequantizeLinear(q, s, z) y = Neg(d) }}"
    )
    kinds = [op.kind for op in imported(proto, tmp_path).graph]
    assert kinds.count("Clip") == CLIPPED[text] + text.count("Clip")
