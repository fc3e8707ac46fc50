"""The decoded program is all that engines and latency model see: edit it, and both engines and the times follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bpuc.isa import Conv, Eltwise, Instruction
from bpuc.perf.model import estimate
from bpuc.plugins import get_target
from bpuc.program import Program
from bpuc.program.container import load_program, save_program
from bpuc.sim.run import run_program
from tests.unit.lower.bench import build, exact_weights, int8s, node

X = (1, 4, 32, 32)
SCALES = {"x": 2**-6, "a": 2**-5, "b": 2**-6, "y": 2**-6}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """y = conv1(x) * conv2(x), as a file brings it back."""
    folder = tmp_path_factory.mktemp("net")
    net = build(
        folder,
        [
            node("Conv", ["x", "w1"], ["a"], "conv1", pads=[1, 1, 1, 1]),
            node("Conv", ["x", "w2"], ["b"], "conv2", pads=[1, 1, 1, 1]),
            node("Mul", ["a", "b"], ["y"], "mul"),
        ],
        {"x": X},
        constants={"w1": exact_weights((4, 4, 3, 3), [2**-9] * 4), "w2": exact_weights((4, 4, 3, 3), [2**-10] * 4, 9)},
        scales=SCALES,
    )
    save_program(net.program, folder / "net.bpuc")
    return load_program(folder / "net.bpuc")


def edited(program: Program, kind: type[Instruction], change: Callable[[Any], Instruction]) -> Program:
    """The program with its first instruction of that kind changed, written and read again."""
    index = next(i for i, ins in enumerate(program.instructions) if isinstance(ins, kind))
    instructions = list(program.instructions)
    instructions[index] = change(instructions[index])
    return replace(program, instructions=instructions)


def run(program: Program) -> np.ndarray[Any, Any]:
    """Integers of y, on which both engines agree."""
    feeds = {"x": (int8s(X) * SCALES["x"]).astype(np.float32)}
    first = run_program(program, feeds, "reference", integers=True)["y"]
    np.testing.assert_array_equal(run_program(program, feeds, "fast", integers=True)["y"], first)
    return first.astype(np.int64)


def times(program: Program) -> dict[str, Any]:
    document = estimate(program, get_target("bayes-e"))
    return {o["name"]: (o["macs"], o["compute_us"]) for o in document["ops"]} | {"all": document["summary"]}


def test_a_multiplier(program: Program) -> None:
    other = edited(program, Eltwise, lambda i: replace(i, mult_a=-i.mult_a))
    assert np.count_nonzero(run(program)) > 1000
    # half up is not symmetric: a tie goes the other way
    assert np.abs(np.clip(-run(program), -128, 127) - run(other)).max() <= 1
    assert (run(program) != run(other)).any()
    assert times(other) == times(program), "the same work takes the same time"


def test_an_address(program: Program) -> None:
    (mul,) = (i for i in program.instructions if isinstance(i, Eltwise))
    other = edited(program, Eltwise, lambda i: replace(i, a=replace(i.a, address=i.b.address)))
    b = run_program(program, {"x": (int8s(X) * SCALES["x"]).astype(np.float32)}, integers=True, tensors=["b"])["b"]
    square = b.astype(np.int64) ** 2 * mul.mult_a + (1 << mul.shift - 1) >> mul.shift
    np.testing.assert_array_equal(run(other), np.clip(square, mul.lo, mul.hi))
    assert times(other) != times(program), "one operand less is read"


def test_a_size(program: Program) -> None:
    def half(i: Any) -> Instruction:
        parts = {n: replace(getattr(i, n), shape=(1, 4, 16, 32)) for n in ("a", "b", "y")}
        return replace(i, **parts)

    other = edited(program, Eltwise, half)
    np.testing.assert_array_equal(run(other)[:, :, :16], run(program)[:, :, :16])
    assert (run(other)[:, :, 16:] != run(program)[:, :, 16:]).any(), "nobody writes the other half"
    assert times(other)["mul"][1] == pytest.approx(times(program)["mul"][1] / 2, rel=0.1)

    def fewer_rows(i: Any) -> Instruction:
        return replace(i, y=replace(i.y, shape=(1, 4, 16, 32)))

    other = edited(program, Conv, fewer_rows)
    before, after = times(program), times(other)
    assert before["conv1"][0] == 9 * 4 * 4 * 32 * 32
    assert after["conv1"][0] == 9 * 4 * 4 * 16 * 32
    assert after["all"]["macs"] == before["all"]["macs"] - 9 * 4 * 4 * 16 * 32
    run(other)
