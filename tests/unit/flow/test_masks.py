"""Scores under a mask keep their precision, however far below them the mask reaches."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx import helper as h

from bpuc.flow.compile import compile_model
from bpuc.flow.request import make_request
from bpuc.ir.text import parse_graph
from bpuc.ops.registry import all_defs
from bpuc.passkit.masked_sums import floor, masks
from bpuc.sim.run import run_program

N = 16


def model(path: Path, kind: str) -> None:
    """Softmax of q k^T, causally masked, times v; all of q, k and v are the input."""
    low = {"inf": -np.inf, "1e9": -1e9, "100": -100.0, "where": -3.4e38, "windows": -100.0}[kind]
    hidden = np.triu(np.ones((N, N), bool), 1)
    x = h.make_tensor_value_info("x", TensorProto.FLOAT, [1, N, 8])
    y = h.make_tensor_value_info("y", TensorProto.FLOAT, [1, N, 8])
    if kind == "where":
        constants = {"m": ~hidden[None], "low": np.float32(low)}
        masked = h.make_node("Where", ["m", "s", "low"], ["z"], "mask")
    else:
        constants = {"m": np.where(hidden, np.float32(low), np.float32(0))}
        masked = h.make_node("Add", ["s", "m"], ["z"], "mask")
    nodes = [
        h.make_node("Transpose", ["x"], ["t"], "transpose", perm=[0, 2, 1]),
        h.make_node("MatMul", ["x", "t"], ["s"], "scores"),
        masked,
    ]
    if kind == "windows":  # masks of several windows are added with one more axis, and the Softmax is behind its end
        constants |= {"five": np.array([1, 1, 1, N, N]), "three": np.array([1, N, N])}
        constants["m"] = constants["m"][None, None, None]
        nodes[2:] = [
            h.make_node("Reshape", ["s", "five"], ["s5"], "apart"),
            h.make_node("Add", ["s5", "m"], ["z5"], "mask"),
            h.make_node("Reshape", ["z5", "three"], ["z"], "together"),
        ]
    nodes += [h.make_node("Softmax", ["z"], ["p"], "softmax", axis=-1), h.make_node("MatMul", ["p", "x"], ["y"], "out")]
    initializers = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    graph = h.make_graph(nodes, "g", [x], [y], initializers)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)


def attention(x: Any) -> Any:
    """What the model computes, in float64."""
    s = x @ x.swapaxes(-1, -2)
    s = np.where(np.triu(np.ones((N, N), bool), 1), -np.inf, s)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ x


@pytest.mark.parametrize("kind", ["inf", "1e9", "100", "where", "windows"])
def test_a_mask_costs_the_scores_no_steps(tmp_path: Path, kind: str) -> None:
    data = np.random.default_rng(3).normal(0, 0.8, (16, 1, N, 8)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=data)
    model(tmp_path / "m.onnx", kind)
    request = make_request(str(tmp_path / "m.onnx"), march="bayes-e", data=str(tmp_path / "d.npz"))
    program = compile_model(request).program
    assert [
        n["name"] for n in program.report["nodes"] if n["device"] == "CPU" and n["op"] in ("Onnx", "Add", "Where")
    ] == []
    threshold = next(t["threshold"] for t in program.report["tensors"] if t["name"] == "z")
    scores = data @ data.swapaxes(-1, -2)
    assert threshold < scores.max() - scores.min() + 10
    got = run_program(program, {"x": data[:4]})["y"]
    want = attention(data[:4].astype(np.float64))
    noise = np.square(got - want).sum() / np.square(want).sum()
    assert noise < 10**-2.5  # 25 dB; 0 dB with steps as wide as the mask


GRAPH = """graph g
  input %s: float32[1,4]
  const %m: float32[1,4] = [1.0, 0.0, -50.0, -5.0]
  %z: float32[1,4] = Add(%s, %m) name="add" {}
  %p: float32[1,4] = Softmax(%z) name="softmax" {axis=-1}
  output %p as "p"
"""


@pytest.mark.parametrize(
    ("low", "high", "want"),
    [
        # -50 + 3 is hidden beside 1 - 2; what is seen reaches from -5 - 2 to 1 + 3, nothing from -1 - 6 - ln 4 on
        (-2.0, 3.0, 7 + math.log(4)),
        # a score may lie 60 above another: nothing is hidden for sure
        (-30.0, 30.0, None),
        (8.0, 9.0, 10.0),
    ],
)
def test_the_floor_is_where_the_softmax_sees_nothing_more(low: float, high: float, want: float | None) -> None:
    (mask,) = masks(parse_graph(GRAPH, {kind: d.attrs for kind, d in all_defs().items()}))
    assert (mask.scores.name, mask.axis) == ("s", 1)
    assert floor(mask, low, high) == (want if want is None else pytest.approx(want))
