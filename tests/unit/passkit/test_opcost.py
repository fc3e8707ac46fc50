"""What placement thinks an op costs is what the latency model says of the instructions that it becomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper

from bpuc.base.dtypes import DType
from bpuc.flow.compile import compile_model
from bpuc.flow.prepare import prepare
from bpuc.flow.request import make_request
from bpuc.ir import Op, Tensor
from bpuc.passkit.opcost import OpCost, flops
from bpuc.perf import estimate
from bpuc.plugins import get_target
from bpuc.target.hardware import Hardware
from tests.unit.ops.onnx_cases import model

MARCH = "bayes-e"
HW = Hardware.of(get_target(MARCH))
COST = OpCost(HW)
BIG = (1, 32, 40, 48)


def node(op: str, inputs: list[str], **attrs: object) -> NodeProto:
    return helper.make_node(op, inputs, ["y"], name="op", **attrs)


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


CASES = {
    "conv": (node("Conv", ["x", "w"], pads=[1] * 4), {"w": weights(48, 32, 3, 3)}),
    "depthwise": (node("Conv", ["x", "w"], group=32, pads=[1] * 4), {"w": weights(32, 1, 3, 3)}),
    "transposed": (node("ConvTranspose", ["x", "w"], strides=[2, 2]), {"w": weights(32, 8, 2, 2)}),
    "matmul": (node("MatMul", ["x", "w"]), {"w": weights(48, 20)}),
    "gain a channel": (node("Mul", ["x", "w"]), {"w": weights(32, 1, 1)}),
    "table": (node("Sigmoid", ["x"]), {}),
    "add": (node("Add", ["x", "z"]), {}),
    "softmax": (node("Softmax", ["x"], axis=1), {}),
    "max pool": (node("MaxPool", ["x"], kernel_shape=[3, 3]), {}),
    "average pool": (node("AveragePool", ["x"], kernel_shape=[2, 2], strides=[2, 2]), {}),
    "sum": (node("ReduceSum", ["x", "axes"]), {"axes": np.array([1])}),
    "largest": (node("ArgMax", ["x"], axis=1), {}),
    "transpose": (node("Transpose", ["x"], perm=[0, 3, 2, 1]), {}),
    "concat": (node("Concat", ["x", "z"], axis=1), {}),
    "slice": (
        node("Slice", ["x", "from", "to", "axis"]),
        {"from": np.array([3]), "to": np.array([9]), "axis": np.array([1])},
    ),
    "bilinear": (node("Resize", ["x", "", "s"], mode="linear"), {"s": np.array([1, 1, 2, 2], np.float32)}),
    "nearest": (node("Resize", ["x", "", "s"], mode="nearest"), {"s": np.array([1, 1, 2, 2], np.float32)}),
}


def costed(folder: Path, name: str, device: str) -> tuple[Op, dict[str, Any], int]:
    """The op of a model of one node, its row in the latency model, and how many instructions it has."""
    n, constants = CASES[name]
    file = folder / "m.onnx"
    inputs = {i: BIG for i in n.input if i in ("x", "z")}
    # at -O1 every copy is made; above, it depends on the neighbours which ones are views. Behind it a Softmax,
    # since a product that is an output of the network stays int32
    tail = [] if name == "largest" else [helper.make_node("Softmax", ["y"], ["out"], name="tail")]
    file.write_bytes(model([n, *tail], inputs, ["out" if tail else "y"], constants, 17).SerializeToString())
    request = make_request(str(file), MARCH, optimize="1", **{f"run_on_{device}": ["op"]})
    (op,) = [op for op in prepare(request).graph if op.name == "op"]
    program = compile_model(request).program
    (row,) = [r for r in estimate(program, get_target(MARCH))["ops"] if r["name"] == "op"]
    assert row["device"] == device.upper()
    (index,) = [i for i, symbol in enumerate(program.ops) if symbol.name == "op"]
    return op, row, sum(ins.op == index for ins in program.instructions)


@pytest.mark.parametrize("name", CASES)
def test_on_the_bpu(tmp_path, name):
    op, row, instructions = costed(tmp_path, name, "bpu")
    assert COST.bpu_us(op) == pytest.approx(row["compute_us"] + instructions * HW.instruction_us)


@pytest.mark.parametrize("name", CASES)
def test_on_the_cpu(tmp_path, name):
    op, row, _ = costed(tmp_path, name, "cpu")
    assert COST.cpu_us(op) == pytest.approx(row["latency_us"])


def test_crossing():
    t = Tensor("t", BIG, DType.FLOAT32)
    ddr = 61440 / (HW.ddr_gb_per_s * 1e3)
    assert COST.quantize_us(t) == pytest.approx(HW.cpu_node_overhead_us + 61.44 * HW.cpu_quantize_ns_per_elem + ddr)
    assert COST.dequantize_us(t) == pytest.approx(HW.cpu_node_overhead_us + 61.44 * HW.cpu_dequantize_ns_per_elem + ddr)
    assert COST.call_us == HW.submit_us + HW.call_us


def test_indices_are_not_converted():
    t = Tensor("t", (1, 100), DType.INT64)
    assert COST.dequantize_us(t) == pytest.approx(800 / (HW.ddr_gb_per_s * 1e3))


def test_flops(tmp_path):
    def of(name: str) -> int:
        return flops(costed(tmp_path, name, "cpu")[0])

    assert of("conv") == 2 * 48 * 40 * 48 * 32 * 9
    assert of("transposed") == 2 * 32 * 40 * 48 * 8 * 4
    assert of("matmul") == 2 * 32 * 40 * 20 * 48
    assert of("max pool") == 32 * 38 * 46 * 9
    assert of("add") == 32 * 40 * 48
    assert of("table") == 20 * 32 * 40 * 48
    assert of("sum") == 32 * 40 * 48, "what is read counts, not what is left"
