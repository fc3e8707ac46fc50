"""Cross-branch equalization on a model whose branches differ eightfold, through the public flow."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from bpuc.flow.compile import Compiled, compile_model
from bpuc.flow.request import make_request
from bpuc.sim.reference.engine import ReferenceEngine

RNG = np.random.default_rng(7)


def build(folder: Path, middle: str) -> tuple[str, str]:
    """Two Relu branches of range about 1 and 8, joined, then `middle`, then one Conv that reads both alike."""
    wa = RNG.normal(0, 0.2, (8, 4, 1, 1)).astype(np.float32)
    wb = (8 * RNG.normal(0, 0.2, (8, 4, 1, 1))).astype(np.float32)
    wy = np.concatenate([8 * RNG.normal(0, 0.3, (6, 8, 1, 1)), RNG.normal(0, 0.3, (6, 8, 1, 1))], 1).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "wa"], ["ca"], name="conv_a"),
        helper.make_node("Relu", ["ca"], ["a"], name="relu_a"),
        helper.make_node("Conv", ["x", "wb"], ["cb"], name="conv_b"),
        helper.make_node("Relu", ["cb"], ["b"], name="relu_b"),
        helper.make_node("Concat", ["a", "b"], ["c"], name="cat", axis=1),
    ]
    if middle == "MaxPool":
        nodes.append(helper.make_node("MaxPool", ["c"], ["m"], name="pool", kernel_shape=[2, 2], strides=[2, 2]))
    elif middle == "Sigmoid":
        nodes.append(helper.make_node("Sigmoid", ["c"], ["m"], name="sigmoid"))
    nodes.append(helper.make_node("Conv", ["m" if middle else "c", "wy"], ["y"], name="conv_y"))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, n) for n, w in (("wa", wa), ("wb", wb), ("wy", wy))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, folder / "m.onnx")
    np.savez(folder / "d.npz", x=RNG.normal(0, 1, (8, 1, 4, 8, 8)).astype(np.float32))
    return str(folder / "m.onnx"), str(folder / "d.npz")


def compiled(model: str, data: str, equalize: bool) -> Compiled:
    return compile_model(make_request(model, "bayes-e", data=data, observer="min_max", equalize=equalize))


def error(model: str, data: str, c: Compiled) -> float:
    session, engine = ort.InferenceSession(model), ReferenceEngine(c.program)
    x = np.load(data)["x"]
    return float(np.mean([np.square(engine.run({"x": v})["y"] - session.run(None, {"x": v})[0]).mean() for v in x]))


@pytest.mark.parametrize("middle", ["", "MaxPool"])
def test_error_falls_and_scales_stay_one(tmp_path: Path, middle: str) -> None:
    model, data = build(tmp_path, middle)
    plain, equal = compiled(model, data, False), compiled(model, data, True)
    assert error(model, data, equal) < 0.7 * error(model, data, plain)
    report = equal.program.report
    assert report["rescales"] == []
    rows = {t["name"]: t for t in report["tensors"]}
    assert rows["a"]["scale"] == rows["b"]["scale"] == rows["c"]["scale"]
    # about the ratio of the branches' ranges
    assert 4 < rows["a"]["gain"][0] < 16


def test_intermediate_values_are_told_in_the_model_s_units(tmp_path: Path) -> None:
    model, data = build(tmp_path, "")
    c = compiled(model, data, True)
    symbols = {t.name: t for t in c.program.tensors}
    x = np.load(data)["x"][0]
    values = ReferenceEngine(c.program, tensors=["a", "c"]).run({"x": x})
    graph = onnx.load(model)
    graph.graph.output.extend([helper.make_empty_tensor_value_info(n) for n in ("a", "c")])
    want = dict(zip("ac", ort.InferenceSession(graph.SerializeToString()).run(["a", "c"], {"x": x}), strict=True))
    a, scale = symbols["a"], np.asarray(symbols["c"].scale).reshape(1, -1, 1, 1)
    assert a.scale is not None
    assert np.abs(values["a"] * a.scale[0] - want["a"]).max() < 2 * a.scale[0] + 0.02
    assert np.abs(values["c"] * scale - want["c"]).max() < 0.15


def test_not_through_a_sigmoid(tmp_path: Path) -> None:
    model, data = build(tmp_path, "Sigmoid")
    assert not any("gain" in t for t in compiled(model, data, True).program.report["tensors"])
