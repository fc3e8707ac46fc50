"""Data movement: what onnxruntime does to the values happens to the integers, exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto

from bpuc.isa import Fill, Gather, Move, ResizeLinear
from tests.unit.lower.bench import build, exact_weights, int8s, node
from tests.unit.ops.onnx_cases import model, run

STEP = 2**-6


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def resize(size: tuple[int, ...], **attrs: str) -> tuple[NodeProto, dict[str, Any]]:
    return node("Resize", ["x", "", "", "n"], ["y"], mode="nearest", **attrs), {"n": ints(*size)}


def sliced(starts: Any, ends: Any, axes: Any, steps: Any) -> tuple[NodeProto, dict[str, Any]]:
    return node("Slice", ["x", "s", "e", "a", "t"], ["y"]), {"s": starts, "e": ends, "a": axes, "t": steps}


def padded(value: float, *pads: int) -> tuple[NodeProto, dict[str, Any]]:
    return node("Pad", ["x", "p", "v"], ["y"]), {"p": ints(*pads), "v": np.float32(value)}


WHOLE = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
TABLE = np.array([[2, 0], [1, -1]], np.int64)
# shape of x, the node, its constants
CASES: dict[str, tuple[Any, ...]] = {
    "slice": ((1, 4, 6, 8), *sliced(ints(1, 6), ints(6, 1), ints(2, 3), ints(2, -2))),
    "slice-backward": ((1, 2, 3, 5), *sliced(ints(-1), ints(-99), ints(3), ints(-1))),
    "gather": ((1, 32, 3, 5), node("Gather", ["x", "i"], ["y"], axis=2), {"i": TABLE}),
    "gather-one": ((1, 32, 3, 5), node("Gather", ["x", "i"], ["y"], axis=1), {"i": np.array(3, np.int64)}),
    "expand": ((1, 1, 3, 1), node("Expand", ["x", "n"], ["y"]), {"n": ints(2, 4, 1, 5)}),
    "expand-rank": ((3, 1), node("Expand", ["x", "n"], ["y"]), {"n": ints(2, 3, 4)}),
    "tile": ((1, 2, 3, 4), node("Tile", ["x", "n"], ["y"]), {"n": ints(1, 3, 1, 2)}),
    "depth-to-space-dcr": ((1, 8, 2, 3), node("DepthToSpace", ["x"], ["y"], blocksize=2, mode="DCR"), {}),
    "depth-to-space-crd": ((1, 8, 2, 3), node("DepthToSpace", ["x"], ["y"], blocksize=2, mode="CRD"), {}),
    "space-to-depth": ((1, 2, 4, 6), node("SpaceToDepth", ["x"], ["y"], blocksize=2), {}),
    "transpose": ((1, 2, 3, 4), node("Transpose", ["x"], ["y"], perm=[0, 2, 3, 1]), {}),
    "transpose-5": ((1, 2, 3, 4, 2), node("Transpose", ["x"], ["y"], perm=[0, 4, 2, 1, 3]), {}),
    "reshape": ((1, 2, 3, 4), node("Reshape", ["x", "n"], ["y"]), {"n": ints(3, -1)}),
    "pad": ((1, 2, 3, 4), *padded(-0.5, 0, 1, 2, 0, 0, 0, 1, 3)),
    "pad-saturates": ((1, 2, 3, 4), *padded(-3e38, 0, 0, 1, 1, 0, 0, 1, 1)),
    "concat-twice": ((1, 2, 3, 4), node("Concat", ["x", "x"], ["y"], axis=3), {}),
    "nearest-whole": ((1, 2, 3, 4), *resize((1, 2, 6, 12), **WHOLE)),
    "nearest-half-pixel": ((1, 2, 3, 4), *resize((1, 2, 5, 7))),
    "nearest-down": ((1, 2, 6, 8), *resize((1, 2, 4, 3), nearest_mode="ceil")),
}


@pytest.mark.parametrize("name", CASES)
def test_integers_move_as_values_do(tmp_path: Path, name: str) -> None:
    shape, op, constants = CASES[name]
    op.name = "op"
    net = build(tmp_path, [op], {"x": shape}, constants=constants, scales={"x": STEP}, anywhere=True)
    assert {type(i) for i in net.bpu()} <= {Move, Fill, Gather}
    x = int8s(shape)
    want = run(model([op], {"x": shape}, ["y"], constants), {"x": (x * STEP).astype(np.float32)})["y"]
    got = net.run(x=x)["y"]
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, np.clip(want.astype(np.float64) / STEP, -128, 127))


@pytest.mark.parametrize(("level", "copies"), [("1", 6), ("2", 3)])
def test_split_and_join_again(tmp_path: Path, level: str, copies: int) -> None:
    """From -O2 on, parts of a tensor are read where they stand."""
    net = build(
        tmp_path,
        [
            node("Split", ["x", "n"], ["a", "b", "c"], "split", axis=1),
            node("Concat", ["c", "a", "b"], ["y"], "cat", axis=1),
        ],
        {"x": (1, 96, 2, 2)},
        constants={"n": ints(16, 32, 48)},
        scales={"x": STEP},
        anywhere=True,
        optimize=level,
    )
    assert [type(i) for i in net.bpu()] == [Move] * copies
    x = int8s((1, 96, 2, 2))
    np.testing.assert_array_equal(net.run(x=x)["y"], np.concatenate([x[:, 48:], x[:, :16], x[:, 16:48]], 1))


def test_whole_factors_need_one_copy(tmp_path: Path) -> None:
    shape, op, constants = CASES["nearest-whole"]
    op.name = "op"
    net = build(tmp_path, [op], {"x": shape}, constants=constants, scales={"x": STEP}, anywhere=True)
    assert [type(i) for i in net.bpu()] == [Move]


def test_quarters_are_exact(tmp_path: Path) -> None:
    op = node("Resize", ["x", "", "", "n"], ["y"], "op", mode="linear")
    constants = {"n": ints(1, 2, 6, 8)}
    scales = {"x": STEP, "y": STEP}
    net = build(tmp_path, [op], {"x": (1, 2, 3, 4)}, constants=constants, scales=scales, anywhere=True)
    x = int8s((1, 2, 3, 4))
    want = run(model([op], {"x": (1, 2, 3, 4)}, ["y"], constants), {"x": x.astype(np.float32)})["y"]
    np.testing.assert_array_equal(net.run(x=x)["y"], np.floor(want.astype(np.float64) + 0.5))


@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("size", [(6, 8), (5, 3), (1, 9)])
def test_linear_resize(tmp_path: Path, mode: str, size: tuple[int, int]) -> None:
    op = node("Resize", ["x", "", "", "n"], ["y"], "op", mode="linear", coordinate_transformation_mode=mode)
    constants = {"n": ints(1, 2, *size)}
    scales = {"x": STEP, "y": 0.017}
    net = build(tmp_path, [op], {"x": (1, 2, 3, 4)}, constants=constants, scales=scales, anywhere=True)
    assert [type(i) for i in net.bpu()] == [ResizeLinear]
    x = int8s((1, 2, 3, 4))
    want = run(model([op], {"x": (1, 2, 3, 4)}, ["y"], constants), {"x": (x * STEP).astype(np.float32)})["y"]
    # weights are in 1/256 on either axis: off by up to 2**-9 of the 255 steps between two neighbours
    slack = 0.5 + 2 * 2**-9 * 255 * STEP / 0.017
    assert np.abs(net.run(x=x)["y"] - np.clip(want / 0.017, -128, 127)).max() <= slack


def test_rows_of_a_copy_join_where_they_can(tmp_path: Path) -> None:
    net = build(
        tmp_path,
        [node("Concat", ["x", "z"], ["y"], "cat", axis=1)],
        {"x": (1, 6, 4), "z": (1, 6, 4)},
        scales={"x": STEP, "z": STEP, "y": STEP},
        anywhere=True,
    )
    assert [i.x.shape for i in net.bpu()] == [(1, 24), (1, 24)]


def test_a_producer_writes_into_the_joined_tensor(tmp_path: Path) -> None:
    """Two tables and their sum are joined: the first table's halves and the sum; nothing is copied."""
    net = build(
        tmp_path,
        [
            node("Sigmoid", ["x"], ["s"], "sig"),
            node("Split", ["s", "n"], ["a", "b"], "split", axis=1),
            node("Add", ["a", "b"], ["c"], "add"),
            node("Concat", ["a", "b", "c"], ["y"], "cat", axis=1),
        ],
        {"x": (1, 32, 3, 5)},
        constants={"n": ints(16, 16)},
        scales=dict.fromkeys("xsabcy", 2 ** (-6)),
        anywhere=True,
    )
    assert Move not in {type(i) for i in net.bpu()}
    (table, add) = net.bpu()
    assert add.y.address - table.y.address == 32 * 3 * 5
    y = net.run(x=int8s((1, 32, 3, 5)))["y"]
    np.testing.assert_array_equal(y[:, 32:], np.clip(y[:, :16] + y[:, 16:32], -128, 127))


@pytest.mark.parametrize("level", ["1", "3"])
def test_channels_last_are_written_so(tmp_path: Path, level: str) -> None:
    weights = exact_weights((4, 2, 1, 1), [2**-9] * 4)
    net = build(
        tmp_path,
        [node("Conv", ["x", "w"], ["c"], "conv"), node("Transpose", ["c"], ["y"], "nhwc", perm=[0, 2, 3, 1])],
        {"x": (1, 2, 3, 5)},
        constants={"w": weights},
        scales={"x": 2**-6},
        anywhere=True,
        optimize=level,
    )
    assert (Move in {type(i) for i in net.bpu()}) == (level == "1")
    x = int8s((1, 2, 3, 5))
    acc = np.einsum("oc,nchw->nhwo", np.rint(weights[:, :, 0, 0] * 2**9).astype(np.int64), x)
    np.testing.assert_array_equal(net.run(x=x)["y"], acc)
