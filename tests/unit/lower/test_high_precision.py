"""High-precision outputs: accumulators as results, moved on, read by the CPU, and their floats; sums by numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bpuc.isa import Conv, Dequantize, MatMul
from bpuc.perf import estimate
from bpuc.plugins import get_target
from bpuc.sim.run import run_program
from tests.unit.lower.bench import Net, build, exact_weights, int8s, node
from tests.unit.lower.test_accumulate import conv2d
from tests.unit.lower.test_int16 import int16s

STEPS = [2**-7, 2**-3, 2**-12]


def head(folder: Path, more: Any = (), output: str = "y", **options: Any) -> Net:
    w, b = exact_weights((3, 2, 1, 1), STEPS), np.array([0.5, -4.0, 0.0], np.float32)
    nodes = [node("Conv", ["x", "w", "b"], ["c" if more else "y"], "conv"), *more]
    return build(folder, nodes, {"x": (1, 2, 4, 5)}, output, {"w": w, "b": b}, **{"scales": {"x": 2**-6}, **options})


def sums(x: np.ndarray, step: float = 2**-6) -> np.ndarray:
    """Real results of `head`'s Conv."""
    return conv2d(x * step, exact_weights((3, 2, 1, 1), STEPS)) + np.array([0.5, -4.0, 0]).reshape(1, 3, 1, 1)


def test_the_accumulator_moves_on_as_int32(tmp_path: Path) -> None:
    more = [
        node("Transpose", ["c"], ["t"], "t", perm=[0, 2, 3, 1]),
        node("Flatten", ["t"], ["y"], "flat", axis=3),
    ]
    net = head(tmp_path, more)
    x = int8s((1, 2, 4, 5))
    want = sums(x).transpose(0, 2, 3, 1).reshape(20, 3)
    np.testing.assert_array_equal(net.run(x=x)["y"], want / (np.array(STEPS) * 2**-6))
    feeds = {"x": (x * 2**-6).astype(np.float32)}
    for engine in ("fast", "reference"):
        np.testing.assert_array_equal(run_program(net.program, feeds, engine)["y"], want.astype(np.float32))
    rows = {t["name"]: t for t in net.program.report["tensors"]}
    assert (rows["c"]["dtype"], rows["c"]["axis"], rows["y"]["axis"]) == ("int32", 1, 1)
    np.testing.assert_allclose(rows["y"]["scale"], np.array(STEPS) * 2**-6)
    assert net.program.report["groups"] == []
    (last,) = net.instructions(Dequantize)
    assert (last.axis, last.x.dtype.value) == (1, "int32")


def test_the_channels_must_stay_on_one_axis(tmp_path: Path) -> None:
    net = head(tmp_path, [node("Flatten", ["c"], ["y"], "flat")])
    (ins,) = net.instructions(Conv)
    assert ins.y.dtype.value == "int8"
    (port,) = net.program.report["outputs"]
    assert port["note"] == "its channels, of one scale each, do not stay on one axis up to y"


def test_it_can_be_switched_off_and_costs_four_bytes(tmp_path: Path) -> None:
    wide, narrow = head(tmp_path), head(tmp_path, high_precision_outputs=False)
    assert narrow.instructions(Conv)[0].y.dtype.value == "int8"
    assert narrow.program.report["outputs"][0]["note"] == "high-precision outputs are switched off"
    assert "note" not in wide.program.report["outputs"][0]
    target = get_target("bayes-e")
    written = [
        next(op["write_bytes"] for op in estimate(n.program, target)["ops"] if op["op"] == "Conv")
        for n in (wide, narrow)
    ]
    assert written[0] == 4 * written[1] >= 240


def test_a_cpu_op_reads_the_sums(tmp_path: Path) -> None:
    net = head(tmp_path, [node("Relu", ["c"], ["y"], "relu")], cpu=["relu"], run_on_cpu=["relu"])
    x = int8s((1, 2, 4, 5))
    got = run_program(net.program, {"x": (x * 2**-6).astype(np.float32)})["y"]
    np.testing.assert_array_equal(got, np.maximum(sums(x), 0).astype(np.float32))


def test_an_int16_operand_whose_sums_fit(tmp_path: Path) -> None:
    net = head(tmp_path, scales={"x": 2**-12}, dtype=["x=int16"])
    (ins,) = net.instructions(Conv)
    assert (ins.x.dtype.value, ins.y.dtype.value) == ("int16", "int32")
    x = int16s((1, 2, 4, 5))
    want = sums(x, 2**-12) / (np.array(STEPS) * 2**-12).reshape(1, 3, 1, 1)
    np.testing.assert_array_equal(net.run(x=x)["y"], want)


@pytest.mark.parametrize("asked", ["y=int16", "conv=int16", "Conv=int16"])
def test_a_type_that_is_asked_for_wins(tmp_path: Path, asked: str) -> None:
    assert head(tmp_path, dtype=[asked]).instructions(Conv)[0].y.dtype.value == "int16"


def test_a_product_of_activations_has_one_scale(tmp_path: Path) -> None:
    net = build(
        tmp_path,
        [node("MatMul", ["a", "b"], ["m"], "mm"), node("Reshape", ["m", "s"], ["y"], "r")],
        {"a": (1, 2, 3), "b": (1, 3, 2)},
        constants={"s": np.array([4])},
        scales={"a": 2**-5, "b": 2**-4},
    )
    (ins,) = net.instructions(MatMul)
    assert ins.y.dtype.value == "int32"
    a, b = int8s((1, 2, 3)), int8s((1, 3, 2), 3)
    np.testing.assert_array_equal(net.run(a=a, b=b)["y"], (a.astype(int) @ b.astype(int)).reshape(4))
    assert net.program.report["outputs"][0]["scale"] == 2**-9
