"""The logarithm of a Softmax: small probabilities keep their logarithms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.passes.test_decompose_reduce import SHAPE, ran, rounded, samples, sqnr


def test_it_is_as_near_to_float_as_int8_ports_allow(tmp_path: Path) -> None:
    nodes = [helper.make_node("Softmax", ["x"], ["p"], axis=1), helper.make_node("Log", ["p"], ["y"])]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, SHAPE) for n in "xy"]
    model = helper.make_graph(nodes, "g", ports[:1], ports[1:])
    onnx.save(helper.make_model(model, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "m.onnx")
    x = 3 * samples(0)
    report, got = ran(tmp_path, "bayes-e", x, x, "--effort", "0")

    def log_softmax(t: np.ndarray) -> np.ndarray:
        return np.asarray(t - np.log(np.exp(t.astype(np.float64)).sum(2, keepdims=True)))

    limits = {t["name"]: t["threshold"] for t in report["tensors"]}
    best = rounded(log_softmax(rounded(x, limits["x"])), limits["y"])
    assert sqnr(log_softmax(x), got) > sqnr(log_softmax(x), best) - 0.5
    assert {n["op"] for n in report["nodes"] if n["device"] == "CPU"} == {"Quantize", "Dequantize"}
