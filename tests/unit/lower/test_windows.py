"""Pools, reductions and arg reductions against their definitions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bpuc.isa import ArgReduce, Pool, Reduce
from tests.unit.lower.bench import Array, build, int8s, node


def windows(x: Array, kernel: int, stride: int, pads: tuple[int, int, int, int], size: tuple[int, int]) -> list[Array]:
    """The elements inside the tensor of every window, [N, C, elements] each, row by row."""
    found = []
    for i in range(size[0]):
        for j in range(size[1]):
            top, left = i * stride - pads[0], j * stride - pads[1]
            rows = slice(max(top, 0), min(top + kernel, x.shape[2]))
            columns = slice(max(left, 0), min(left + kernel, x.shape[3]))
            found.append(x[:, :, rows, columns].reshape(*x.shape[:2], -1))
    return found


@pytest.mark.parametrize("count_include_pad", [0, 1])
@pytest.mark.parametrize("ceil_mode", [0, 1])
def test_average_pool(tmp_path: Path, count_include_pad: int, ceil_mode: int) -> None:
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    net = build(
        tmp_path,
        [node("AveragePool", ["x"], ["y"], "pool", **window, count_include_pad=count_include_pad, ceil_mode=ceil_mode)],
        {"x": (1, 2, 6, 8)},
        scales={"x": 0.02, "y": 0.013},
        opset=19,
    )
    assert isinstance(net.bpu()[-1], Pool)
    x = int8s((1, 2, 6, 8))
    y = net.run(x=x)["y"]
    assert y.shape[2:] == ((4, 5) if ceil_mode else (3, 4))
    for index, seen in enumerate(windows(x, 3, 2, (1, 1, 1, 1), y.shape[2:])):
        i, j = divmod(index, y.shape[3])
        # a padded tensor has 8 x 10 elements; what a window takes beyond that counts in no case
        padded = min(3, 8 - 2 * i) * min(3, 10 - 2 * j)
        count = padded if count_include_pad else seen.shape[2]
        want = np.clip(seen.sum(2) / count * 0.02 / 0.013, -128, 127)
        assert np.abs(y[:, :, i, j] - want).max() <= 0.5 + 1e-3, (i, j)


def test_max_pool_ignores_its_border(tmp_path: Path) -> None:
    net = build(
        tmp_path,
        [
            node("Relu", ["x"], ["r"], "relu"),
            node("Neg", ["r"], ["n"], "neg"),
            node("MaxPool", ["n"], ["y"], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        ],
        {"x": (1, 2, 6, 6)},
        scales={"x": 2**-6, "n": 2**-6, "y": 2**-6},
    )
    x = np.maximum(int8s((1, 2, 6, 6)), 1)
    want = [w.max(2) for w in windows(-x, 3, 2, (1, 1, 1, 1), (3, 3))]
    y = net.run(x=x)["y"]
    assert (y < 0).all(), "a border of zeros would win"
    np.testing.assert_array_equal(y.reshape(1, 2, 9), np.stack(want, 2))


@pytest.mark.parametrize(
    ("op", "attrs", "axes"),
    [
        ("GlobalAveragePool", {}, (2, 3)),
        ("ReduceMean", {"axes": [1]}, (1,)),
        ("ReduceMean", {"axes": [2, 3], "keepdims": 0}, (2, 3)),
        ("ReduceSum", {}, (1,)),
        ("ReduceMax", {"axes": [1]}, (1,)),
        ("ReduceMin", {"axes": [-1]}, (3,)),
    ],
)
def test_reductions(tmp_path: Path, op: str, attrs: dict[str, object], axes: tuple[int, ...]) -> None:
    operands, constants = ["x"], {}
    if op == "ReduceSum":  # axes became an operand in opset 13
        operands, constants = ["x", "axes"], {"axes": np.array([1], np.int64)}
    # the largest element is one of the tensor's: its scale stays
    scales = {"x": 0.02} if op in ("ReduceMax", "ReduceMin") else {"x": 0.02, "y": 0.015}
    net = build(
        tmp_path,
        [node(op, operands, ["y"], "reduce", **attrs)],
        {"x": (1, 4, 5, 6)},
        constants=constants,
        scales=scales,
        anywhere=True,
    )
    assert [type(i) for i in net.bpu()] == [Reduce]
    x = int8s((1, 4, 5, 6))
    take = {"ReduceSum": np.sum, "ReduceMax": np.max, "ReduceMin": np.min}.get(op, np.mean)
    real = take(x * 0.02, axis=axes, keepdims=attrs.get("keepdims", 1) == 1)
    y = net.run(x=x)["y"]
    assert y.shape == real.shape
    assert np.abs(y - np.clip(real / scales.get("y", 0.02), -128, 127)).max() <= 0.5 + 1e-3


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
def test_index_of_the_extreme(tmp_path: Path, op: str, last: int) -> None:
    net = build(
        tmp_path,
        [
            node("Relu", ["x"], ["r"], "relu"),
            node(op, ["r"], ["y"], "arg", axis=1, keepdims=0, select_last_index=last),
        ],
        {"x": (1, 5, 4, 4)},
        scales={"x": 2**-6, "r": 2**-6},
        run_on_bpu=["arg"],
    )
    assert isinstance(net.bpu()[-1], ArgReduce)
    x = np.maximum(int8s((1, 5, 4, 4)) // 32, 0)  # many ties
    score = x if op == "ArgMax" else -x
    want = 4 - np.argmax(score[:, ::-1], 1) if last else np.argmax(score, 1)
    np.testing.assert_array_equal(net.run(x=x)["y"], want)
