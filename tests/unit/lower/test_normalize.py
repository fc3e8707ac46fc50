"""Softmax and normalizations in integers against their float definitions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bpuc.isa import Norm, Softmax
from tests.unit.lower.bench import build, int8s, node


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("axis", [1, 3])
def test_softmax(tmp_path: Path, axis: int, dtype: str) -> None:
    step = 0.05 if dtype == "int8" else 0.05 / 256
    net = build(
        tmp_path,
        [node("Softmax", ["x"], ["y"], "soft", axis=axis)],
        {"x": (1, 5, 3, 16)},
        scales={"x": step, "y": 1 / 127},
        anywhere=True,
        dtype=[f"x={dtype}"],
    )
    assert isinstance(net.bpu()[0], Softmax)
    x = int8s((1, 5, 3, 16))
    x = x if dtype == "int8" else x * 256 + 77
    e = np.exp(x * step - (x * step).max(axis, keepdims=True))
    want = e / e.sum(axis, keepdims=True) * 127
    # 15-bit exponentials: the error of a quotient stays below a tenth of a step
    assert np.abs(net.run(x=x)["y"] - want).max() <= 0.6


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_layer_normalization(tmp_path: Path, dtype: str) -> None:
    rng = np.random.default_rng(3)
    gain, offset = rng.uniform(0.5, 2, 24).astype(np.float32), rng.uniform(-1, 1, 24).astype(np.float32)
    step = 0.05 if dtype == "int8" else 0.05 / 256
    net = build(
        tmp_path,
        [node("LayerNormalization", ["x", "g", "b"], ["y"], "ln", axis=-1, epsilon=1e-5)],
        {"x": (1, 6, 24)},
        constants={"g": gain, "b": offset},
        scales={"x": step, "y": 0.04},
        anywhere=True,
        dtype=[f"x={dtype}"],
    )
    assert isinstance(net.bpu()[0], Norm)
    x = int8s((1, 6, 24))
    x = x if dtype == "int8" else x * 256 + 77
    real = x * step
    spread = np.sqrt(real.var(-1, keepdims=True) + 1e-5)
    want = (real - real.mean(-1, keepdims=True)) / spread * gain + offset
    assert np.abs(net.run(x=x)["y"] - np.clip(want / 0.04, -128, 127)).max() <= 0.6


def test_instance_normalization(tmp_path: Path) -> None:
    gain, offset = np.array([1.5, -0.5, 1.0], np.float32), np.array([0.0, 0.5, -1.0], np.float32)
    net = build(
        tmp_path,
        [node("InstanceNormalization", ["x", "g", "b"], ["y"], "norm", epsilon=1e-3)],
        {"x": (1, 3, 8, 8)},
        constants={"g": gain, "b": offset},
        scales={"x": 0.05, "y": 0.04},
        anywhere=True,
    )
    real = int8s((1, 3, 8, 8)) * 0.05
    spread = np.sqrt(real.var((2, 3), keepdims=True) + 1e-3)
    want = (real - real.mean((2, 3), keepdims=True)) / spread * gain.reshape(3, 1, 1) + offset.reshape(3, 1, 1)
    got = net.run(x=int8s((1, 3, 8, 8)))["y"]
    assert np.abs(got - np.clip(want / 0.04, -128, 127)).max() <= 0.6


def test_a_constant_tensor_normalizes_to_the_offset(tmp_path: Path) -> None:
    net = build(
        tmp_path,
        [node("LayerNormalization", ["x", "g", "b"], ["y"], "ln", axis=-1)],
        {"x": (1, 2, 8)},
        constants={"g": np.ones(8, np.float32), "b": np.full(8, 0.5, np.float32)},
        scales={"x": 0.05, "y": 0.25},
        anywhere=True,
    )
    np.testing.assert_array_equal(net.run(x=np.full((1, 2, 8), 93))["y"], np.full((1, 2, 8), 2))


@pytest.mark.parametrize("gain", [0.0, 1e-12, 1e-30])
def test_dead_gains_leave_the_offset(tmp_path: Path, gain: float) -> None:
    offset = np.linspace(-2, 2, 8).astype(np.float32)
    net = build(
        tmp_path,
        [node("LayerNormalization", ["x", "g", "b"], ["y"], "ln", axis=-1)],
        {"x": (1, 2, 8)},
        constants={"g": np.full(8, gain, np.float32), "b": offset},
        scales={"x": 0.05, "y": 2**-6},
        anywhere=True,
    )
    got = net.run(x=int8s((1, 2, 8)))["y"]
    assert np.abs(got - np.clip(offset.astype(np.float64) * 64, -128, 127)).max() <= 0.5
