"""Random nets with ops pinned to the CPU and tensors asked to be int16: borders, segments, and both engines."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
from bpuc_passes.form_segments import FormSegments
from hypothesis import given, settings
from hypothesis import strategies as st

from bpuc.ir import Graph
from bpuc.passkit import PassContext
from bpuc.sim.run import run_program
from tests.properties.test_scale_sharing import SHAPE, Net, compiled, nets
from tests.strategies import graphs


@settings(deadline=None, max_examples=25)
@given(nets(), st.data())
def test_pins_and_types_change_devices_and_nothing_breaks(net: Net, data: st.DataObject) -> None:
    names = [n.name for n in net.nodes]
    pinned = data.draw(st.lists(st.sampled_from(names), unique=True, max_size=3))
    wide = data.draw(st.lists(st.sampled_from([o for n in net.nodes for o in n.output]), unique=True, max_size=3))
    program = compiled(net, run_on_cpu=pinned, dtype=[f"{t}=int16" for t in wide])
    nodes = program.report["nodes"]

    on_cpu = {n for row in nodes if row["device"] == "CPU" for n in row["onnx_nodes"]}
    assert set(pinned) <= on_cpu
    assert all(row["reason"] for row in nodes if row["device"] == "CPU")
    conversions = Counter((row["op"], row["inputs"][0]) for row in nodes if row["op"] in ("Quantize", "Dequantize"))
    assert set(conversions.values()) <= {1}, "one conversion a tensor and direction"
    check_segments(program.report)

    x = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    reference = run_program(program, {"x": x}, "reference", integers=True, tensors="all")
    fast = run_program(program, {"x": x}, "fast", integers=True, tensors="all")
    for name, value in reference.items():
        np.testing.assert_array_equal(fast[name], value, err_msg=name)


def check_segments(report: dict[str, Any]) -> None:
    """Segments of one device each, in turn, and every operand comes from the same segment or an earlier one."""
    devices = [s["device"] for s in report["segments"]]
    assert all(a != b for a, b in pairwise(devices))
    made: dict[str, int] = {}
    for row in report["nodes"]:
        assert devices[row["segment"]] == row["device"]
        assert all(made.get(name, 0) <= row["segment"] for name in row["inputs"])
        made.update(dict.fromkeys(row["outputs"], row["segment"]))


@given(graphs(), st.randoms(use_true_random=False))
def test_segments_of_any_graph_are_acyclic(graph: Graph, random: Any) -> None:
    for op in graph:
        op.device = random.choice(["CPU", "BPU"])
    FormSegments().run(graph, PassContext())
    device: dict[int, str] = {}
    for op in graph:
        assert device.setdefault(op.segment, op.device) == op.device
        for tensor in op.inputs:
            producer = None if tensor is None else graph.producer(tensor)
            assert producer is None or producer.segment <= op.segment
    assert sorted(device) == list(range(len(device)))
    assert all(device[i] != device[i + 1] for i in range(len(device) - 1))
