"""Schedules: whatever stays on chip or goes in stripes, the integers are the same and the counts are what perf says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bpuc.base.errors import FileError
from bpuc.flow import compile as flow
from bpuc.flow import schedule as ways
from bpuc.lower import Scheduling
from bpuc.perf.model import estimate
from bpuc.plugins import get_target
from bpuc.program import Program
from bpuc.program.container import from_bytes, to_bytes
from bpuc.program.schedule import Chip, Do, Step
from bpuc.sim.fast import FastEngine
from bpuc.sim.reference import ReferenceEngine
from tests.unit.lower.bench import build, exact_weights, node

CHIPS = [
    Chip(1 << 22, 1 << 22, 16, 256),
    Chip(9000, 1 << 16, 16, 256),
    Chip(3000, 4000, 16, 256),
    Chip(64, 64, 16, 256),
]
ROOT = Path(__file__).parents[3]


def image_net(folder: Path) -> Program:
    """Windows of all sorts, a residual, a joined tensor, tables, nearest resize, channel gates and two outputs."""
    k = {"pads": [1, 1, 1, 1]}
    w = {n: exact_weights(s, [2**-8] * s[0], i) for i, (n, s) in enumerate(WEIGHTS.items())}
    return build(
        folder,
        [
            node("Conv", ["x", "w1"], ["a"], "c1", pads=[1, 1, 1, 1], strides=[2, 2]),
            node("Sigmoid", ["a"], ["s"], "sig"),
            node("Mul", ["a", "s"], ["b"], "silu"),
            node("Conv", ["b", "w2"], ["c"], "c2", **k),
            node("Conv", ["c", "w3"], ["d"], "c3", pads=[2, 2, 2, 2], dilations=[2, 2]),
            node("Add", ["d", "b"], ["e"], "add"),
            node("MaxPool", ["e"], ["p"], "pool", kernel_shape=[5, 5], strides=[1, 1], pads=[2, 2, 2, 2]),
            node("Concat", ["e", "p", "c"], ["j"], "join", axis=1),
            node("Conv", ["j", "w4"], ["f"], "c4", strides=[2, 2], **k),
            node("AveragePool", ["f"], ["g"], "avg", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
            node("Conv", ["g", "w5"], ["h"], "c5", group=8, **k),
            node("Resize", ["h", "", "two"], ["u"], "up", mode="nearest", nearest_mode="floor",
                 coordinate_transformation_mode="asymmetric"),
            node("GlobalAveragePool", ["u"], ["m"], "gap"),
            node("Mul", ["u", "m"], ["y"], "gate"),
            node("Relu", ["u"], ["z"], "relu"),
        ],
        {"x": (1, 3, 45, 38)},
        ["y", "z"],
        constants={**w, "two": np.array([1, 1, 2, 2], np.float32)},
        scales={"x": 2**-5},
        anywhere=True,
    ).program  # fmt: skip


WEIGHTS = {"w1": (8, 3, 3, 3), "w2": (8, 8, 3, 3), "w3": (8, 8, 3, 3), "w4": (8, 24, 3, 3), "w5": (8, 1, 3, 3)}


def token_net(folder: Path) -> Program:
    """Products, normalization and softmax over the channels of tokens."""
    return build(
        folder,
        [
            node("MatMul", ["x", "w"], ["a"], "m1"),
            node("Softmax", ["a"], ["s"], "soft", axis=-1),
            node("MatMul", ["s", "v"], ["b"], "m2"),
            node("Add", ["b", "x"], ["y"], "add"),
        ],
        {"x": (1, 53, 16)},
        constants={"w": exact_weights((24, 16), [2**-8] * 24).T, "v": exact_weights((16, 24), [2**-8] * 16).T},
        scales={"x": 2**-5},
        anywhere=True,
    ).program


NETS = {"image": image_net, "tokens": token_net}


def scheduled(monkeypatch: pytest.MonkeyPatch, folder: Path, net: str, chip: Chip, level: int) -> Program:
    """The net as its file brings it back, for a chip of that size."""
    monkeypatch.setattr(ways, "scheduling", lambda *_: Scheduling(chip, level))
    return from_bytes(to_bytes(NETS[net](folder)), "the file")


def agree(program: Program) -> ReferenceEngine:
    """The reference engine after a run in which all tensors were those of the fast one, which knows no schedule."""
    rng = np.random.default_rng(3)
    feeds = {p.name: rng.standard_normal(p.shape).astype(np.float32) for p in program.inputs}
    names = [t.name for t in program.tensors]
    engine = ReferenceEngine(program, tensors=names)
    seen, expected = engine.run(feeds), FastEngine(program, tensors=names).run(feeds)
    assert seen.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(seen[name], value, err_msg=name)
    return engine


def counts_are_those_of_perf(program: Program, engine: ReferenceEngine) -> None:
    summary = estimate(program, get_target(program.march))["summary"]
    moved = (engine.memory.read_bytes, engine.memory.written_bytes, engine.macs)
    assert moved == (summary["ddr_read_bytes"], summary["ddr_write_bytes"], summary["macs"])


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("chip", CHIPS, ids=lambda c: str(c.activations))
def test_integers_and_counts(monkeypatch, tmp_path, net, level, chip):
    program = scheduled(monkeypatch, tmp_path, net, chip, level)
    counts_are_those_of_perf(program, agree(program))


def stripes(program: Program) -> int:
    assert program.schedule is not None
    return sum(s.do is Do.RUN and s.what >= 0 for s in program.schedule.steps)


def test_levels_move_less_and_less(monkeypatch, tmp_path):
    moved = []
    for level in range(3):
        engine = agree(scheduled(monkeypatch, tmp_path, "image", CHIPS[1], level))
        moved.append(engine.memory.read_bytes + engine.memory.written_bytes)
    assert moved[0] > moved[1] > moved[2]


def test_what_fits_moves_only_inputs_constants_and_outputs(monkeypatch, tmp_path):
    program = scheduled(monkeypatch, tmp_path, "image", CHIPS[0], 1)
    engine = agree(program)
    assert stripes(program) == 0
    bpu = [i for i in program.instructions if i.device == "BPU"]
    constants = sum(r.nbytes for i in bpu for r in {r for r in i.reads() if r.space == 1})
    assert engine.memory.read_bytes == constants + 4 * 45 * 38  # three channels are stored as four


def test_a_small_chip_needs_stripes(monkeypatch, tmp_path):
    assert stripes(scheduled(monkeypatch, tmp_path, "image", CHIPS[2], 2)) > 20


def test_a_wrong_address_on_chip_shows(monkeypatch, tmp_path):
    program = scheduled(monkeypatch, tmp_path, "image", CHIPS[1], 2)
    s = program.schedule
    assert s is not None
    overlapping = replace(s, windows=tuple(replace(w, at=0) if w.space == 0 else w for w in s.windows))
    with pytest.raises(AssertionError):
        agree(replace(program, schedule=overlapping))


def test_edited_operands_have_no_schedule(monkeypatch, tmp_path):
    program = scheduled(monkeypatch, tmp_path, "image", CHIPS[1], 2)
    assert program.valid_schedule() is program.schedule
    i, pool = next((i, x) for i, x in enumerate(program.instructions) if type(x).__name__ == "Pool")
    shorter = replace(pool, y=replace(pool.y, shape=(*pool.y.shape[:2], 3, pool.y.shape[3])))
    edited = replace(program, instructions=[*program.instructions[:i], shorter, *program.instructions[i + 1 :]])
    assert edited.valid_schedule() is None
    agree(edited)


BROKEN: list[tuple[str, Any]] = [
    ("serves instruction 999 of", lambda s: replace(s, steps=(Step(Do.RUN, -1, 999), *s.steps[1:]))),
    ("uses window 999 of", lambda s: replace(s, steps=(Step(Do.DROP, 999, 0), *s.steps[1:]))),
    ("asks for rows 0..9 of 1", lambda s: replace(s, steps=(Step(Do.LOAD, 0, 0, 0, 9), *s.steps[1:]))),
    ("on chip", lambda s: replace(s, windows=(replace(s.windows[0], room=1 << 40), *s.windows[1:]))),
    ("is impossible", lambda s: replace(s, windows=(replace(s.windows[0], row=0), *s.windows[1:]))),
    ("more rows than its window", lambda s: replace(s, windows=(replace(s.windows[0], room=0), *s.windows[1:]))),
]


@pytest.mark.parametrize(("message", "change"), BROKEN, ids=[b[0] for b in BROKEN])
def test_an_impossible_schedule_is_refused(monkeypatch, tmp_path, message, change):
    program = scheduled(monkeypatch, tmp_path, "image", CHIPS[1], 2)
    with pytest.raises(FileError, match=message):
        from_bytes(to_bytes(replace(program, schedule=change(program.schedule))), "the file")


@pytest.mark.parametrize("name", ["add_fixed", "digits_inception", "hybrid", "ln_mlp", "kv_concat"])
def test_committed_models(monkeypatch, name):
    for level, chip in ((0, CHIPS[0]), (3, CHIPS[0]), (3, CHIPS[1])):
        monkeypatch.setattr(ways, "scheduling", lambda *_, c=chip, n=level: Scheduling(c, n))
        program = flow.compile_for_perf(str(ROOT / "models" / f"{name}.onnx"), "bayes-e", {})
        engine = agree(program)
        counts_are_those_of_perf(program, engine)
