"""Normalizations as exporters write them in pieces: one LayerNormalization each, with onnxruntime's values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from bpuc.execute.ort import FloatExecutor
from bpuc.frontend.onnx_import import import_model
from bpuc.passkit import PassContext
from bpuc.passkit.manager import run_pipeline
from bpuc.plugins import pipeline

SHAPE = (1, 6, 10)


class Steps:
    """A model written node by node; each call gives the name of its result."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def __getattr__(self, kind: str) -> Callable[..., str]:
        def add(*operands: str | float | np.ndarray, **attrs: object) -> str:
            names = [o if isinstance(o, str) else self.constant(o) for o in operands]
            out = f"t{len(self.nodes)}"
            self.nodes.append(helper.make_node(kind, names, [out], name=f"n{len(self.nodes)}", **attrs))
            return out

        return add

    def constant(self, value: float | np.ndarray) -> str:
        array = np.asarray(value, np.float32) if isinstance(value, float) else np.asarray(value)
        self.constants.append(numpy_helper.from_array(array, f"c{len(self.constants)}"))
        return self.constants[-1].name


def layer_form(s: Steps, axes: list[int], difference: bool, total: bool, keep: int, root: str, gain: str) -> str:
    """One spelling of LayerNormalization of x [1, 6, 10] over `axes`; every choice is one that some exporter makes."""
    shape = tuple(1 if a in axes else n for a, n in enumerate(SHAPE))
    count = float(np.prod([SHAPE[a] for a in axes]))
    where = np.array(axes, np.int64)

    def mean(t: str) -> str:
        if total:
            return s.Mul(s.ReduceSum(t, where, keepdims=keep), 1 / count)
        return s.ReduceMean(t, axes=axes, keepdims=keep)

    def placed(t: str) -> str:
        return t if keep else s.Reshape(t, np.array(shape, np.int64))

    m = mean("x")
    d = s.Sub("x", placed(m))
    v = placed(mean(s.Mul(d, d))) if difference else placed(s.Max(0.0, s.Sub(mean(s.Mul("x", "x")), s.Mul(m, m))))
    e = s.Add(v, 1e-3)
    one = {
        "div": lambda: "",
        "reciprocal": lambda: s.Reciprocal(s.Sqrt(e)),
        "one-over": lambda: s.Div(1.0, s.Sqrt(e)),
        "power": lambda: s.Pow(e, -0.5),
        "root-of-one-over": lambda: s.Sqrt(s.Div(1.0, e)),
    }[root]()
    g = np.linspace(0.5, 2, int(count), dtype=np.float32).reshape([n if a in axes else 1 for a, n in enumerate(SHAPE)])
    b = g[::-1] - 0.7
    if root == "div":
        y = s.Div(d, s.Sqrt(e))
        return y if gain == "none" else s.Add(s.Mul(y, g), b)
    if gain == "none":
        return s.Mul(d, one)
    if gain == "inside":
        return s.Add(s.Mul(d, s.Mul(one, g)), b)
    f = s.Mul(one, g)  # as Keras writes it
    return s.Add(s.Mul("x", f), s.Sub(b, s.Mul(placed(m), f)))


def optimized(folder: Path, s: Steps, result: str) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Kinds of op after the float passes, their result and onnxruntime's for the file."""
    y = helper.make_tensor_value_info(result, TensorProto.FLOAT, SHAPE)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)
    graph = helper.make_graph(s.nodes, "g", [x], [y], s.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, folder / "m.onnx")
    feeds = {"x": (2 * np.random.default_rng(3).standard_normal(SHAPE) + 0.5).astype(np.float32)}
    ready = import_model(folder / "m.onnx").graph
    run_pipeline(ready, pipeline("optimize"), PassContext())
    got = dict(FloatExecutor(ready, [result]).run(feeds))[result]
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [op.kind for op in ready if op.kind != "Observe"], got, session.run([result], feeds)[0]


@pytest.mark.parametrize("axes", [[2], [1], [1, 2]], ids=str)
@pytest.mark.parametrize("difference", [True, False], ids=["differences", "squares"])
@pytest.mark.parametrize(
    ("total", "keep"), [(False, 1), (True, 1), (True, 0), (False, 0)], ids=["mean", "sum", "sum0", "mean0"]
)
@pytest.mark.parametrize(
    ("root", "gain"),
    [
        ("div", "none"),
        ("div", "behind"),
        ("reciprocal", "none"),
        ("reciprocal", "inside"),
        ("reciprocal", "keras"),
        ("one-over", "inside"),
        ("power", "keras"),
        ("root-of-one-over", "none"),
    ],
)
def test_layer_normalization(
    tmp_path: Path, axes: list[int], difference: bool, total: bool, keep: int, root: str, gain: str
) -> None:
    s = Steps()
    kinds, got, want = optimized(tmp_path, s, layer_form(s, axes, difference, total, keep, root, gain))
    assert kinds == ["LayerNormalization"]
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)


def test_a_softmax_in_pieces_stays_in_pieces(tmp_path: Path) -> None:
    """The published logs of YOLOv10 and YOLO12 have each piece as an op of the BPU; so has the estimate."""
    s = Steps()
    e = s.Exp(s.Sub("x", s.ReduceMax("x", axes=[2])))
    kinds, got, want = optimized(tmp_path, s, s.Div(e, s.ReduceSum(e, np.array([2], np.int64))))
    assert [k for k in kinds if k in ("Softmax", "ReduceMax", "Exp", "ReduceSum")] == ["ReduceMax", "Exp", "ReduceSum"]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-7)
