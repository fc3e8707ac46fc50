"""MatMul, Gemm, the binary ops and BatchNormalization against onnxruntime, and what they become."""

import numpy as np
import onnx
import pytest

from bpuc.base.errors import ModelError
from tests.unit.ops.onnx_cases import assert_kinds, assert_same, imported, model, values

node = onnx.helper.make_node


@pytest.mark.parametrize(
    ("a", "b"), [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((1, 2, 3, 4), (5, 1, 4, 2))]
)
@pytest.mark.parametrize("constant", [True, False])
def test_matmul(a, b, constant, tmp_path):
    inputs = {"a": a} if constant else {"a": a, "b": b}
    proto = model([node("MatMul", ["a", "b"], ["y"])], inputs, ["y"], {"b": values(b)} if constant else {})
    assert_kinds(proto, tmp_path, ["MatMul"])


@pytest.mark.parametrize(
    ("a", "b", "kinds"),
    [
        ((4,), (4, 5), ["Reshape", "MatMul", "Reshape"]),
        ((2, 3, 4), (4,), ["Reshape", "MatMul", "Reshape"]),
        ((4,), (4,), ["Reshape", "Reshape", "MatMul", "Reshape"]),
    ],
)
def test_matmul_of_vectors(a, b, kinds, tmp_path):
    proto = model([node("MatMul", ["a", "b"], ["y"])], {"a": a, "b": b}, ["y"])
    assert_kinds(proto, tmp_path, kinds)


@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("c", [None, (5,), (1, 5), (1,), ()])
def test_gemm_with_constants_is_one_product(trans_b, c, tmp_path):
    constants = {"b": values((5, 4) if trans_b else (4, 5))}
    if c is not None:
        constants["c"] = values(c, 1)
    names = ["a", "b", "c"] if c is not None else ["a", "b"]
    proto = model(
        [node("Gemm", names, ["y"], name="fc", transB=trans_b, alpha=0.5, beta=3.0)], {"a": [3, 4]}, ["y"], constants
    )
    (op,) = assert_kinds(proto, tmp_path, ["MatMul"]).graph
    assert op.name == "fc"
    assert op.onnx_type == "Gemm"
    assert op.input(1).name == "b"
    assert (op.maybe(2) is not None) == (c is not None)


@pytest.mark.parametrize("c", [(3, 5), (3, 1)])
def test_gemm_whose_c_varies_by_row_gets_an_add(c, tmp_path):
    constants = {"b": values((4, 5)), "c": values(c, 1)}
    proto = model([node("Gemm", ["a", "b", "c"], ["y"], beta=2.0)], {"a": [3, 4]}, ["y"], constants)
    assert_kinds(proto, tmp_path, ["MatMul", "Add"])


def test_gemm_of_square_shape_keeps_rows_and_columns_apart(tmp_path):
    constants = {"b": values((4, 3)), "c": values((3, 1), 1)}
    proto = model([node("Gemm", ["a", "b", "c"], ["y"])], {"a": [3, 4]}, ["y"], constants)
    assert_kinds(proto, tmp_path, ["MatMul", "Add"])


def test_gemm_of_activations(tmp_path):
    attrs = {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 0.25}
    proto = model([node("Gemm", ["a", "b", "c"], ["y"], **attrs)], {"a": [4, 3], "b": [5, 4], "c": [3, 5]}, ["y"])
    assert_kinds(proto, tmp_path, ["Transpose", "Transpose", "MatMul", "Mul", "Mul", "Add"])


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div", "Max", "Min"])
@pytest.mark.parametrize(("a", "b"), [((2, 3), (2, 3)), ((1, 3, 4, 4), (3, 1, 1)), ((2, 1), (1, 3))])
def test_binary(kind, a, b, tmp_path):
    proto = model([node(kind, ["a", "b"], ["y"])], {"a": a, "b": b}, ["y"])
    assert_kinds(proto, tmp_path, [kind], low=0.5)


@pytest.mark.parametrize(
    ("kind", "wanted", "constant"),
    [("Add", "Add", 0.5), ("Sub", "Add", -0.5), ("Mul", "Mul", 0.5), ("Div", "Mul", 2.0), ("Max", "Max", 0.5)],
)
def test_scalar_constants_stay_binary(kind, wanted, constant, tmp_path):
    proto = model([node(kind, ["x", "c"], ["y"])], {"x": [1, 3, 2, 2]}, ["y"], {"c": np.full((1, 1), 0.5, np.float32)})
    (op,) = assert_kinds(proto, tmp_path, [wanted]).graph
    assert op.onnx_type == kind
    assert op.input(1).shape == ()
    assert float(op.input(1).value()) == constant


@pytest.mark.parametrize("kind", ["Sub", "Div"])
def test_constant_at_the_left(kind, tmp_path):
    proto = model([node(kind, ["c", "x"], ["y"])], {"x": [1, 3, 2, 2]}, ["y"], {"c": np.float32(0.5)})
    (op,) = assert_kinds(proto, tmp_path, [kind], low=0.5).graph
    assert op.input(0).const is not None


@pytest.mark.parametrize(
    ("kind", "shape", "constant", "axis"),
    [
        ("Add", (1, 3, 2, 2), (3, 1, 1), 1),
        ("Sub", (1, 3, 2, 2), (1, 3, 1, 1), 1),
        ("Mul", (2, 3), (3,), 1),
        ("Div", (2, 4, 3), (3,), 2),
        ("Div", (2, 4, 3), (4, 1), 1),
    ],
)
def test_constants_per_channel_are_affine(kind, shape, constant, axis, tmp_path):
    proto = model([node(kind, ["x", "c"], ["y"])], {"x": shape}, ["y"], {"c": values(constant, low=0.5)})
    (op,) = assert_kinds(proto, tmp_path, ["Affine"]).graph
    assert op.attrs.axis == axis
    assert op.onnx_type == kind


def test_constant_minus_channels_is_affine(tmp_path):
    proto = model([node("Sub", ["c", "x"], ["y"])], {"x": [1, 3, 2, 2]}, ["y"], {"c": values((3, 1, 1))})
    (op,) = assert_kinds(proto, tmp_path, ["Affine"]).graph
    assert op.input(1).value().tolist() == [-1.0, -1.0, -1.0]


@pytest.mark.parametrize(("shape", "constant"), [((1, 3, 2, 4), (4,)), ((1, 3, 2, 2), (3, 2, 2)), ((3,), (2, 3))])
def test_other_constants_stay_binary(shape, constant, tmp_path):
    proto = model([node("Add", ["c", "x"], ["y"])], {"x": shape}, ["y"], {"c": values(constant)})
    (op,) = assert_kinds(proto, tmp_path, ["Add"]).graph
    assert op.input(1).name == "c"


def test_division_by_a_constant_with_zero_stays(tmp_path):
    constant = np.array([1, 0, 2], np.float32).reshape(3, 1, 1)
    proto = model([node("Div", ["x", "c"], ["y"])], {"x": [1, 3, 2, 2]}, ["y"], {"c": constant})
    assert_kinds(proto, tmp_path, ["Div"])


@pytest.mark.parametrize(
    ("kind", "kinds"),
    [("Sum", ["Add", "Add"]), ("Mean", ["Add", "Add", "Mul"]), ("Max", ["Max"] * 2), ("Min", ["Min"] * 2)],
)
def test_many_operands_become_a_chain(kind, kinds, tmp_path):
    inputs = {"a": [2, 3], "b": [3], "c": [2, 1]}
    proto = model([node(kind, list(inputs), ["y"], name="many")], inputs, ["y"])
    ops = list(assert_kinds(proto, tmp_path, kinds).graph)
    assert ops[-1].name == "many"
    assert {op.origin for op in ops} == {("many",)}


@pytest.mark.parametrize("kind", ["Sum", "Mean", "Max", "Min"])
def test_one_operand_is_a_name(kind, tmp_path):
    proto = model([node("Relu", ["x"], ["r"]), node(kind, ["r"], ["y"])], {"x": [2, 3]}, ["y"])
    (op,) = assert_kinds(proto, tmp_path, ["Relu"]).graph
    assert op.out.name == "y"


def test_integers_are_not_taken_for_numbers_with_a_scale(tmp_path):
    nodes = [node("ArgMax", ["x"], ["i"], axis=1), node("Add", ["i", "i"], ["y"])]
    proto = model(nodes, {"x": [1, 3, 2]}, ["y"])
    ops = list(assert_same(proto, tmp_path).graph)
    assert [op.kind for op in ops] == ["ArgMax", "Onnx"]
    assert ops[1].attrs.why == "Add of int64 values"


BN = {"s": values((3,), 1, 0.5), "b": values((3,), 2), "m": values((3,), 3), "v": values((3,), 4, 0.5)}


@pytest.mark.parametrize("shape", [(2, 3), (1, 3, 5), (1, 3, 4, 4)])
def test_batchnormalization_is_affine(shape, tmp_path):
    proto = model([node("BatchNormalization", ["x", *BN], ["y"], epsilon=1e-3)], {"x": shape}, ["y"], BN)
    (op,) = assert_kinds(proto, tmp_path, ["Affine"]).graph
    np.testing.assert_allclose(op.input(1).value(), BN["s"] / np.sqrt(BN["v"] + 1e-3), rtol=1e-6)


@pytest.mark.parametrize(
    ("attrs", "outputs", "opset"),
    [({"training_mode": 1}, ["y", "rm", "rv"], 15), ({}, ["y", "rm", "rv", "sm", "sv"], 9)],
)
def test_batchnormalization_in_training_is_refused(attrs, outputs, opset, tmp_path):
    bn = node("BatchNormalization", ["x", *BN], outputs, name="norm", **attrs)
    h = onnx.helper
    graph = h.make_graph(
        [bn],
        "g",
        [h.make_tensor_value_info("x", 1, [2, 3, 4, 4])],
        [h.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(a, n) for n, a in BN.items()],
    )
    proto = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8)
    with pytest.raises(ModelError, match=r"'norm'.*training"):
        imported(proto, tmp_path)
