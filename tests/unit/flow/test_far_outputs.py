"""The warning of outputs far from float: its figure, its op and its remedy, against onnxruntime and by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper

from bpuc.base.dtypes import DType
from bpuc.calibrate.twin import Error
from bpuc.flow.compile import compile_model
from bpuc.flow.far_outputs import tell_far_outputs
from bpuc.flow.request import make_request
from bpuc.ir import QuantParams
from bpuc.ir.text import parse_graph
from bpuc.ops.registry import all_defs
from bpuc.passkit import PassContext
from bpuc.passkit.context import CompileOptions
from bpuc.plugins import get_target
from bpuc.program import Program
from bpuc.sim.run import run_program
from tests.unit.ops.onnx_cases import model

node = helper.make_node


@pytest.fixture
def difference(tmp_path: Path) -> Path:
    """A small difference of two large sums, squashed: what is left after cancellation is below their steps."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(4, 3, 1, 1)).astype(np.float32)
    nodes = [
        node("Conv", ["x", "w", "high"], ["a"], "left"),
        node("Conv", ["x", "v", "high"], ["b"], "right"),
        node("Sigmoid", ["a"], ["p"], "sa"),
        node("Sigmoid", ["b"], ["q"], "sb"),
        node("Sub", ["p", "q"], ["d"], "difference"),
        node("Tanh", ["d"], ["y"], "squash"),
    ]
    v = w + rng.normal(size=w.shape).astype(np.float32) * 0.03
    weights = {"w": w, "v": v, "high": np.full(4, 2, np.float32)}
    proto = model(nodes, {"x": (1, 3, 8, 8)}, ["y"], weights)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    np.savez(tmp_path / "c.npz", x=rng.uniform(-1, 1, (8, 1, 3, 8, 8)).astype(np.float32))
    return tmp_path


def compiled(folder: Path, march: str = "bayes-e", **options: Any) -> Program:
    data = str(folder / "c.npz")
    return compile_model(make_request(str(folder / "m.onnx"), march, data=data, **options)).program


def told(program: Program) -> list[str]:
    return [w["message"] for w in program.report["warnings"] if w["code"] == "far-output"]


def sqnr(folder: Path, program: Program) -> float:
    x = np.load(folder / "c.npz")["x"]
    session = ort.InferenceSession(folder / "m.onnx")
    want = np.stack([session.run(None, {"x": v})[0] for v in x]).astype(float)
    got = run_program(program, {"x": x})["y"]
    return float(10 * np.log10(np.square(want).sum() / np.square(got - want).sum()))


def test_the_figure_and_the_remedy(difference: Path) -> None:
    program = compiled(difference, auto_int16=False)
    (text,) = told(program)
    figure = re.match(r"y has an SQNR of (-?[\d.]+) dB", text)
    assert figure is not None
    assert float(figure[1]) == pytest.approx(sqnr(difference, program), abs=0.3)
    assert float(figure[1]) < 15
    assert "most is lost at difference (Sub)" in text
    assert text.endswith("what helps: --effort 3 or --dtype p=int16 --dtype q=int16")
    # what is told next, once the operands are wide, is what these come from
    better = compiled(difference, auto_int16=False, dtype=["p=int16", "q=int16"])
    assert sqnr(difference, better) > float(figure[1]) + 5
    (text,) = told(better)
    asked = re.findall(r"--dtype (\S+=int16)", text)
    assert asked
    assert set(asked) <= {"a=int16", "b=int16"}
    best = compiled(difference, auto_int16=False, dtype=["p=int16", "q=int16", "a=int16", "b=int16"])
    assert sqnr(difference, best) > 15
    assert told(best) == []


def test_effort_0_measures_nothing(difference: Path) -> None:
    assert told(compiled(difference, effort=0)) == []


JOINED = """graph g
  input %x: float32[1,4]
  const %w: float32[4,4] = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]
  %b: float32[1,4] = MatMul(%x, %w) !BPU name="boxes" {}
  %m: float32[1,4] = MatMul(%x, %w) !BPU name="logits" {}
  %s: float32[1,4] = Sigmoid(%m) !BPU name="scores" {}
  %c: float32[1,8] = Concat(%b, %s) !BPU name="join" {axis=1}
  %y: float32[1,8,1] = Reshape(%c) !BPU name="shape" {shape=(1, 8, 1)}
  output %y as "out"
"""
# power, noise and own noise: boxes 30 dB, logits 25, scores 10, and the whole as good as the boxes
ERRORS = {
    "x": Error(1, 1e-4, 1e-4),
    "b": Error(1e6, 1e3, 1e3),
    "m": Error(1, 10**-2.5, 10**-3),
    "s": Error(1, 0.1, 0.06),
    "c": Error(1e6, 1e3, 0),
    "y": Error(1e6, 1e3, 0),
}
HEAD = "the part of out that s gives has an SQNR of 10.0 dB against float on calibration data (below 15 dB); "
WORST = "most is lost at scores (Sigmoid), from 25.0 to 10.0 dB; what helps: "


@pytest.mark.parametrize(
    ("march", "effort", "own", "budget", "remedy"),
    [
        ("bayes-e", 1, 0.06, 1.0, "--effort 3 or --dtype s=int16"),
        ("bayes-e", 1, 0.04, 1.0, "--effort 3 or --dtype m=int16"),
        ("bayes-e", 3, 0.06, 0.5, "--dtype s=int16 or a larger --max-latency-loss"),
        ("bernoulli2", 2, 0.06, 1.0, "--effort 3"),
        ("bernoulli2", 3, 0.06, 1.0, "--run-on-cpu scores"),
    ],
)
def test_boxes_do_not_hide_scores(march: str, effort: int, own: float, budget: float, remedy: str) -> None:
    graph = parse_graph(JOINED, {kind: d.attrs for kind, d in all_defs().items()})
    for op in graph:
        op.onnx_type = op.onnx_type or op.kind
    for name in "bmscy":
        tensor = graph.find(name)
        assert tensor is not None
        tensor.quant = QuantParams(DType.INT8, (0.1,))
    ctx = PassContext(CompileOptions(effort=effort), get_target(march), int16_budget=budget)
    tell_far_outputs(graph, ctx, {**ERRORS, "s": Error(1, 0.1, own)})
    assert [(w.code, w.where, w.message) for w in ctx.warnings] == [("far-output", "out", HEAD + WORST + remedy)]


def test_near_outputs_are_not_told() -> None:
    graph = parse_graph(JOINED, {kind: d.attrs for kind, d in all_defs().items()})
    ctx = PassContext(CompileOptions(), get_target("bayes-e"))
    tell_far_outputs(graph, ctx, {**ERRORS, "s": Error(1, 10**-1.51, 0)})
    # silent in float, and never seen
    tell_far_outputs(graph, ctx, {**ERRORS, "s": Error(0, 1, 1)})
    tell_far_outputs(graph, ctx, {})
    assert ctx.warnings == []
