"""Rescales merged into tables and borders: what comes out stays within the stated bound, in both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bpuc_passes.merge_rescales import MergeRescales
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from bpuc.flow.compile import compile_model
from bpuc.flow.request import make_request
from bpuc.ir import Graph
from bpuc.ir.text import parse_graph
from bpuc.lower.lower import lower
from bpuc.ops.registry import all_defs
from bpuc.passkit import PassContext, Stage
from bpuc.passkit.verify import verify
from bpuc.plugins import get_target
from bpuc.sim.run import run_program
from tests.unit.lower.bench import no_rules
from tests.unit.ops.onnx_cases import model

ATTRS = {kind: d.attrs for kind, d in all_defs().items()}
# values are in -0.9..0.9 and, rounded, in -1..1, which the finest of the scales just holds
SCALES = st.floats(1 / 127, 8 / 127)


def run(graph: Graph, x: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Results in float, the same in both engines."""
    verify(graph, Stage.LEGAL)
    for number, op in enumerate(graph):
        op.segment = number
    program = lower(graph, "net")
    reference = run_program(program, {"x": x}, "reference")
    fast = run_program(program, {"x": x}, "fast")
    for name, value in reference.items():
        np.testing.assert_array_equal(fast[name], value, err_msg=name)
    return {name: value.astype(np.float64) for name, value in reference.items()}


def merged(text: str) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Results without and with the pass on values that every scale holds, and the Rescales that stay."""
    before, after = parse_graph(text, ATTRS), parse_graph(text, ATTRS)
    MergeRescales().run(after, PassContext(target=get_target("bayes-e")))
    x = np.linspace(-0.9, 0.9, 400, dtype=np.float32).reshape(1, 4, 10, 10)
    return run(before, x), run(after, x), sum(op.kind == "Rescale" for op in after)


@settings(deadline=None, max_examples=30)
@given(SCALES, SCALES, st.floats(1 / 127, 2 / 127), st.sampled_from([("Sigmoid", 0.25), ("Tanh", 1.0), ("Relu", 1.0)]))
def test_readers_take_the_scale_before(first: float, second: float, third: float, table: tuple[str, float]) -> None:
    kind, slope = table
    old, new, rescales = merged(f"""graph g
  input %x: float32[1,4,10,10]
  %a: int8[1,4,10,10] scale={first} = Quantize(%x) !CPU name="q" {{}}
  %b: int8[1,4,10,10] scale={second} = Rescale(%a) !BPU name="r" {{}}
  %c: int8[1,10,4,10] scale={second} = Transpose(%b) !BPU name="t" {{perm=(0, 2, 1, 3)}}
  %d: int8[1,4,10,10] scale={third} = {kind}(%b) !BPU name="table" {{}}
  %y: float32[1,10,4,10] = Dequantize(%c) !CPU name="dq" {{}}
  %z: float32[1,4,10,10] = Dequantize(%d) !CPU name="dq2" {{}}
  output %y as "y"
  output %z as "z"
""")
    assert rescales == 0
    # 1 % of a step: the multiplier of the Rescale has finitely many bits
    assert np.abs(new["y"] - old["y"]).max() <= 0.51 * second
    assert np.abs(new["z"] - old["z"]).max() <= slope * 0.51 * second + third * 1.001
    x = np.linspace(-0.9, 0.9, 400).reshape(1, 4, 10, 10).transpose(0, 2, 1, 3)
    assert np.abs(new["y"] - x).max() <= first * 0.501, "what is read is what was quantized"


@settings(deadline=None, max_examples=30)
@given(SCALES, SCALES, st.sampled_from(["", "Tanh"]))
def test_producers_write_the_scale_behind(first: float, second: float, table: str) -> None:
    made = f"""%a: int8[1,4,10,10] scale={first} = Quantize(%x) !CPU name="q" {{}}"""
    if table:
        made = f"""%q: int8[1,4,10,10] scale={1 / 127} = Quantize(%x) !CPU name="q" {{}}
  %a: int8[1,4,10,10] scale={first} = {table}(%q) !BPU name="table" {{}}"""
    old, new, rescales = merged(f"""graph g
  input %x: float32[1,4,10,10]
  {made}
  %b: int8[1,4,10,10] scale={second} = Rescale(%a) !BPU name="r" {{}}
  %c: int8[1,8,10,10] scale={second} = Concat(%b, %b) !BPU name="cat" {{axis=1}}
  %y: float32[1,8,10,10] = Dequantize(%c) !CPU name="dq" {{}}
  output %y as "y"
""")
    assert rescales == 0
    x = np.linspace(-0.9, 0.9, 400).reshape(1, 4, 10, 10)
    true = np.tanh(np.floor(x * 127 + 0.5) / 127) if table else x
    assert np.abs(new["y"] - np.concatenate([true, true], 1)).max() <= second * 0.501, "it is rounded once"
    gap = np.abs(new["y"] - old["y"]).max()
    assert gap <= first * 0.51 + second * 1.01
    if first < 1.9 * second:
        assert round(gap / second) <= 1, "integers differ by at most one step"


@pytest.mark.parametrize("scales", [(0.01, 0.03), (0.03, 0.01)])
def test_strict_file_scales_stay_where_they_are(tmp_path: Path, scales: tuple[float, float]) -> None:
    """The file fixes t, u and w, between which values only move: tables in front and behind may not take that over."""
    constants: dict[str, Any] = {
        "s1": np.float32(scales[0]),
        "s2": np.float32(scales[1]),
        "s3": np.float32(0.02),
        "zero": np.int8(0),
        "flat": np.array([1, 4, 100], np.int64),
    }
    nodes = [helper.make_node("Sigmoid", ["x"], ["t0"], "sig")]
    for name, scale, source in (("t", "s1", "t0"), ("u", "s2", "u0"), ("w", "s3", "w0")):
        if name == "u":
            nodes.append(helper.make_node("Transpose", ["t"], ["u0"], "move", perm=[0, 1, 3, 2]))
        if name == "w":
            nodes.append(helper.make_node("Transpose", ["t"], ["w0"], "other", perm=[0, 2, 1, 3]))
        nodes.append(helper.make_node("QuantizeLinear", [source, scale, "zero"], [f"{name}_q"], f"{name}_q"))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", scale, "zero"], [name], f"{name}_dq"))
    nodes.append(helper.make_node("Reshape", ["u", "flat"], ["v"], "view"))
    nodes.append(helper.make_node("Tanh", ["v"], ["y"], "tanh"))
    nodes.append(helper.make_node("Sigmoid", ["w"], ["z"], "sig2"))
    path, data = tmp_path / "net.onnx", tmp_path / "data.npz"
    path.write_bytes(model(nodes, {"x": (1, 4, 10, 10)}, ["y", "z"], constants, 17).SerializeToString())
    np.savez(data, x=np.random.default_rng(0).normal(size=(2, 1, 4, 10, 10)).astype(np.float32))
    with no_rules():
        request = make_request(str(path), "bayes-e", data=str(data), threads=1, qat_scales="strict")
        report = compile_model(request).program.report
    scale = {t["name"]: t["scale"] for t in report["tensors"]}
    assert (scale["t0"], scale["u0"], scale["w0"]) == pytest.approx((*scales, 0.02))
    kept = {(r["tensor"], round(r["to_scale"], 6)) for r in report["rescales"]}
    assert kept == {("t0", scales[1]), ("t0", 0.02)}
