"""Random small networks give the same values after import and export, whatever hangs together how."""

import numpy as np
import onnx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.ops.onnx_cases import assert_same, model, values

node = onnx.helper.make_node
SHAPE = [1, 4, 3, 2]
CONSTANTS = {
    "w": values((4, 4, 1, 1)),
    "channel": values((4, 1, 1), 1),
    "whole": values(SHAPE, 2),
    "half": np.float32(0.5),
    "zero": np.array([0]),
    "two": np.array([2]),
    "one": np.array([1]),
}


def step(kind, a, b, out):
    """Nodes from tensors `a` and `b` of one shape to `out` of the same."""
    if kind in ("Relu", "Identity", "Sigmoid"):
        return [node(kind, [a], [out])]
    if kind in ("Add", "Mul", "Max"):
        return [node(kind, [a, b], [out])]
    if kind in ("channel", "whole", "half"):
        return [node("Sub", [a, kind], [out])]
    if kind == "Conv":
        return [node("Conv", [a, "w"], [out])]
    if kind == "turn":
        there = node("Transpose", [a], [f"{out}_t"], perm=[0, 3, 1, 2])
        return [there, node("Transpose", [f"{out}_t"], [out], perm=[0, 2, 3, 1])]
    # two halves joined the other way round
    return [
        node("Slice", [a, "zero", "two", "one"], [f"{out}_a"]),
        node("Split", [b], [f"{out}_b", f"{out}_c"], axis=1),
        node("Concat", [f"{out}_c", f"{out}_a"], [out], axis=1),
    ]


KINDS = ["Relu", "Identity", "Sigmoid", "Add", "Mul", "Max", "channel", "whole", "half", "Conv", "turn", "join"]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=9)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, wanted=st.sets(st.integers(0, 99), min_size=1, max_size=4))
def test_random_graphs(steps, wanted, tmp_path):
    tensors, nodes = ["x", "z"], []
    for index, (kind, a, b) in enumerate(steps):
        out = f"t{index}"
        nodes += step(kind, tensors[a % len(tensors)], tensors[b % len(tensors)], out)
        tensors.append(out)
    outputs = sorted({tensors[2 + i % len(steps)] for i in wanted})
    result = assert_same(model(nodes, {"x": SHAPE, "z": SHAPE}, outputs, CONSTANTS), tmp_path)
    assert result.graph.output_names == outputs
    names = [t.name for t in result.graph.tensors()]
    assert len(set(names)) == len(names)
