"""int16 activations: wide accumulators, tables by interpolation, products that stay inside int64."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from bpuc.isa import Conv, Lut, MatMul
from tests.unit.lower.bench import build, exact_weights, int8s, node
from tests.unit.lower.test_accumulate import conv2d

LOW, HIGH = -32768, 32767


def int16s(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    q = np.random.default_rng(seed).integers(LOW, HIGH + 1, shape)
    q.flat[0], q.flat[-1] = LOW, HIGH
    return q


def exact(acc: np.ndarray, mult: int, shift: int, lo: int, hi: int) -> np.ndarray:
    """Requantization in Python's unbounded integers."""
    values = [max(lo, min(hi, (int(a) * mult + 2 ** (shift - 1)) // 2**shift)) for a in acc.reshape(-1)]
    return np.array(values).reshape(acc.shape)


def test_convolution_with_bias(tmp_path: Path) -> None:
    w = exact_weights((3, 2, 3, 3), [2**-7] * 3)
    bias = np.array([1.5, -40.0, 0.0], np.float32)
    net = build(
        tmp_path,
        [node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1]), node("Relu", ["c"], ["y"], "relu")],
        {"x": (1, 2, 4, 5)},
        constants={"w": w, "b": bias},
        scales={"x": 2**-13, "y": 2**-9},
        dtype=["x=int16", "y=int16"],
    )
    (ins,) = net.instructions(Conv)
    assert (ins.x.dtype.value, ins.y.dtype.value, ins.bias.dtype.value) == ("int16", "int16", "int64")
    x = int16s((1, 2, 4, 5))
    real = conv2d(x * 2**-13, w, pads=(1, 1, 1, 1)) + bias.reshape(1, 3, 1, 1)
    np.testing.assert_array_equal(net.run(x=x)["y"], np.clip(np.floor(real / 2**-9 + 0.5), 0, HIGH))


@pytest.mark.parametrize("k", [8, 2048])
def test_product_of_two_wide_tensors(tmp_path: Path, k: int) -> None:
    # 2048 products of 2**30 and a multiplier of 22 bits would need 63 bits
    net = build(
        tmp_path,
        [node("MatMul", ["a", "b"], ["y"], "mm")],
        {"a": (1, 2, k), "b": (1, k, 2)},
        scales={"a": 0.0003, "b": 0.0007, "y": 0.0003 * 0.0007 * k * 2**15},
        anywhere=True,
        dtype=["a=int16", "b=int16", "y=int16"],
    )
    (ins,) = net.instructions(MatMul)
    mult, shift = int(net.constant(ins.mult)[0]), int(net.constant(ins.shift)[0])
    assert k * 2**30 * mult + 2 ** (shift - 1) < 2**63
    assert mult / 2**shift == pytest.approx(1 / (k * 2**15), rel=2**-18)
    a, b = int16s((1, 2, k)), int16s((1, k, 2), 1)
    a[0, 0], b[0, :, 0] = LOW, LOW  # the largest sum that there is
    np.testing.assert_array_equal(net.run(a=a, b=b)["y"], exact(a @ b, mult, shift, LOW, HIGH))


@pytest.mark.parametrize("ratio", [1, 2**10, 2**24])
def test_residual_far_larger_than_the_result(tmp_path: Path, ratio: int) -> None:
    w = exact_weights((2, 2, 1, 1), [2**-7] * 2)
    shape = (1, 2, 2, 4)
    scales = {"x": 2**-6, "r": ratio * 2**-6, "y": 2**-6}
    net = build(
        tmp_path,
        [node("Conv", ["x", "w"], ["c"], "conv"), node("Add", ["c", "r"], ["y"], "add")],
        {"x": shape, "r": shape},
        constants={"w": w},
        scales=scales,
        anywhere=True,
        dtype=["r=int16", "y=int16"],
    )
    (ins,) = net.instructions(Conv)
    assert ins.res is not None
    x, r = int8s(shape), int16s(shape)
    r[0, :, 0, 1] = 0
    real = conv2d(x * 2**-6, w) + r * ratio * 2**-6
    np.testing.assert_array_equal(net.run(x=x, r=r)["y"], np.clip(np.floor(real * 2**6 + 0.5), LOW, HIGH))


def test_table_interpolates(tmp_path: Path) -> None:
    net = build(
        tmp_path,
        [node("Sigmoid", ["x"], ["y"], "sig")],
        {"x": (1, 1, 64, 128)},
        scales={"x": 8 / HIGH, "y": 1 / HIGH},
        anywhere=True,
        dtype=["x=int16", "y=int16"],
    )
    (ins,) = net.instructions(Lut)
    assert ins.table.shape == (1025,)
    x = np.linspace(LOW, HIGH, 64 * 128).round().astype(np.int64).reshape(1, 1, 64, 128)
    want = 1 / (1 + np.exp(-x * 8 / HIGH)) * HIGH
    # chords of 64 steps: h**2 / 8 times the largest curvature (0.0962 of a sigmoid), in steps of y
    chord = (64 * 8 / HIGH) ** 2 / 8 * 0.0963 * HIGH
    assert np.abs(net.run(x=x)["y"] - want).max() <= 1.0 + chord


def test_sum_of_narrow_and_wide(tmp_path: Path) -> None:
    net = build(
        tmp_path,
        [node("Add", ["a", "b"], ["y"], "add")],
        {"a": (1, 1, 4, 8), "b": (1, 1, 4, 8)},
        scales={"a": 2**-5, "b": 2**-12, "y": 2**-11},
        anywhere=True,
        dtype=["b=int16", "y=int16"],
    )
    a, b = int8s((1, 1, 4, 8)), int16s((1, 1, 4, 8))
    want = np.clip(np.floor((a * 2**-5 + b * 2**-12) / 2**-11 + 0.5), LOW, HIGH)
    np.testing.assert_array_equal(net.run(a=a, b=b)["y"], want)


def test_reader_without_int16_gets_a_rescale(tmp_path: Path) -> None:
    net = build(
        tmp_path,
        [node("Add", ["a", "b"], ["s"], "add"), node("PRelu", ["s", "p"], ["y"], "prelu")],
        {"a": (1, 1, 4, 8), "b": (1, 1, 4, 8)},
        constants={"p": np.full((1, 1, 1), 0.25, np.float32)},
        scales={"a": 2**-5, "b": 2**-5, "s": 2**-12, "y": 2**-4},
        dtype=["s=int16"],
    )
    (row,) = net.program.report["rescales"]
    assert row["tensor"] == "s"
    assert row["to_scale"] == pytest.approx(2**-12 * HIGH / 127)
    assert "PRelu" in row["reason"]
    assert math.isclose(row["from_scale"], 2**-12)
