"""If, Loop and Scan: inlined where the condition is constant, else carried with what they read from outside."""

import numpy as np
import onnx
import pytest

from bpuc.base.errors import ModelError
from bpuc.frontend import export_float, export_op
from tests.unit.ops.onnx_cases import assert_kinds, assert_same, imported, model, run, values

h = onnx.helper
node = h.make_node


def branch(op_type, *operands, inits=()):
    """A subgraph with one node; both branches of an If use the same inner names."""
    nodes = [node(op_type, list(operands), ["inner"], name="in"), node("Neg", ["inner"], ["result"], name="out")]
    return h.make_graph(nodes, op_type, [], [h.make_tensor_value_info("result", 1, None)], list(inits))


def conditional(condition_from_x, *, name="choice"):
    made = node(
        "If", ["cond"], ["y"], name=name, then_branch=branch("Add", "r", "c"), else_branch=branch("Mul", "r", "c")
    )
    nodes = [node("Relu", ["x"], ["r0"]), node("Identity", ["r0"], ["r"])]
    if condition_from_x:
        nodes += [node("ReduceSum", ["x"], ["sum"], keepdims=0), node("Greater", ["sum", "zero"], ["cond"])]
    return [*nodes, made]


@pytest.mark.parametrize(("value", "kinds"), [(True, ["Relu", "Add", "Neg"]), (False, ["Relu", "Mul", "Neg"])])
def test_constant_condition_is_inlined(value, kinds, tmp_path):
    constants = {"cond": np.array(value), "c": values((2, 3), 4)}
    result = assert_kinds(model(conditional(False), {"x": [2, 3]}, ["y"], constants), tmp_path, kinds)
    assert result.graph.outputs[0].name == "y"
    assert [op.name for op in result.graph][1:] == ["choice/in", "choice/out"]


def test_two_inlined_branches_with_the_same_names(tmp_path):
    nodes = conditional(False)
    nodes.append(
        node(
            "If", ["cond"], ["z"], name="2nd", then_branch=branch("Sub", "y", "c"), else_branch=branch("Mul", "y", "c")
        )
    )
    constants = {"cond": np.array(True), "c": values((2, 3), 4)}
    result = assert_same(model(nodes, {"x": [2, 3]}, ["z", "y"], constants), tmp_path)
    names = [t.name for t in result.graph.tensors()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("sign", [1, -1])
def test_computed_condition_is_carried_with_its_captures(sign, tmp_path):
    proto = model(conditional(True), {"x": [2, 3]}, ["y"], {"zero": np.float32(0), "c": values((3,), 4)})
    result = imported(proto, tmp_path)
    op = next(op for op in result.graph if op.onnx_type == "If")
    assert op.attrs.captures == ("r", "c")
    assert [t.name for t in op.inputs] == ["cond", "r0", "c"]
    x = np.abs(values((2, 3))) * np.float32(sign)
    wanted = run(proto, {"x": x})["y"]
    np.testing.assert_allclose(run(export_float(result.graph), {"x": x})["y"], wanted, rtol=1e-6)
    feeds = {"cond": np.array(sign > 0), "r0": np.maximum(x, 0)}
    np.testing.assert_allclose(run(onnx.load_model_from_string(export_op(op)), feeds)["y"], wanted, rtol=1e-6)


def test_branches_of_different_shapes_are_refused(tmp_path):
    then = h.make_graph([node("Relu", ["x"], ["a"])], "t", [], [h.make_tensor_value_info("a", 1, None)])
    other = h.make_graph([node("Flatten", ["x"], ["b"])], "e", [], [h.make_tensor_value_info("b", 1, None)])
    nodes = [
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Greater", ["sum", "zero"], ["cond"]),
        node("If", ["cond"], ["y"], name="choice", then_branch=then, else_branch=other),
    ]
    proto = model(nodes, {"x": [2, 3, 4]}, ["y"], {"zero": np.float32(0)})
    with pytest.raises(ModelError, match=r"'choice' \(If\)"):
        imported(proto, tmp_path)


def test_scan(tmp_path):
    body = h.make_graph(
        [node("Add", ["s", "e"], ["s2"]), node("Relu", ["s2"], ["o"])],
        "body",
        [h.make_tensor_value_info("s", 1, [3]), h.make_tensor_value_info("e", 1, [3])],
        [h.make_tensor_value_info("s2", 1, [3]), h.make_tensor_value_info("o", 1, [3])],
    )
    nodes = [node("Scan", ["start", "x"], ["last", "y"], name="scan", num_scan_inputs=1, body=body)]
    result = assert_same(model(nodes, {"x": [4, 3]}, ["last", "y"], {"start": np.zeros(3, np.float32)}), tmp_path)
    assert [op.onnx_type for op in result.graph] == ["Scan"]


def test_loop_whose_shape_only_a_run_can_tell(tmp_path):
    """Each turn appends a slice: the scan output has as many rows as there are trips."""
    proto = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (float[a, b] y)
        <int64 trips = {3}, bool go = {1}> {
          y = Loop(trips, go) <body = b (int64 i, bool c) => (bool d, float[n] z) { d = Identity(c) z = Mul(x, x) }>
        }""")
    found = assert_same(proto, tmp_path)
    assert found.graph.outputs[0].shape == (3, 4)


def test_loop_of_unknown_length_is_refused(tmp_path):
    proto = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]> g (float[4] x, int64[1] n) => (float[a, b] y)
        <bool go = {1}> {
          y = Loop(n, go) <body = b (int64 i, bool c) => (bool d, float[m] z) { d = Identity(c) z = Mul(x, x) }>
        }""")
    with pytest.raises(ModelError, match="static shape"):
        imported(proto, tmp_path)
