"""Healthy models of many operators, for damage."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import onnx

MODELS = Path(__file__).parents[2] / "models"
HEAD = '<ir_version: 9, opset_import: ["": 17]> g (float[1, 4, 8, 8] x) => (float[?] y) '
TEXTS = {
    "images": """<int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}, float[4] twice = {1, 1, 2, 2}, int64[1] from = {1},
      int64[1] to = {-1}, int64[1] axis = {2}> {
      a = Pad(x, pads)  b = Conv <kernel_shape = [3, 3], strides = [2, 2], dilations = [1, 1]> (a, w3)
      c = ConvTranspose <strides = [2, 2], output_padding = [1, 1], pads = [1, 1, 1, 1]> (b, w3)
      d = AveragePool <kernel_shape = [3, 3], ceil_mode = 1, count_include_pad = 1, pads = [1, 1, 1, 1]> (c)
      e = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (d)  f = Resize <mode = "linear"> (e, , twice)
      g = Slice(f, from, to, axis)  h = LRN <size = 3> (g)  i = DepthToSpace <blocksize = 2> (h)
      y = GlobalAveragePool(i) }""",
    "tensors": """<int64[2] rows = {32, 8}, int64[2] index = {0, 3}, int64[1] k = {3}, int64[2] large = {32, 3}> {
      a = Reshape(x, rows)  b = Gather <axis = 0> (a, index)  c, i = TopK <axis = 1> (a, k)
      d = Einsum <equation = "ij,kj->ik"> (a, b)  e = Softmax <axis = 1> (d)  f = Expand(e, large0)
      s = Shape(c)  n = ConstantOfShape(s)  o = Add(c, n)  p = Tile(o, tiles)  q, r = Split <axis = 1> (p)
      t = Concat <axis = 1> (q, r, e)  u = Gemm <transB = 1> (t, t)  v = CumSum(u, one)  y = ReduceMean <axes = [0]> (v)
      }""",
    "control": """<int64 n = {3}, bool yes = {1}> {
      a = Loop(n, yes, x) <body = b (int64 i, bool k, float[1, 4, 8, 8] p) => (bool l, float[1, 4, 8, 8] q) {
        l = Identity(k) q = Add(p, p) }>
      c = If(yes) <then_branch = t () => (float[1, 4, 8, 8] u) { u = Relu(a) },
                   else_branch = e () => (float[1, 4, 8, 8] v) { v = Neg(a) }>
      d = Reshape <allowzero = 0> (c, steps)
      s, o = Scan <num_scan_inputs = 1, body = f (float[8, 8] p, float[8, 8] q) => (float[8, 8] r, float[8, 8] z) {
        r = Add(p, q) z = Mul(p, q) }> (start, d)
      g = Reshape(o, seq)  h, i = GRU <hidden_size = 2> (g, gw, gr)
      j = Squeeze(h)  y = Tanh(j) }""",
    "pairs": """<float s = {0.05}, uint8 z = {128}, float t = {0.1}, int8 zero = {0},
      float[4] each = {0.1, 0.2, 0.3, 0.4}, int8[4] zeros = {0, 0, 0, 0}> {
      a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)  v = DequantizeLinear <axis = 0> (w8, each, zeros)
      c = Conv(b, v)  d = QuantizeLinear(c, t, zero)  e = MaxPool <kernel_shape = [2, 2]> (d)
      f = QLinearConv(e, t, zero, w8, each, zeros, t, zero)  h = DequantizeLinear(f, t, zero)  y = Sigmoid(h) }""",
}


@cache
def healthy() -> list[bytes]:
    """The models, serialized."""
    rng = np.random.default_rng(0)
    floats = {"w3": (4, 4, 3, 3), "start": (8, 8), "gw": (1, 6, 8), "gr": (1, 6, 2)}
    constants = {n: rng.uniform(-1, 1, shape).astype(np.float32) for n, shape in floats.items()}
    constants |= {
        n: np.array(v) for n, v in {"large0": (32, 2), "tiles": (1, 2), "steps": (4, 8, 8), "seq": (4, 8, 8)}.items()
    }
    constants |= {"one": np.array(1), "w8": rng.integers(-127, 128, (4, 4, 1, 1)).astype(np.int8)}
    models = [(MODELS / f"{name}.onnx").read_bytes() for name in ("hybrid", "add_fixed")]
    for text in TEXTS.values():
        model = onnx.parser.parse_model(HEAD + text)
        read = {name for node in model.graph.node for name in node.input}
        model.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in constants.items() if n in read)
        models.append(model.SerializeToString())
    return models
