"""Order, verification, records and dumps of a pipeline."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, QuantParams, Tensor
from bpuc.ir.text import parse_graph
from bpuc.ir.verify import VerifyError
from bpuc.ops.attrs import AxisAttrs, NoAttrs
from bpuc.ops.registry import all_defs
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage, run_pipeline
from bpuc.passkit.manager import check_order
from bpuc.passkit.verify import verify
from bpuc.plugins import pipeline


@dataclass(frozen=True)
class Probe(Pass):
    """Calls what it is given."""

    name = "probe"
    numerics = Numerics.EXACT
    does: object = None

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        return self.does(graph) or [] if callable(self.does) else []


@dataclass(frozen=True)
class Places(Probe):
    """Claims to place."""

    name = "places"
    gives = Stage.PLACED


@dataclass(frozen=True)
class NeedsLegal(Probe):
    """Comes after legalisation."""

    name = "needs-legal"
    needs = Stage.LEGAL


def graph(kind: str = "Relu", **devices: str) -> Graph:
    g = Graph("g")
    x, y = (Tensor(n, (1, 4), DType.FLOAT32) for n in "xy")
    g.inputs, g.outputs, g.input_names, g.output_names = [x], [y], ["x"], ["y"]
    g.add(kind, NoAttrs(), [x], [y], name="op")
    return g


def test_a_pass_that_comes_too_early_is_refused_before_any_runs() -> None:
    ran = []
    with pytest.raises(ValueError, match="pass needs-legal needs a graph that is LEGAL, it would find PLACED"):
        run_pipeline(graph(), [Places(ran.append), NeedsLegal()], PassContext())
    assert ran == []


def test_the_built_in_order_holds() -> None:
    check_order([*pipeline("optimize"), *pipeline("place"), *pipeline("quantize")], Stage.IMPORTED)


def test_rows_count_changes() -> None:
    two = [Change("did", "op", "why"), Change("did", "op")]
    assert run_pipeline(graph(), [Probe(lambda _: two), Probe()], PassContext()) == [
        {"name": "probe", "changes": 2},
        {"name": "probe", "changes": 0},
    ]


def test_a_pass_that_breaks_the_graph_is_named() -> None:
    def lose(g: Graph) -> None:
        g.inputs = []

    with pytest.raises(VerifyError, match=r"x is neither produced.*after pass probe"):
        run_pipeline(graph(), [Probe(), Probe(lose)], PassContext())


def test_a_stage_that_was_promised_is_checked() -> None:
    with pytest.raises(VerifyError, match=r"op \(Relu\): no device \(''\) \(after pass places\)"):
        run_pipeline(graph(), [Places()], PassContext())


def test_dumps(tmp_path: Path) -> None:
    change = Change("renamed", "größe", "so")
    run_pipeline(graph(), [Probe(), Probe(lambda _: [change])], PassContext(), dump_dir=tmp_path / "new", first=5)
    names = sorted(p.name for p in (tmp_path / "new").iterdir())
    assert names == ["05-probe.changes.jsonl", "05-probe.ir", "06-probe.changes.jsonl", "06-probe.ir"]
    rows = [json.loads(line) for line in (tmp_path / "new/06-probe.changes.jsonl").read_text("utf-8").splitlines()]
    assert rows == [{"what": "renamed", "where": "größe", "why": "so"}]
    parsed = parse_graph((tmp_path / "new/06-probe.ir").read_text("utf-8"), {k: d.attrs for k, d in all_defs().items()})
    assert [op.name for op in parsed] == ["op"]


# -- the rules of the stages


def placed() -> Graph:
    g = graph()
    next(iter(g)).device = "BPU"
    return g


def quantized() -> Graph:
    g = placed()
    for tensor in g.tensors():
        tensor.dtype, tensor.quant = DType.INT8, QuantParams(DType.INT8, (0.5,))
    return g


def test_shapes_must_be_those_that_the_op_infers() -> None:
    g = graph()
    g.outputs[0].shape = (1, 5)
    with pytest.raises(VerifyError, match=r"op \(Relu\): shapes \[\(1, 5\)\], inferred \[\(1, 4\)\]"):
        verify(g, Stage.IMPORTED)


def test_quantized_results_have_a_scale() -> None:
    verify(quantized(), Stage.QUANTIZED)
    g = quantized()
    g.outputs[0].quant = None
    with pytest.raises(VerifyError, match="result y has no scale"):
        verify(g, Stage.QUANTIZED)


def test_bpu_operands_are_integers() -> None:
    with pytest.raises(VerifyError, match="operand x is float32"):
        verify(placed(), Stage.QUANTIZED)
    g = placed()
    next(iter(g)).device = "CPU"
    verify(g, Stage.QUANTIZED)


def test_movement_keeps_the_scale() -> None:
    g = quantized()
    a, b = g.outputs[0], Tensor("c", (1, 8), DType.INT8, quant=QuantParams(DType.INT8, (0.25,)))
    g.add("Concat", AxisAttrs(1), [a, a], [b], name="cat").device = "BPU"
    verify(g, Stage.QUANTIZED)
    with pytest.raises(VerifyError, match=r"cat \(Concat\): moves values between different scales: y .*0.5.* c .*0.25"):
        verify(g, Stage.LEGAL)
    b.quant = QuantParams(DType.INT8, (0.5,))
    verify(g, Stage.LEGAL)


def test_constants_may_stay_float_until_lowering() -> None:
    g = quantized()
    w = Tensor("w", (1, 4), DType.FLOAT32, np.ones((1, 4), np.float32), QuantParams(DType.INT8, (0.1,)))
    g.set_input(next(iter(g)), 1, w)
    verify(g, Stage.LEGAL)
