"""Scales that no multiplier can bridge are the user's fault: one message with node, tensor and a way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto

from bpuc.base.errors import ModelError
from tests.unit.lower.bench import build, exact_weights, node

X = (1, 2, 4, 4)
WEIGHT = {"w": exact_weights((2, 2, 1, 1), [2**-7] * 2)}
ONES = {"g": np.ones(4, np.float32), "b": np.ones(4, np.float32)}
TARGET = np.array([1, 2, 7, 7], np.int64)
CASES: dict[str, tuple[list[NodeProto], dict[str, Any], dict[str, float]]] = {
    "conv": ([node("Conv", ["x", "w"], ["y"], "bad")], WEIGHT, {"y": 1e-12}),
    "residual": (
        [node("Conv", ["x", "w"], ["c"], "bad"), node("Add", ["c", "z"], ["y"], "add")],
        WEIGHT,
        {"x": 1e-6, "z": 1e12, "y": 1e-7},
    ),
    "product of activations": ([node("MatMul", ["x", "z"], ["y"], "bad")], {}, {"y": 1e-12}),
    "add": ([node("Add", ["x", "z"], ["y"], "bad")], {}, {"y": 1e-12}),
    "mul": ([node("Mul", ["x", "z"], ["y"], "bad")], {}, {"y": 1e-12}),
    "average pool": ([node("AveragePool", ["x"], ["y"], "bad", kernel_shape=[2, 2])], {}, {"y": 1e-12}),
    "reduce": ([node("ReduceMean", ["x"], ["y"], "bad", axes=[1])], {}, {"y": 1e-12}),
    "softmax": ([node("Softmax", ["x"], ["y"], "bad", axis=1)], {}, {"y": 1e-12}),
    "norm": ([node("LayerNormalization", ["x", "g", "b"], ["y"], "bad", axis=-1)], ONES, {"y": 1e-18}),
    "linear resize": ([node("Resize", ["x", "", "", "n"], ["y"], "bad", mode="linear")], {"n": TARGET}, {"y": 1e-18}),
}


@pytest.mark.parametrize("name", CASES)
def test_scale_out_of_reach(tmp_path: Path, name: str) -> None:
    nodes, constants, scales = CASES[name]
    inputs = {"x": X} | ({"z": X} if any("z" in n.input for n in nodes) else {})
    with pytest.raises(ModelError) as caught:
        build(tmp_path, nodes, inputs, constants=constants, scales=dict.fromkeys(inputs, 1.0) | scales, anywhere=True)
    shown = caught.value.render()
    assert "bad" in shown
    assert "y (" in shown, "the tensor and its scale"
    assert "hint: " in shown
    assert caught.value.exit_code == 1


def test_rescale_out_of_reach(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="_hz_bad_rescale_0"):
        build(
            tmp_path,
            [node("Concat", ["x", "z"], ["y"], "bad", axis=1)],
            {"x": X, "z": X},
            scales={"x": 1.0, "z": 1e-12, "y": 1e-12},
            anywhere=True,
        )


def test_accumulator_beyond_int32(tmp_path: Path) -> None:
    # 2**18 products of 128 * 128 need more than 31 bits; no weights are there to be made coarser
    with pytest.raises(ModelError, match=r"bad .*accumulator could reach 4294967296, beyond int32"):
        build(
            tmp_path,
            [node("MatMul", ["x", "z"], ["y"], "bad")],
            {"x": (1, 1, 1 << 18), "z": (1, 1 << 18, 1)},
            scales={"x": 1.0, "z": 1.0, "y": 1.0},
            anywhere=True,
        )


@pytest.mark.parametrize("step", [1e-6, 1e6])
def test_far_scales_within_reach_still_compile(tmp_path: Path, step: float) -> None:
    net = build(
        tmp_path,
        [node("Add", ["x", "z"], ["y"], "add")],
        {"x": X, "z": X},
        scales={"x": step, "z": step, "y": step * 64},
    )
    q = np.full(X, 100)
    np.testing.assert_array_equal(net.run(x=q, z=q)["y"], np.full(X, 3))
