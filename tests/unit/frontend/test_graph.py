"""What import makes of a model as a whole: names, aliases, outputs, folding, order, opaque nodes, Q/DQ pairs."""

import numpy as np
import onnx
import pytest

from bpuc.base.dtypes import DType
from bpuc.frontend import export_float, export_op
from tests.unit.ops.onnx_cases import assert_kinds, assert_same, imported, model, run, values

h = onnx.helper
node = h.make_node


def test_empty_and_repeated_names_become_unique(tmp_path):
    nodes = [node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["b"], name="n"), node("Abs", ["b"], ["y"], name="n")]
    ops = list(imported(model(nodes, {"x": [2]}, ["y"]), tmp_path).graph)
    assert [op.name for op in ops] == ["Relu_a", "n", "n_1"]
    assert [op.origin for op in ops] == [("Relu_a",), ("n",), ("n",)]


def test_a_node_may_be_called_as_its_tensor(tmp_path):
    nodes = [node("Relu", ["x"], ["relu"], name="relu"), node("Neg", ["relu"], ["y"], name="y")]
    ops = list(imported(model(nodes, {"x": [2]}, ["y"]), tmp_path).graph)
    assert [(op.name, op.out.name) for op in ops] == [("relu", "relu"), ("y", "y")]


def test_unsorted_nodes_are_sorted(tmp_path):
    proto = model([node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["b"]), node("Abs", ["b"], ["y"])], {"x": [2]}, ["y"])
    turned = list(proto.graph.node)[::-1]
    del proto.graph.node[:]
    proto.graph.node.extend(turned)
    assert [op.kind for op in imported(proto, tmp_path).graph] == ["Relu", "Neg", "Abs"]


def test_nodes_that_lead_nowhere_are_left_out_with_a_warning(tmp_path):
    nodes = [node("Relu", ["x"], ["y"]), node("NonZero", ["x"], ["dead"])]
    result = imported(model(nodes, {"x": [2]}, ["y"]), tmp_path)
    assert [op.kind for op in result.graph] == ["Relu"]
    assert result.warnings == [("unused-nodes", "1 nodes lead to no output and are left out", "")]


@pytest.mark.parametrize("read", ["values", "indices"])
def test_an_output_that_nobody_reads(read, tmp_path):
    """TopK has two, whoever wants them."""
    nodes = [node("TopK", ["x", "k"], ["values", "indices"]), node("Identity", [read], ["y"])]
    proto = model(nodes, {"x": [2, 5]}, ["y"], {"k": np.array([2])})
    assert_same(proto, tmp_path)


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_a_split_keeps_its_parts_where_only_the_first_is_read(opset, tmp_path):
    attrs = {"num_outputs": 3} if opset == 18 else {}
    nodes = [node("Split", ["x"], ["a", "b", "c"], axis=1, **attrs), node("Neg", ["a"], ["y"])]
    proto = model(nodes, {"x": [2, 6]}, ["y"], opset=opset)
    x = values((2, 6))
    found = imported(proto, tmp_path).graph
    np.testing.assert_array_equal(run(export_float(found), {"x": x})["y"], -x[:, :2])


def test_identity_dropout_and_cast_are_names(tmp_path):
    nodes = [
        node("Identity", ["x"], ["i"]),
        node("Relu", ["i"], ["r"]),
        node("Dropout", ["r"], ["d", "mask"]),
        node("Cast", ["d"], ["c"], to=1),
        node("Neg", ["c"], ["y"]),
    ]
    relu, neg = assert_kinds(model(nodes, {"x": [2, 3]}, ["y"]), tmp_path, ["Relu", "Neg"]).graph
    assert relu.input(0).name == "x"
    assert neg.input(0).name == "r"


def test_the_name_of_a_graph_output_wins(tmp_path):
    nodes = [node("Relu", ["x"], ["r"]), node("Identity", ["r"], ["y"]), node("Neg", ["r"], ["z"])]
    result = assert_kinds(model(nodes, {"x": [2]}, ["y", "z"]), tmp_path, ["Relu", "Neg"])
    assert [t.name for t in result.graph.outputs] == ["y", "z"]


def test_two_outputs_of_one_tensor_keep_both_names(tmp_path):
    nodes = [node("Relu", ["x"], ["r"]), node("Identity", ["r"], ["y"]), node("Identity", ["y"], ["z"])]
    result = assert_kinds(model(nodes, {"x": [2]}, ["r", "y", "z"]), tmp_path, ["Relu"])
    assert result.graph.output_names == ["r", "y", "z"]
    assert len(set(result.graph.outputs)) == 1


def test_inputs_and_constants_as_outputs(tmp_path):
    nodes = [node("Identity", ["x"], ["y"], "copy"), node("Identity", ["c"], ["z"], "held"), node("Relu", ["x"], ["r"])]
    proto = model(nodes, {"x": [2]}, ["y", "z", "r", "x"], {"c": values((3,))})
    result = assert_same(proto, tmp_path)
    copies = [op for op in result.graph if op.onnx_type == "Identity"]
    assert [op.kind for op in copies] == ["Onnx"] * 3
    # the file's own nodes by their names; no node of the file gives x
    assert sorted(op.origin for op in copies) == [(), ("copy",), ("held",)]
    assert result.graph.output_names == ["y", "z", "r", "x"]


def test_shapes_and_what_hangs_on_them_fold(tmp_path):
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["batch"]),
        node("Unsqueeze", ["batch", "zeros"], ["batches"]),
        node("Concat", ["batches", "rest"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {"zero": np.array(0), "zeros": np.array([0]), "rest": np.array([-1])}
    (op,) = assert_kinds(model(nodes, {"x": [2, 3, 4]}, ["y"], constants), tmp_path, ["Reshape"]).graph
    assert op.attrs.shape == (2, 12)


@pytest.mark.parametrize(("start", "end", "wanted"), [(1, None, [3, 4]), (-1, None, [4]), (0, -1, [2, 3])])
def test_part_of_a_shape(start, end, wanted, tmp_path):
    attrs = {"start": start} | ({} if end is None else {"end": end})
    nodes = [node("Shape", ["x"], ["s"], **attrs), node("Cast", ["s"], ["f"], to=1), node("Add", ["f", "z"], ["y"])]
    proto = model(nodes, {"x": [2, 3, 4], "z": [1]}, ["y"])
    (op,) = assert_kinds(proto, tmp_path, ["Add"]).graph
    assert op.input(1).value().reshape(-1).tolist() == wanted


def test_weights_that_are_computed_fold(tmp_path):
    nodes = [node("Transpose", ["w"], ["wt"], perm=[1, 0]), node("Mul", ["wt", "two"], ["w2"])]
    proto = model(
        [*nodes, node("MatMul", ["x", "w2"], ["y"])], {"x": [2, 3]}, ["y"], {"w": values((5, 3)), "two": np.float32(2)}
    )
    (op,) = assert_kinds(proto, tmp_path, ["MatMul"]).graph
    assert op.input(1).name == "w2"
    np.testing.assert_array_equal(op.input(1).value(), values((5, 3)).T * 2)


def test_constants_that_several_nodes_read_keep_apart(tmp_path):
    nodes = [node("Gemm", ["x", "w"], ["a"], transB=1), node("Add", ["a", "w"], ["y"])]
    proto = model(nodes, {"x": [3, 3]}, ["y"], {"w": values((3, 3))})
    names = [op.input(1).name for op in assert_kinds(proto, tmp_path, ["MatMul", "Add"]).graph]
    assert len(set(names)) == 2


def test_declared_shape_that_is_wrong_is_a_warning(tmp_path):
    proto = model([node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["y"])], {"x": [2, 3]}, ["y"])
    del proto.graph.value_info[:]
    proto.graph.value_info.append(h.make_tensor_value_info("a", 1, [7, 3]))
    result = imported(proto, tmp_path)
    assert result.graph.outputs[0].shape == (2, 3)
    assert result.warnings == [("declared-shape", "the file declares shape [7, 3] for 'a', but it is [2, 3]", "a")]


def test_local_functions_are_inlined(tmp_path):
    body = [node("Sigmoid", ["v"], ["s"]), node("Mul", ["v", "s"], ["w"])]
    function = h.make_function("mine", "Silu", ["v"], ["w"], body, [h.make_opsetid("", 17)])
    graph = h.make_graph(
        [node("Silu", ["x"], ["y"], domain="mine")],
        "g",
        [h.make_tensor_value_info("x", 1, [2, 3])],
        [h.make_tensor_value_info("y", 1, [2, 3])],
    )
    imports = [h.make_opsetid("", 17), h.make_opsetid("mine", 1)]
    proto = h.make_model(graph, functions=[function], opset_imports=imports, ir_version=8)
    assert_kinds(proto, tmp_path, ["Sigmoid", "Mul"])


@pytest.mark.parametrize(
    ("made", "shape", "opset"),
    [
        (node("CumSum", ["x", "c"], ["y"]), [2, 3], 14),
        (node("Hardmax", ["x"], ["y"], axis=1), [2, 3], 13),
        (node("LogSoftmax", ["x"], ["y"]), [2, 3, 4], 11),
        (node("ReduceL2", ["x"], ["y"], axes=[1]), [2, 3], 13),
        (node("LogSoftmax", ["x"], ["y"], axis=1), [2, 3], 11),
        (node("TopK", ["x", "k"], ["y", "i"]), [2, 5], 11),
        (node("GridSample", ["x", "x2"], ["y"]), [1, 2, 3, 2], 16),
        (node("ReverseSequence", ["x", "l"], ["y"]), [3, 2], 10),
    ],
)
def test_other_ops_are_carried_as_they_are(made, shape, opset, tmp_path):
    arrays = {"c": np.array(0), "k": np.array([2]), "l": np.array([3, 1]), "x2": values((1, 4, 4, 2), low=-1, high=1)}
    constants = {n: a for n, a in arrays.items() if n in made.input}
    proto = model([made], {"x": shape}, list(made.output), constants, opset)
    (op,) = assert_kinds(proto, tmp_path, ["Onnx"]).graph
    assert op.onnx_type == made.op_type
    assert op.attrs.why == f"there is no operator {made.op_type}"
    feed = {"x": values(shape)}
    part = onnx.load_model_from_string(export_op(op))
    assert [i.name for i in part.graph.input] == ["x"]
    np.testing.assert_allclose(run(part, feed)["y"], run(proto, feed)["y"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", [None, 0, 2, -1, -3])
def test_hardmax_before_opset_13_is_over_all_axes_from_its_axis_on(axis, tmp_path):
    made = node("Hardmax", ["x"], ["y"], name="hard", **({} if axis is None else {"axis": axis}))
    proto = model([made], {"x": [2, 3, 4, 5]}, ["y"], {}, 11)
    x = values((2, 3, 4, 5))
    columns = int(np.prod(x.shape[1 if axis is None else axis :]))
    flat = x.reshape(-1, columns)
    want = (np.arange(columns) == flat.argmax(1)[:, None]).astype(np.float32).reshape(x.shape)
    graph = assert_same(proto, tmp_path).graph
    np.testing.assert_array_equal(run(export_float(graph), {"x": x})["y"], want)


def test_lstm_whose_first_output_is_not_read(tmp_path):
    constants = {"w": values((1, 12, 4)), "r": values((1, 12, 3), 1)}
    nodes = [node("LSTM", ["x", "w", "r"], ["", "h"], hidden_size=3), node("Squeeze", ["h", "a"], ["y"])]
    proto = model(nodes, {"x": [5, 1, 4]}, ["y"], constants | {"a": np.array([0])})
    assert_kinds(proto, tmp_path, ["Onnx", "Reshape"])


def test_same_file_gives_the_same_graph(tmp_path):
    nodes = [node("Gemm", ["x", "w", "b"], ["a"], alpha=0.5), node("CumSum", ["a", "c"], ["y"])]
    proto = model(nodes, {"x": [3, 3]}, ["y"], {"w": values((3, 3)), "b": values((3,)), "c": np.array(0)})
    first, second = (export_float(imported(proto, tmp_path).graph).SerializeToString(deterministic=True) for _ in "ab")
    assert first == second


def qdq(x, y, scale, zero):
    return [
        node("QuantizeLinear", [x, scale, zero], [f"{x}_q"]),
        node("DequantizeLinear", [f"{x}_q", scale, zero], [y]),
    ]


def test_qdq_pairs_become_what_they_say_of_a_tensor(tmp_path):
    nodes = [*qdq("x", "xd", "s", "z"), node("Relu", ["xd"], ["r"]), *qdq("r", "y", "s", "z")]
    proto = model(nodes, {"x": [2]}, ["y"], {"s": np.float32(0.5), "z": np.int8(0)})
    result = imported(proto, tmp_path)
    assert [op.kind for op in result.graph] == ["Relu"]
    assert set(result.quantized) == {"x", "y"}
    info = result.quantized["y"]
    assert (info.scale, info.zero_point, info.dtype, info.axis) == ((0.5,), (0,), DType.INT8, None)
    assert info.range == (-64.0, 63.5)


def test_qdq_pair_that_hides_a_relu6_stays_as_clip(tmp_path):
    nodes = [node("Neg", ["x"], ["n"]), *qdq("n", "y", "s", "z")]
    proto = model(nodes, {"x": [2]}, ["y"], {"s": np.float32(6 / 255), "z": np.int8(-128)})
    result = imported(proto, tmp_path)
    assert [op.kind for op in result.graph] == ["Neg", "Clip"]
    got = run(export_float(result.graph), {"x": np.array([3.0, -9.0], np.float32)})["y"]
    np.testing.assert_allclose(got, [0, 6], rtol=1e-6)


def test_qdq_of_different_scales_stays(tmp_path):
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "t", "z"], ["y"])]
    constants = {"s": np.float32(0.5), "t": np.float32(0.25), "z": np.int8(0)}
    assert_kinds(model(nodes, {"x": [2]}, ["y"], constants), tmp_path, ["Onnx", "Onnx"])


def test_quantized_weights_are_dequantized(tmp_path):
    weights = np.array([[[[10]], [[-20]]], [[[30]], [[40]]]], np.int8)
    constants = {"w": weights, "s": np.array([0.5, 0.25], np.float32), "z": np.zeros(2, np.int8)}
    nodes = [node("DequantizeLinear", ["w", "s", "z"], ["wd"], axis=0), node("Conv", ["x", "wd"], ["y"])]
    result = assert_kinds(model(nodes, {"x": [1, 2, 3, 3]}, ["y"], constants), tmp_path, ["Conv"])
    (op,) = result.graph
    assert op.input(1).value().reshape(2, 2).tolist() == [[5.0, -10.0], [7.5, 10.0]]
    assert result.quantized["wd"].scale == (0.5, 0.25)
    assert result.quantized["wd"].axis == 0
