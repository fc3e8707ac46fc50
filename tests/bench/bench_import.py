"""Time to read and optimize models of many nodes, and how it grows with them."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
import pytest

from bpuc.flow.prepare import prepare
from bpuc.flow.request import make_request
from tests.bench.tables import write_section

# nodes -> seconds allowed, for import and all passes that hold for every march
LIMITS = {1_500: 3.0, 5_000: 15.0, 10_000: 30.0}
_rows: list[list[str]] = []
_TEXT = (
    "CPU time of import and of the passes that hold for every march, one thread, of made-up networks: branches of "
    "Conv, BatchNormalization, SiLU, residual Add, MaxPool, Split, Concat and Transpose, on small tensors."
)


@pytest.fixture(scope="module", autouse=True)
def page():
    yield
    if _rows:
        print("\n" + write_section("Import", _TEXT, ["nodes", "import, s", "optimize, s", "us a node"], _rows))  # noqa: T201


def network(nodes: int) -> onnx.ModelProto:
    """A network of about so many nodes, 14 a block; every block has weights of its own."""
    rng, made, constants = np.random.default_rng(0), [], []

    def constant(name: str, *shape: int) -> str:
        constants.append(onnx.numpy_helper.from_array(rng.uniform(0.5, 1.0, shape).astype(np.float32), name))
        return name

    def node(op: str, inputs: list[str], *outputs: str, **attributes: object) -> str:
        made.append(onnx.helper.make_node(op, inputs, list(outputs), **attributes))
        return outputs[0]

    x = "x"
    for i in range(nodes // 14):
        p = f"b{i}_"
        c = node("Conv", [x, constant(p + "w", 8, 8, 1, 1)], p + "c")
        norm = [constant(p + part, 8) for part in ("scale", "bias", "mean", "var")]
        n = node("BatchNormalization", [c, *norm], p + "n")
        s = node("Mul", [n, node("Sigmoid", [n], p + "g")], p + "s")
        a = node("Add", [s, x], p + "a")
        node("Split", [a], p + "l", p + "r", axis=1)
        m = node("MaxPool", [p + "l"], p + "m", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        j = node("Concat", [m, p + "r"], p + "j", axis=1)
        t = node("Transpose", [node("Relu", [j], p + "u")], p + "t", perm=[0, 2, 3, 1])
        back = node("Transpose", [t], p + "k", perm=[0, 3, 1, 2])
        x = node("Mul", [node("Add", [back, constant(p + "o", 1)], p + "d"), constant(p + "f", 1)], p + "y")
    graph = onnx.helper.make_graph(
        made,
        "network",
        [onnx.helper.make_tensor_value_info("x", 1, [1, 8, 4, 4])],
        [onnx.helper.make_tensor_value_info(x, 1, None)],
        constants,
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("nodes", LIMITS)
def test_import_and_optimize(nodes: int, tmp_path: Path) -> None:
    from bpuc.frontend import import_model

    path = tmp_path / "network.onnx"
    path.write_bytes(network(nodes).SerializeToString())
    times = []
    for work in (lambda: import_model(path), lambda: prepare(make_request(str(path)))):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    _rows.append([str(nodes), f"{times[0]:.2f}", f"{times[1] - times[0]:.2f}", f"{times[1] / nodes * 1e6:.0f}"])
    assert times[1] < LIMITS[nodes]
