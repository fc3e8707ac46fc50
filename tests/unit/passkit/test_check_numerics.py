"""``--check-numerics``: a pass that says EXACT and is not is found out, in float and in integers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bpuc.flow.compile import compile_model
from bpuc.flow.prepare import prepare
from bpuc.flow.probe import results
from bpuc.flow.request import Request, make_request
from bpuc.ir import Graph, QuantParams
from bpuc.ir.verify import VerifyError
from bpuc.ops.attrs import ConvAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext, run_pipeline


@dataclass(frozen=True)
class Clamp(Pass):
    """Claims to be exact and cuts every Conv at 0.01."""

    name = "clamp"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        for op in graph:
            if isinstance(op.attrs, ConvAttrs):
                op.attrs = replace(op.attrs, high=0.01)
        return [Change("clamped", graph.name)]


def request(folder: Path, **options: object) -> Request:
    w = np.random.default_rng(0).normal(0, 1, (3, 2, 1, 1)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
            helper.make_node("BatchNormalization", ["c", "one", "two", "one", "one"], ["b"], name="bn"),
            helper.make_node("Relu", ["b"], ["y"], name="relu"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(w, "w"),
            numpy_helper.from_array(np.ones(3, np.float32), "one"),
            numpy_helper.from_array(np.full(3, 2, np.float32), "two"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, folder / "m.onnx")
    return make_request(str(folder / "m.onnx"), "bayes-e", random_data=True, check_numerics=True, **options)  # type: ignore[arg-type]


def test_honest_passes_hold(tmp_path: Path) -> None:
    report = compile_model(request(tmp_path)).program.report
    assert sum(p["changes"] for p in report["passes"] if p["name"] == "fold-affine") == 1


def test_a_float_pass_that_changes_results_is_named(tmp_path: Path) -> None:
    prepared = prepare(request(tmp_path))
    probe = partial(results, sample={"x": np.full((1, 2, 4, 4), 2, np.float32)})
    with pytest.raises(VerifyError, match="clamp says that it keeps results, but output y changed"):
        run_pipeline(prepared.graph, [Clamp()], prepared.ctx, probe=probe)


@dataclass(frozen=True)
class Coarsen(Pass):
    """Claims to be exact and doubles the scale of every integer result."""

    name = "eliminate-rescales"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        for op in graph:
            quant = op.outputs[0].quant
            if op.kind == "Conv" and quant is not None:
                op.outputs[0].quant = QuantParams(quant.dtype, tuple(2 * s for s in quant.scale))
        return [Change("coarser", graph.name)]


def test_an_integer_pass_that_changes_integers_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bpuc_passes.pipelines.EliminateRescales", Coarsen)
    with pytest.raises(VerifyError, match="eliminate-rescales says that it keeps results, but output y changed"):
        compile_model(request(tmp_path))
