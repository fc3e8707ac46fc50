"""The J5's published compute time of each layer of one model beside the estimate's.

    python targets/fit/layers.py [--march bayes] [--fit]

`bayes_layers.csv` has the layers of a MobileNetV2 for 32x32 pictures in batches of 256, with operations and compute
time (DDR left out) as the vendor's performance report for the J5 gives them. The network is built from those rows,
compiled without data, and each layer's MACs and ``compute_us`` are held against its row.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from amounts import Amounts, Numbers, Vector
from onnx import TensorProto, helper, numpy_helper
from search import evolve

from bpuc.flow.compile import compile_for_perf
from bpuc.perf import estimate
from bpuc.plugins import get_target
from bpuc.program import Program
from bpuc.target.hardware import Hardware

BATCH = 256
FREE = {
    "sram_bytes_per_cycle": (16.0, 2000.0),
    "store_bytes_per_cycle": (16.0, 2000.0),
    "pack_cycles": (10.0, 400.0),
    "picture_cycles": (1.0, 300.0),
}
ROWS = Path(__file__).with_name("bayes_layers.csv")


def read_rows() -> list[dict[str, Any]]:
    """The published rows; numbers as numbers."""
    with ROWS.open(encoding="utf-8") as f:
        return [{k: v if k in ("layer", "kind") else float(v) for k, v in row.items()} for row in csv.DictReader(f)]


def build(rows: list[dict[str, Any]], batch: int = BATCH) -> onnx.ModelProto:
    """The network of the rows: convolutions, ReLU6 behind all but a block's last, residual additions, a classifier."""
    rng = np.random.default_rng(0)
    nodes, weights = [], [numpy_helper.from_array(np.float32(v), n) for n, v in (("zero", 0), ("six", 6))]
    x = block = "x"
    for row in rows:
        name, kind, inner, outer = row["layer"], row["kind"], int(row["in_channels"]), int(row["out_channels"])
        group, k = inner if kind == "depthwise" else 1, 1 if kind.startswith("conv1x1") else 3
        shape = (outer, inner) if kind == "linear" else (outer, inner // group, k, k)
        weights.append(numpy_helper.from_array(0.05 * rng.standard_normal(shape).astype(np.float32), f"{name}.weight"))
        if kind == "linear":
            nodes.append(helper.make_node("GlobalAveragePool", [x], ["pooled"], name="pool"))
            nodes.append(helper.make_node("Flatten", ["pooled"], ["flat"], name="flatten"))
            nodes.append(helper.make_node("Gemm", ["flat", f"{name}.weight"], ["y"], name=name, transB=1))
            continue
        block = x if name.endswith("_conv_0_0") else block
        s, pad = int(row["stride"]), k // 2
        options = {"kernel_shape": [k, k], "strides": [s, s], "pads": [pad] * 4, "group": group}
        nodes.append(helper.make_node("Conv", [x, f"{name}.weight"], [f"{name}.out"], name=name, **options))
        x = f"{name}.out"
        if kind.endswith("add"):
            nodes.append(helper.make_node("Add", [x, block], [f"{name}.sum"], name=f"{name}.add"))
            x = f"{name}.sum"
        elif not name.endswith(("_conv_2", "features_1_conv_1")):
            nodes.append(helper.make_node("Clip", [x, "zero", "six"], [f"{name}.relu"], name=f"{name}.clip"))
            x = f"{name}.relu"
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x", [batch, 3, 32, 32]), ("y", [batch, 10]))
    ]
    graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def compare(rows: list[dict[str, Any]], march: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each published row with its op of perf.json."""
    perf = estimate(_program(rows, march), get_target(march))
    ops = {node: op for op in perf["ops"] for node in op["onnx_nodes"]}
    return [(row, ops[row["layer"]]) for row in rows]


def _program(rows: list[dict[str, Any]], march: str) -> Program:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layers.onnx"
        onnx.save(build(rows), path)
        return compile_for_perf(str(path), march, {})


def fit(rows: list[dict[str, Any]], march: str, rounds: int = 60) -> tuple[dict[str, float], float]:
    """The numbers of FREE with the least mean error over the rows, and that error."""
    program = _program(rows, march)
    nodes = {node: i for i, op in enumerate(program.ops) for node in op.onnx_nodes}
    owners = {nodes[row["layer"]]: row["compute_us"] for row in rows}
    work = sorted((ins for ins in program.instructions if ins.op in owners), key=lambda ins: ins.op)
    ops = [ins.op for ins in work]
    starts = [ops.index(op) for op in sorted(owners)]
    published = np.array([owners[op] for op in sorted(owners)]).reshape(-1, 1)
    amounts = Amounts(work)

    def loss(numbers: Numbers) -> Vector:
        times = np.add.reduceat(amounts.compute_us(numbers), starts)
        return np.asarray(np.abs(times / published - 1).mean(0))

    return evolve(loss, asdict(Hardware.of(get_target(march))), FREE, {}, rounds)


def main() -> None:
    """Print each layer, then how many have the published operations, and the mean error of the compute time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--march", default="bayes")
    parser.add_argument("--fit", action="store_true", help="print numbers that fit the rows best")
    args = parser.parse_args()
    if args.fit:
        found, error = fit(read_rows(), args.march)
        print("\n".join(f"{name} = {found[name]:.3g}" for name in FREE), f"mean error {error:.1%}", sep="\n")
        return
    pairs = compare(read_rows(), args.march)
    errors = [op["compute_us"] / row["compute_us"] - 1 for row, op in pairs]
    for (row, op), error in zip(pairs, errors):
        what = f"{row['in_channels']:4.0f} -> {row['out_channels']:4.0f} {row['size']:2.0f}x{row['size']:<2.0f}"
        times = f"{row['compute_us']:6.0f} {op['compute_us']:7.1f} us {error:+5.0%}"
        print(f"{row['layer']:28} {row['kind']:12} {what} {times}")
    exact = sum(2 * op["macs"] == row["ops"] for row, op in pairs)
    print(f"{exact} of {len(pairs)} layers have the published operations; compute: MAPE {np.mean(np.abs(errors)):.1%}")


if __name__ == "__main__":
    main()
