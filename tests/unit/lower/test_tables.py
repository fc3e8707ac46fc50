"""Element-wise ops: every entry of a table, and the arithmetic of two operands."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bpuc.isa import Eltwise, Lut
from tests.unit.lower.bench import build, int8s, node, rounded

ALL = np.arange(-128, 128).reshape(1, 1, 16, 16)


def sigmoid(v: float) -> float:
    return 1 / (1 + math.exp(-v))


@pytest.mark.parametrize(
    ("op", "function"),
    [
        ("Sigmoid", sigmoid),
        ("Tanh", math.tanh),
        ("Relu", lambda v: max(v, 0.0)),
        ("Exp", math.exp),
        ("Softplus", lambda v: math.log1p(math.exp(v))),
    ],
)
def test_every_entry_of_a_table(tmp_path: Path, op: str, function: Callable[[float], float]) -> None:
    net = build(tmp_path, [node(op, ["x"], ["y"], "f")], {"x": ALL.shape}, scales={"x": 0.037, "y": 0.011})
    (ins,) = net.bpu()
    assert isinstance(ins, Lut)
    want = [min(127, max(-128, math.floor(function(q * 0.037) / 0.011 + 0.5))) for q in range(-128, 128)]
    np.testing.assert_array_equal(net.run(x=ALL)["y"].reshape(-1), want)


def test_silu_is_one_table(tmp_path: Path) -> None:
    net = build(
        tmp_path,
        [node("Sigmoid", ["x"], ["s"], "sig"), node("Mul", ["x", "s"], ["y"], "mul")],
        {"x": ALL.shape},
        scales={"x": 0.05, "y": 0.03},
    )
    assert [type(i) for i in net.bpu()] == [Lut]
    want = [min(127, max(-128, math.floor(q * 0.05 * sigmoid(q * 0.05) / 0.03 + 0.5))) for q in range(-128, 128)]
    np.testing.assert_array_equal(net.run(x=ALL)["y"].reshape(-1), want)


def test_where_a_function_has_no_value_the_entry_is_zero(tmp_path: Path) -> None:
    net = build(
        tmp_path, [node("Log", ["x"], ["y"], "log")], {"x": ALL.shape}, scales={"x": 0.1, "y": 0.05}, run_on_bpu=["log"]
    )
    y = net.run(x=ALL)["y"].reshape(-1)
    assert (y[:128] == 0).all()
    assert y[128] == -128, "log 0 saturates"
    want = [min(127, max(-128, math.floor(math.log(q * 0.1) / 0.05 + 0.5))) for q in range(1, 128)]
    np.testing.assert_array_equal(y[129:], want)


def test_prelu_has_a_table_a_channel(tmp_path: Path) -> None:
    slope = np.array([0.25, 0.5, 1.0], np.float32).reshape(3, 1, 1)
    net = build(
        tmp_path,
        [node("PRelu", ["x", "s"], ["y"], "prelu")],
        {"x": (1, 3, 16, 16)},
        constants={"s": slope},
        scales={"x": 2**-5, "y": 2**-6},
    )
    (ins,) = net.bpu()
    assert ins.table.shape == (3, 256)
    x = np.repeat(ALL, 3, axis=1)
    real = x * 2**-5
    np.testing.assert_array_equal(net.run(x=x)["y"], rounded(np.where(real < 0, real * slope, real), 2**-6))


def test_prelu_of_one_slope_is_one_table(tmp_path: Path) -> None:
    net = build(
        tmp_path,
        [node("PRelu", ["x", "s"], ["y"], "prelu")],
        {"x": (1, 3, 16, 16)},
        constants={"s": np.full((3, 1, 1), 0.25, np.float32)},
        scales={"x": 2**-5, "y": 2**-5},
    )
    (ins,) = net.bpu()
    assert (ins.table.shape, ins.axis) == ((256,), -1)
    x = np.repeat(ALL, 3, axis=1)
    np.testing.assert_array_equal(net.run(x=x)["y"], rounded(np.where(x < 0, x * 0.25, x), 1))


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Max", "Min"])
def test_two_operands_of_different_scale(tmp_path: Path, op: str) -> None:
    shape = (1, 3, 8, 8)
    net = build(
        tmp_path,
        [node(op, ["a", "b"], ["y"], "op")],
        {"a": shape, "b": shape},
        scales={"a": 2**-5, "b": 2**-7, "y": 2**-6},
        anywhere=True,
    )
    (ins,) = net.bpu()
    assert isinstance(ins, Eltwise)
    a, b = int8s(shape), int8s(shape, 5)
    f = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum, "Min": np.minimum}[op]
    np.testing.assert_array_equal(net.run(a=a, b=b)["y"], rounded(f(a * 2**-5, b * 2**-7), 2**-6))


def test_broadcast_and_clamp(tmp_path: Path) -> None:
    net = build(
        tmp_path,
        [node("Mul", ["a", "b"], ["m"], "mul"), node("Clip", ["m", "lo", "hi"], ["y"], "clip")],
        {"a": (1, 3, 4, 4), "b": (1, 3, 1, 1)},
        constants={"lo": np.float32(-0.25), "hi": np.float32(0.5)},
        scales={"a": 2**-6, "b": 2**-7, "y": 2**-6},
    )
    a, b = int8s((1, 3, 4, 4)), int8s((1, 3, 1, 1), 5)
    np.testing.assert_array_equal(net.run(a=a, b=b)["y"], rounded(a * 2**-6 * b * 2**-7, 2**-6, -16, 32))


def test_constant_operand(tmp_path: Path) -> None:
    # 1/127 of its largest value is the scale of a constant
    constant = (np.arange(-16, 16).reshape(1, 2, 4, 4) * 127 / 16 * 2**-7).astype(np.float32)
    net = build(
        tmp_path,
        [node("Sub", ["c", "x"], ["y"], "sub")],
        {"x": (1, 2, 4, 4)},
        constants={"c": constant},
        scales={"x": 2**-6, "y": 2**-5},
    )
    x = int8s((1, 2, 4, 4))
    step = np.abs(constant).max() / 127
    real = np.floor(constant.astype(np.float64) / step + 0.5) * step - x * 2**-6
    assert np.abs(net.run(x=x)["y"] - np.clip(real / 2**-5, -128, 127)).max() <= 0.5 + 1e-4


def test_a_constant_beyond_every_integer_saturates(tmp_path: Path) -> None:
    # as masks of attention have it
    mask = np.array([0, -3e38, 0, -3e38], np.float32).reshape(1, 1, 1, 4)
    net = build(
        tmp_path,
        [node("Add", ["x", "m"], ["y"], "add")],
        {"x": (1, 1, 2, 4)},
        constants={"m": mask},
        scales={"x": 2**-6, "m": 2**-20, "y": 2**-6},
    )
    x = int8s((1, 1, 2, 4))
    want = rounded(x * 2**-6 + np.array([0, -128 * 2**-20, 0, -128 * 2**-20]), 2**-6)
    np.testing.assert_array_equal(net.run(x=x)["y"], want)
