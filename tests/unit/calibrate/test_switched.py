"""Roundings switched on and off one by one, against numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bpuc.base.dtypes import DType
from bpuc.calibrate.switched import Switch, SwitchedGraph
from bpuc.frontend.onnx_import import import_model
from bpuc.ir import QuantParams

RNG = np.random.default_rng(2)
W1, W2 = (RNG.normal(0, s, (4, 4)).astype(np.float32) for s in (0.5, 2.0))
X = RNG.normal(0, 1, (3, 4)).astype(np.float32)


def rounded(v: np.ndarray, step: float | np.ndarray, low: int = -128) -> np.ndarray:
    return np.clip(np.floor(v / step + 0.5), low, 127) * step


@pytest.fixture
def graph(tmp_path: Path) -> SwitchedGraph:
    """y = relu(x W1) W2, and z = x + 1 beside it."""
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("MatMul", ["b", "w2"], ["y"], name="second"),
        helper.make_node("Add", ["x", "one"], ["z"], name="add"),
    ]
    info = helper.make_tensor_value_info
    constants = {"w1": W1, "w2": W2, "one": np.ones(1, np.float32)}
    model = helper.make_graph(
        nodes,
        "g",
        [info("x", TensorProto.FLOAT, [3, 4])],
        [info(n, TensorProto.FLOAT, [3, 4]) for n in "yz"],
        [numpy_helper.from_array(v, k) for k, v in constants.items()],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(model, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    quants = {n: QuantParams(DType.INT8, (s,)) for n, s in (("x", 0.02), ("b", 0.03), ("y", 0.1))}
    weights = {
        n: QuantParams(DType.INT8, tuple(float(v) for v in np.abs(w).max(0) / 127), 1)
        for n, w in (("first", W1), ("second", W2))
    }
    return SwitchedGraph(import_model(path).graph, quants, weights)


def want(tensors: str = "", weights: str = "") -> dict[str, np.ndarray]:
    step = {"1": np.abs(W1.astype(np.float64)).max(0) / 127, "2": np.abs(W2.astype(np.float64)).max(0) / 127}
    w1 = rounded(W1, step["1"], -127) if "1" in weights else W1
    w2 = rounded(W2, step["2"], -127) if "2" in weights else W2
    x = rounded(X, 0.02) if "x" in tensors else X
    b = np.maximum(x @ w1, 0)
    b = rounded(b, 0.03) if "b" in tensors else b
    y = b @ w2
    return {"y": rounded(y, 0.1) if "y" in tensors else y, "z": x + 1}


def switch(tensors: str = "", weights: str = "") -> Switch:
    names = {"1": "first", "2": "second"}
    return Switch(frozenset(tensors), frozenset(names[w] for w in weights))


@pytest.mark.parametrize(("tensors", "weights"), [("", ""), ("x", ""), ("b", ""), ("", "1"), ("", "2"), ("xby", "12")])
def test_against_numpy(graph, tensors, weights):
    got = graph.run({"x": X}, switch(tensors, weights))
    for name, value in want(tensors, weights).items():
        assert got[name] == pytest.approx(value, abs=2e-5)


CHANGES = [(("", ""), ("b", "")), (("xby", "12"), ("xy", "12")), (("xby", "12"), ("xby", "1"))]


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_again_gives_the_same_bits(graph, before, after):
    base = graph.run({"x": X}, switch(*before))
    got = graph.again({"x": X}, switch(*after), base, switch(*before))
    fresh = graph.run({"x": X}, switch(*after))
    assert got.keys() == fresh.keys()
    for name in fresh:
        assert np.array_equal(got[name], fresh[name]), name


def test_what_sees_no_difference_does_not_run(graph, monkeypatch):
    base = graph.run({"x": X}, Switch())
    ran: list[str] = []
    from bpuc.calibrate import switched

    real = switched.run_op
    monkeypatch.setattr(switched, "run_op", lambda op, *rest: ran.append(op.name) or real(op, *rest))
    graph.again({"x": X}, switch("", "2"), base, Switch())
    assert ran == ["second"]
    assert switch("xb", "1") - switch("x") | switch("y") == switch("by", "1")
