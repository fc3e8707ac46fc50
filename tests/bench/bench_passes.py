"""Time of placement and of the passes about scales on graphs of up to 10,000 ops full of concats and CPU ops."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from bpuc.base.channels import ChannelStats
from bpuc.flow.prepare import Prepared, prepare
from bpuc.flow.request import make_request
from bpuc.passkit.context import Range
from bpuc.plugins import pipeline
from tests.bench.tables import write_section

SIZES = (2500, 5000, 10000)
LIMIT_SECONDS = 5.0
_TEXT = (
    "CPU seconds for all passes of each phase, on a chain of blocks (split, shared and skipped concats, MaxPool) whose "
    "ranges differ by factors of 20; every seventh block has an op on the CPU with movable ops behind it."
)


def _model(ops: int) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    shapes = {"w": (8, 8, 1, 1), "w_half": (4, 4, 1, 1), "w_joined": (8, 20, 1, 1)}
    weights = {n: rng.normal(0, 0.3, s).astype(np.float32) for n, s in shapes.items()}
    nodes: list[NodeProto] = []
    ends = ["x"]
    while len(nodes) < ops:
        p = f"b{len(ends)}_"

        def emit(kind: str, inputs: list[str], *outputs: str, p: str = p, **attributes: object) -> None:
            outs = [p + o for o in outputs]
            nodes.append(helper.make_node(kind, inputs, outs, name=f"{p}{kind}_{outputs[0]}", **attributes))

        x, side = ends[-1], ends[max(len(ends) - 8, 0)]
        emit("Conv", [x, "w"], "c")
        emit("Sigmoid", [p + "c"], "s")
        emit("Split", [p + "s"], "l", "r", axis=1, split=[4, 4])
        emit("Conv", [p + "r", "w_half"], "m")
        emit("MaxPool", [p + "m"], "mp", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        emit("Concat", [p + "l", p + "r", p + "mp", side], "cat", axis=1)
        emit("Conv", [p + "cat", "w_joined"], "o")
        if len(ends) % 7 == 3:
            emit("Erf", [p + "o"], "e")
            emit("Sigmoid", [p + "e"], "g")
            emit("Add", [p + "g", side], "o2")
            ends.append(p + "o2")
        else:
            ends.append(p + "o")
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 8, 8, 8]) for n in ("x", ends[-1])]
    graph = helper.make_graph(
        nodes, "blocks", ports[:1], ports[1:], [numpy_helper.from_array(w, n) for n, w in weights.items()]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)


def _prepared(ops: int, folder: Path) -> Prepared:
    """The optimized graph with made-up statistics."""
    path = folder / f"{ops}.onnx"
    onnx.save(_model(ops), str(path))
    found = prepare(make_request(str(path), "bayes-e", run_on_cpu=["Erf"]))
    rng = np.random.default_rng(1)
    for t in found.graph.tensors():
        if t.observer:
            top = float(np.exp(rng.normal(0, 1.5)))
            peak = top * rng.uniform(0.05, 1, t.shape[1])
            found.ctx.ranges[t.name] = Range(-top, top, top, "made up")
            found.ctx.channels[t.name] = ChannelStats(1, peak, 0.1 * peak, peak**2 / 9)
    return found


def test_seconds(tmp_path: Path) -> None:
    rows, seconds = [], {}
    for ops in SIZES:
        found = _prepared(ops, tmp_path)
        row = [str(len(list(found.graph)))]
        for phase in ("place", "quantize"):
            start = time.process_time()
            for p in pipeline(phase):
                p.run(found.graph, found.ctx)
            seconds[phase, ops] = time.process_time() - start
            row.append(f"{seconds[phase, ops]:.2f}")
        rows.append([*row, f"{LIMIT_SECONDS:g} each"])
    print("\n" + write_section("Passes on large graphs", _TEXT, ["ops", "place s", "quantize s", "limit"], rows))  # noqa: T201
    assert all(s < LIMIT_SECONDS for s in seconds.values())
    # near linear: four times the ops in less than seven times the time
    for phase in ("place", "quantize"):
        assert seconds[phase, SIZES[-1]] < 7 * max(seconds[phase, SIZES[0]], 0.1)
