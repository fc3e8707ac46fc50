"""Normalizations as exporters write them: one LayerNormalization on the BPU, with onnxruntime's values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.passes.test_decompose_reduce import ran, rounded, sqnr

# x is [2, 6, 16]; g and b are [16], gc and bc [6, 1], n = 1/16
HEAD = """<ir_version: 8, opset_import: ["": 13]>
g (float[2,6,16] x) => (float[2,6,16] y)
<float n = {0.0625}, float zero = {0.0}, float one = {1.0}, float two = {2.0}, float half = {-0.5},
 float e = {0.001}, float[1] e1 = {0.001}, float few = {1.066666667}, float all = {16.0},
 int64[1] last = {-1}, int64[1] middle = {1}, int64[3] rows = {2, 6, 1}, int64[3] full = {2, 6, 16},
 float[16] g = {%s}, float[16] b = {%s},
 float[6,1] gc = {0.5, 1.5, -1, 2, 0.7, 0.9}, float[6,1] bc = {1, 0, -1, 2, 0, 0.5}>
""" % tuple(", ".join(map(str, v)) for v in (np.linspace(0.5, 2, 16), np.linspace(-1, 1, 16)))  # noqa: UP031
FORMS = {
    # flax: E[x^2] - E[x]^2 of sums without their axis, floored, gain in the root
    "sums": """s = ReduceSum<keepdims=0>(x, last)  m = Mul(s, n)  mm = Mul(m, m)  xx = Mul(x, x)
        t = ReduceSum<keepdims=0>(xx, last)  q = Mul(t, n)  v0 = Sub(q, mm)  v = Max(zero, v0)
        mk = Reshape(m, rows)  mx = Expand(mk, full)  d = Sub(x, mx)  vk = Unsqueeze(v, last)
        ve = Add(vk, e)  r0 = Sqrt(ve)  r = Reciprocal(r0)  k = Mul(r, g)  z = Mul(d, k)  y = Add(z, b)""",
    # keras: x*k + (b - m*k)
    "keras": """m = ReduceMean<axes=[-1]>(x)  d = Sub(x, m)  dd = Mul(d, d)  v = ReduceMean<axes=[2]>(dd)
        ve = Add(v, e1)  r0 = Sqrt(ve)  r = Reciprocal(r0)  k = Mul(r, g)  xk = Mul(x, k)  mk = Mul(m, k)
        o = Sub(b, mk)  y = Add(xk, o)""",
    # torch with opset < 17, gain and bias behind
    "pow": """m = ReduceMean<axes=[-1]>(x)  d = Sub(x, m)  dd = Pow(d, two)  v = ReduceMean<axes=[-1]>(dd)
        ve = Add(v, e)  r = Sqrt(ve)  z = Div(d, r)  zg = Mul(z, g)  y = Add(zg, b)""",
    "rsqrt": """m = ReduceMean<axes=[-1]>(x)  d = Sub(x, m)  dd = Mul(d, d)  v = ReduceMean<axes=[-1]>(dd)
        ve = Add(e, v)  r = Pow(ve, half)  gd = Mul(d, g)  y = Mul(gd, r)""",
    "one over": """m = ReduceMean<axes=[-1]>(x)  d = Sub(x, m)  v = ReduceSumSquare<axes=[-1]>(d)  vn = Div(v, all)
        ve = Add(vn, e)  r0 = Sqrt(ve)  r = Div(one, r0)  y = Mul(r, d)""",
    "root of reciprocal": """m = ReduceMean<axes=[-1]>(x)  d = Sub(x, m)  dd = Mul(d, d)
        v = ReduceMean<axes=[-1]>(dd)  ve = Add(v, e)  r0 = Reciprocal(ve)  r = Sqrt(r0)  y = Mul(d, r)""",
    # the variance that divides by n - 1
    "unbiased": """m = ReduceMean<axes=[-1]>(x)  d = Sub(x, m)  dd = Mul(d, d)  v0 = ReduceMean<axes=[-1]>(dd)
        v = Mul(v0, few)  ve = Add(v, e)  r = Sqrt(ve)  y = Div(d, r)""",
    "length": """m = ReduceMean<axes=[-1]>(x)  d = Sub(x, m)  l = ReduceL2<axes=[-1]>(d)  y = Div(d, l)""",
    "minus mean": """m = ReduceMean<axes=[-1]>(x)  nm = Neg(m)  d = Add(nm, x)  dd = Mul(d, d)
        v = ReduceMean<axes=[-1]>(dd)  ve = Add(v, e)  r = Sqrt(ve)  y = Div(d, r)""",
    "clipped": """m = ReduceMean<axes=[-1]>(x)  mm = Mul(m, m)  xx = Mul(x, x)  q = ReduceMean<axes=[-1]>(xx)
        v0 = Sub(q, mm)  v = Relu(v0)  d = Sub(x, m)  ve = Add(v, e)  r = Sqrt(ve)  y = Div(d, r)""",
    "two axes": """m = ReduceMean<axes=[1, -1]>(x)  d = Sub(x, m)  dd = Mul(d, d)  v = ReduceMean<axes=[-1, 1]>(dd)
        ve = Add(v, e)  r = Sqrt(ve)  z = Div(d, r)  zg = Mul(z, gc)  y = Add(zg, bc)""",
    "middle axis": """s = ReduceMean<axes=[1], keepdims=0>(x)  m = Unsqueeze(s, middle)  d = Sub(x, m)  dd = Mul(d, d)
        v = ReduceMean<axes=[1]>(dd)  ve = Add(v, e)  r0 = Sqrt(ve)  r = Reciprocal(r0)  k = Mul(r, gc)
        z = Mul(d, k)  y = Add(z, bc)""",
}
# what looks alike and is another function
OTHERS = {
    "third power": """m = ReduceMean<axes=[-1]>(x)  d = Sub(x, m)  dd = Mul(d, d)  ddd = Mul(dd, d)
        v = ReduceMean<axes=[-1]>(ddd)  a = Abs(v)  ve = Add(a, e)  r = Sqrt(ve)  y = Div(d, r)""",
    "epsilon outside": """m = ReduceMean<axes=[-1]>(x)  d = Sub(x, m)  dd = Mul(d, d)  v = ReduceMean<axes=[-1]>(dd)
        r = Sqrt(v)  re = Add(r, e)  y = Div(d, re)""",
    "not less the mean": """m = ReduceMean<axes=[-1]>(x)  d = Sub(x, m)  dd = Mul(d, d)  v = ReduceMean<axes=[-1]>(dd)
        ve = Add(v, e)  r = Sqrt(ve)  y = Div(x, r)""",
    "twice the mean": """m = ReduceMean<axes=[-1]>(x)  mm = Mul(m, m)  xx = Mul(x, x)  q = ReduceMean<axes=[-1]>(xx)
        v = Sub(q, mm)  d0 = Sub(x, m)  d = Sub(d0, m)  ve = Add(v, e)  r = Sqrt(ve)  y = Div(d, r)""",
    "high floor": """m = ReduceMean<axes=[-1]>(x)  d = Sub(x, m)  dd = Mul(d, d)  v = ReduceMean<axes=[-1]>(dd)
        f = Max(v, one)  r = Sqrt(f)  y = Div(d, r)""",
}


def compiled(folder: Path, nodes: str) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
    """Ops of the BPU, and results [4, 2, 6, 16]: float (onnxruntime), with rounded ports alone, of the program."""
    lines = "\n".join(line.strip() for line in nodes.replace(")  ", ")\n").splitlines())
    onnx.save(onnx.parser.parse_model(f"{HEAD}{{\n{lines}\n}}"), folder / "m.onnx")
    x = np.random.default_rng(0).standard_normal((4, 2, 6, 16)).astype(np.float32)
    x = x * np.linspace(0.5, 2, 6, dtype=np.float32)[:, None] + np.linspace(-3, 3, 6, dtype=np.float32)[:, None]
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3
    session = onnxruntime.InferenceSession(folder / "m.onnx", quiet, providers=["CPUExecutionProvider"])
    report, got = ran(folder, "bayes-e", x, x, "--effort", "0")
    limits = {t["name"]: t["threshold"] for t in report["tensors"]}
    ports = rounded(x, limits["x"]).astype(np.float32)
    real, best = (np.stack([session.run(None, {"x": s})[0] for s in samples]) for samples in (x, ports))
    ops = [n["op"] for n in report["nodes"] if n["device"] == "BPU"]
    return ops, real, rounded(best, limits["y"]), got


@pytest.mark.parametrize("form", FORMS)
def test_forms_are_one_layer_normalization(tmp_path: Path, form: str) -> None:
    ops, real, best, got = compiled(tmp_path, FORMS[form])
    assert ops == ["LayerNormalization"]
    assert sqnr(real, got) > sqnr(real, best) - 0.5


@pytest.mark.parametrize("form", OTHERS)
def test_what_looks_alike_stays(tmp_path: Path, form: str) -> None:
    assert "LayerNormalization" not in compiled(tmp_path, OTHERS[form])[0]
