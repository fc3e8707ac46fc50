"""What import computes is bounded before it is computed: bytes, arithmetic, and the time of loops."""

from __future__ import annotations

import time

import numpy as np
import onnx
import pytest

from bpuc.base.errors import ModelError
from bpuc.frontend import apart
from bpuc.frontend.work import work
from bpuc.ir import Tensor
from tests.unit.ops.onnx_cases import imported, run

HEAD = '<ir_version: 9, opset_import: ["": 17]> g (float[1] x) => (float[?] y) '
SQUARE = "<int64[2] s = {8000, 8000}> { c = ConstantOfShape(s) "
REFUSED = {
    "product": (SQUARE + "d = MatMul(c, c) y = Add(x, d) }", "'MatMul_d'.*multiply-adds"),
    "equation": (SQUARE + 'd = Einsum <equation = "ij,jk->ik"> (c, c) y = Add(x, d) }', "'Einsum_d'.*multiply-adds"),
    "window": (
        "<int64[4] s = {1, 1, 4000, 4000}> { c = ConstantOfShape(s) d = AveragePool <kernel_shape = [2001, 2001], "
        "pads = [1000, 1000, 1000, 1000]> (c) y = Add(x, d) }",
        "'AveragePool_d'.*multiply-adds",
    ),
    "convolution": (
        "<int64[4] s = {1, 64, 512, 512}, int64[4] w = {64, 64, 7, 7}> { c = ConstantOfShape(s) v = ConstantOfShape(w) "
        "d = Conv <pads = [3, 3, 3, 3]> (c, v) y = Add(x, d) }",
        "'Conv_d'.*multiply-adds",
    ),
    "padding of a convolution": (
        "<float[1, 1, 1, 1] w = {1}> { d = Conv <pads = [100000, 100000, 100000, 100000]> (w, w) y = Add(x, d) }",
        r"'Conv_d'.*constant of \d+ MB",
    ),
    "range": ("<float l = {0}, float h = {1e12}, float d = {1}> { c = Range(l, h, d) y = Add(x, c) }", "of 3814697 MB"),
    "tile": ("<int64[1] s = {1000000000000}, float[1] z = {1}> { c = Tile(z, s) y = Add(x, c) }", "of 3814697 MB"),
    "many": (
        "<int64[1] s = {60000000}> { c = ConstantOfShape(s) d = Exp(c) e = Exp(d) y = Add(x, e) }",
        "up to node 'Exp_e'.*would have 686 MB",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_it_is_computed(case, tmp_path):
    text, message = REFUSED[case]
    start = time.process_time()
    with pytest.raises(ModelError, match=message):
        imported(onnx.parser.parse_model(HEAD + text), tmp_path)
    assert time.process_time() - start < 3


def test_a_loop_that_runs_for_long(tmp_path, monkeypatch):
    """Its trip count is allowed; one trip takes 0.1 s."""
    monkeypatch.setattr(apart, "SECONDS", 2)
    text = """<int64 n = {4000}, bool c = {1}, int64[2] s = {1000, 1000}> {
      z = ConstantOfShape(s)
      d = Loop(n, c, z) <body = b (int64 i, bool k, float[p, q] a) => (bool l, float[p, q] m) {
        l = Identity(k) m = MatMul(a, a) }>
      y = Add(x, d) }"""
    with pytest.raises(ModelError, match="'Loop_d'"):
        imported(onnx.parser.parse_model(HEAD + text), tmp_path)


def test_a_loop_that_doubles_its_state(tmp_path):
    """2^60 elements after 60 trips: what it allocates is bounded, and the answer is an error."""
    text = """<int64 n = {60}, bool c = {1}, float[1] z = {1}> {
      d = Loop(n, c, z) <body = b (int64 i, bool k, float[p] a) => (bool l, float[q] m) {
        l = Identity(k) m = Concat <axis = 0> (a, a) }>
      y = Add(x, d) }"""
    with pytest.raises(ModelError, match="'Loop_d'"):
        imported(onnx.parser.parse_model(HEAD + text), tmp_path)


def test_a_small_loop_of_constants_is_folded(tmp_path):
    text = """<int64 n = {5}, bool c = {1}, float[1] z = {3}> {
      d = Loop(n, c, z) <body = b (int64 i, bool k, float[p] a) => (bool l, float[p] m) {
        l = Identity(k) m = Add(a, a) }>
      y = Add(x, d) }"""
    proto = onnx.parser.parse_model(HEAD + text)
    graph = imported(proto, tmp_path).graph
    assert [op.onnx_type for op in graph] == ["Add"]
    x = np.array([1.5], np.float32)
    assert run(proto, {"x": x})["y"] == 97.5
    assert next(iter(graph)).input(1).const == 96.0


WORK = [
    ("MatMul", {}, [(2, 3, 4), (4, 5)], (2, 3, 5), 2 * 3 * 5 * 4),
    ("Gemm", {"transA": 1}, [(7, 3), (7, 5)], (3, 5), 3 * 5 * 7),
    ("Conv", {"group": 2}, [(1, 4, 9, 9), (6, 2, 3, 3)], (1, 6, 7, 7), 6 * 49 * 2 * 9),
    ("ConvTranspose", {}, [(1, 4, 5, 5), (4, 3, 2, 2)], (1, 3, 6, 6), 4 * 25 * 3 * 4),
    ("MaxPool", {"kernel_shape": [3, 3]}, [(1, 2, 9, 9)], (1, 2, 7, 7), 2 * 49 * 9),
    ("Einsum", {"equation": "ij,jk,kl->il"}, [(20, 30), (30, 40), (40, 50)], (20, 50), 24000 + 40000 + 1000),
    ("LSTM", {}, [(5, 2, 8), (1, 16, 8), (1, 16, 4)], (5, 1, 2, 4), 5 * 2 * (16 * 8 + 16 * 4)),
    ("Relu", {}, [(10,)], (10,), 20),
]


@pytest.mark.parametrize(("op", "attributes", "shapes", "result", "expected"), WORK)
def test_work(op, attributes, shapes, result, expected):
    names = [f"i{i}" for i in range(len(shapes))]
    node = onnx.helper.make_node(op, names, ["y"], **attributes)
    operands = [Tensor(n, s, "float32") for n, s in zip(names, shapes)]
    assert work(node, operands, [result]) == expected
