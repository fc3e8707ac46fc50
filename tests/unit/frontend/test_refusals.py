"""What import refuses, and that the message names the thing and the remedy."""

import numpy as np
import onnx
import pytest

from bpuc.base.errors import BpucError, FileError, ModelError
from bpuc.frontend import import_model
from tests.unit.ops.onnx_cases import imported, model, values

h = onnx.helper
node = h.make_node


def relu(**arguments):
    return model([node("Relu", ["x"], ["y"], name="act")], {"x": [1, 3, 4, 4]}, ["y"], **arguments)


def raw(nodes, inputs, outputs, opset=17, initializers=(), domains=()):
    """A model without shape inference, for what inference would refuse."""
    graph = h.make_graph(
        nodes,
        "g",
        [h.make_tensor_value_info(n, 1, s) for n, s in inputs.items()],
        [h.make_tensor_value_info(n, 1, None) for n in outputs],
        list(initializers),
    )
    imports = [h.make_opsetid("", opset), *(h.make_opsetid(d, 1) for d in domains)]
    return h.make_model(graph, opset_imports=imports, ir_version=8)


def test_a_window_larger_than_its_operand(tmp_path):
    pool = node("MaxPool", ["x"], ["y"], "pool", kernel_shape=[9, 9])
    with pytest.raises(ModelError, match=r"'pool' \(MaxPool\) would have shape \[1, 3, -4, -4\]"):
        imported(raw([pool], {"x": [1, 3, 4, 4]}, ["y"]), tmp_path)


def test_a_bound_that_is_no_number(tmp_path):
    low = onnx.numpy_helper.from_array(np.array(np.nan, np.float32), "low")
    clip = node("Clip", ["x", "low"], ["y"], "clip")
    with pytest.raises(ModelError, match="'low' holds NaN"):
        imported(raw([clip], {"x": [1, 4]}, ["y"], initializers=[low]), tmp_path)


def test_missing_file(tmp_path):
    with pytest.raises(FileError, match=r"nowhere\.onnx"):
        import_model(tmp_path / "nowhere.onnx")


@pytest.mark.parametrize("content", [b"", b"not onnx at all\n" * 9, "half"])
def test_damaged_files(content, tmp_path):
    path = tmp_path / "bad.onnx"
    whole = relu().SerializeToString()
    path.write_bytes(whole[: len(whole) // 2] if content == "half" else content)
    with pytest.raises(ModelError, match=r"bad\.onnx"):
        import_model(path)


def test_every_truncation_is_one_of_our_errors(tmp_path):
    whole = relu().SerializeToString()
    path = tmp_path / "cut.onnx"
    for size in range(0, len(whole) - 1, 3):
        path.write_bytes(whole[:size])
        with pytest.raises(BpucError):
            import_model(path)


@pytest.mark.parametrize("opset", [0, 99])
def test_unknown_opset(opset, tmp_path):
    proto = relu()
    proto.opset_import[0].version = opset
    with pytest.raises(ModelError, match=rf"opset {opset}\b"):
        imported(proto, tmp_path)


def test_new_ir_version(tmp_path):
    proto = relu()
    proto.ir_version = 99
    with pytest.raises(ModelError, match="ir_version 99"):
        imported(proto, tmp_path)


def test_old_opset_is_converted(tmp_path):
    constants = {"s": np.ones(3, np.float32), "b": np.ones(3, np.float32)}
    constants |= {"m": np.zeros(3, np.float32), "v": np.ones(3, np.float32)}
    bn = node("BatchNormalization", ["x", *constants], ["y"], is_test=1, epsilon=0.0)
    tensors = [onnx.numpy_helper.from_array(a, n) for n, a in constants.items()]
    proto = raw([bn], {"x": [1, 3, 4, 4]}, ["y"], 6, tensors)
    proto.graph.output[0].CopyFrom(h.make_tensor_value_info("y", 1, [1, 3, 4, 4]))
    result = imported(proto, tmp_path)
    assert [op.kind for op in result.graph] == ["Affine"]


def test_op_of_another_domain(tmp_path):
    proto = raw([node("FusedConv", ["x", "x"], ["y"], name="fc", domain="com.microsoft")], {"x": [1]}, ["y"])
    with pytest.raises(ModelError, match=r"'fc'.*FusedConv.*'com\.microsoft'"):
        imported(proto, tmp_path)


def test_unknown_op(tmp_path):
    with pytest.raises(ModelError, match=r"'n'.*Frobnicate.*opset 17"):
        imported(raw([node("Frobnicate", ["x"], ["y"], name="n")], {"x": [1]}, ["y"]), tmp_path)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (node("DepthToSpace", ["x"], ["y"], name="n"), "blocksize"),
        (node("Relu", ["x"], ["y"], name="n", slope=2), "slope"),
        (node("Add", ["x"], ["y"], name="n"), "input size 1"),
        (node("Concat", ["x", "x"], ["y"], name="n", axis=7), "'n'"),
        (node("Transpose", ["x"], ["y"], name="n", perm=[0, 0, 1, 2]), "'n'"),
        (node("Softmax", ["x"], ["y"], name="n", axis=9), "'n'"),
    ],
)
def test_nodes_against_their_schema(made, words, tmp_path):
    with pytest.raises(ModelError, match=words) as caught:
        imported(raw([made], {"x": [1, 3, 4, 4]}, ["y"]), tmp_path)
    assert caught.value.where == "node 'n'"


def test_operands_that_do_not_fit(tmp_path):
    weights = onnx.numpy_helper.from_array(values((2, 5, 3, 3)), "w")
    proto = raw([node("Conv", ["x", "w"], ["y"], name="c")], {"x": [1, 3, 4, 4]}, ["y"], initializers=[weights])
    with pytest.raises(ModelError, match=r"node 'c'.*3 channels"):
        imported(proto, tmp_path)


def test_bias_of_another_length(tmp_path):
    tensors = [onnx.numpy_helper.from_array(values(s), n) for n, s in (("w", (2, 3, 1, 1)), ("b", (4,)))]
    proto = raw([node("Conv", ["x", "w", "b"], ["y"], name="c")], {"x": [1, 3, 4, 4]}, ["y"], initializers=tensors)
    with pytest.raises(ModelError, match=r"bias \[4\] is not for 2 channels"):
        imported(proto, tmp_path)


@pytest.mark.parametrize(("bad", "word"), [(np.nan, "NaN"), (np.inf, "Inf"), (-np.inf, "Inf")])
def test_weights_that_are_not_finite(bad, word, tmp_path):
    weights = np.ones((2, 3, 1, 1), np.float32)
    weights[1, 2] = bad
    proto = model([node("Conv", ["x", "stem.weight"], ["y"])], {"x": [1, 3, 4, 4]}, ["y"], {"stem.weight": weights})
    with pytest.raises(ModelError, match=rf"'stem\.weight' holds {word} at \[1, 2, 0, 0\]"):
        imported(proto, tmp_path)


def test_infinite_constant_that_was_computed(tmp_path):
    nodes = [node("Reciprocal", ["zero"], ["inf"]), node("Add", ["x", "inf"], ["y"])]
    proto = model(nodes, {"x": [1, 3]}, ["y"], {"zero": np.zeros((1, 3), np.float32)})
    with pytest.raises(ModelError, match="Inf"):
        imported(proto, tmp_path)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("NonZero", ["x"], ["y"], name="nz")], "'nz'.*NonZero.*hangs on the values of 'x'"),
        (
            [node("Cast", ["x"], ["i"], to=7), node("Reshape", ["x", "i"], ["y"], name="r")],
            "'r'.*Reshape.*no static shape",
        ),
    ],
)
def test_shapes_that_hang_on_data(nodes, words, tmp_path):
    with pytest.raises(ModelError, match=words):
        imported(raw(nodes, {"x": [4]}, ["y"]), tmp_path)


@pytest.mark.parametrize("op_type", ["RandomNormal", "RandomUniform"])
def test_random_numbers(op_type, tmp_path):
    nodes = [node(op_type, [], ["r"], name="dice", shape=[1, 3]), node("Add", ["x", "r"], ["y"])]
    with pytest.raises(ModelError, match=r"'dice'.*random"):
        imported(model(nodes, {"x": [1, 3]}, ["y"]), tmp_path)


def test_dropout_in_training(tmp_path):
    constants = {"ratio": np.float32(0.5), "mode": np.array(True)}
    proto = model([node("Dropout", ["x", *constants], ["y"], name="drop")], {"x": [1, 3]}, ["y"], constants)
    with pytest.raises(ModelError, match=r"'drop'.*training"):
        imported(proto, tmp_path)


def test_huge_constant(tmp_path):
    constants = {"shape": np.array([1, 1 << 30], np.int64)}
    nodes = [node("ConstantOfShape", ["shape"], ["big"], name="fill"), node("Add", ["x", "big"], ["y"])]
    with pytest.raises(ModelError, match=r"'fill'.*4096 MB"):
        imported(model(nodes, {"x": [1, 1]}, ["y"], constants), tmp_path)


def test_undefined_operand(tmp_path):
    with pytest.raises(ModelError, match=r"'act'.*reads tensor 'ghost'"):
        imported(raw([node("Relu", ["ghost"], ["y"], name="act")], {"x": [1]}, ["y"]), tmp_path)


def test_output_that_nothing_gives(tmp_path):
    with pytest.raises(ModelError, match=r"'z'"):
        imported(raw([node("Relu", ["x"], ["y"])], {"x": [1]}, ["y", "z"]), tmp_path)


def test_cycle(tmp_path):
    nodes = [node("Add", ["x", "b"], ["a"], name="one"), node("Relu", ["a"], ["b"], name="two")]
    with pytest.raises(ModelError, match=r"'one', 'two'.*cycle"):
        imported(raw(nodes, {"x": [1]}, ["b"]), tmp_path)


def test_tensor_given_twice(tmp_path):
    nodes = [node("Relu", ["x"], ["y"], name="one"), node("Neg", ["x"], ["y"], name="two")]
    with pytest.raises(ModelError, match=r"'y' is given twice: by node 'one' and by node 'two'"):
        imported(raw(nodes, {"x": [1]}, ["y"]), tmp_path)


def test_names_that_are_no_text(tmp_path):
    path = tmp_path / "odd.onnx"
    path.write_bytes(relu().SerializeToString().replace(b"act", b"\xff\xfe\xfd"))
    with pytest.raises(ModelError, match="UTF-8"):
        import_model(path)


def test_sequences(tmp_path):
    nodes = [node("SequenceConstruct", ["x"], ["s"], name="seq"), node("SequenceAt", ["s", "i"], ["y"])]
    index = onnx.numpy_helper.from_array(np.array(0), "i")
    with pytest.raises(ModelError, match=r"'seq'.*no tensor"):
        imported(raw(nodes, {"x": [1]}, ["y"], initializers=[index]), tmp_path)


def test_string_input(tmp_path):
    proto = raw([node("Relu", ["x"], ["y"])], {"x": [1]}, ["y"])
    proto.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.STRING
    with pytest.raises(ModelError, match=r"'x' has element type STRING"):
        imported(proto, tmp_path)


BIG = 10**12


@pytest.mark.parametrize(
    ("op", "shape", "constant"),
    [
        ("Expand", [1], np.array([BIG], np.int64)),
        ("Tile", [1], np.array([BIG], np.int64)),
        ("Pad", [4], np.array([0, BIG], np.int64)),
        ("Add", [10**6, 1], np.ones((1, 10**6), np.float32)),
        ("MatMul", [10**6, 1], np.ones((1, 10**6), np.float32)),
    ],
)
def test_results_that_no_machine_has_room_for(op, shape, constant, tmp_path):
    proto = raw([node(op, ["x", "c"], ["y"], name="big")], {"x": shape}, ["y"])
    proto.graph.initializer.append(onnx.numpy_helper.from_array(constant, "c"))
    with pytest.raises(ModelError, match=r"'y'.*MB") as e:
        imported(proto, tmp_path)
    assert "node 'big'" in str(e.value)


def test_an_input_that_no_machine_has_room_for(tmp_path):
    with pytest.raises(ModelError, match=r"'x'.*MB"):
        imported(raw([node("Relu", ["x"], ["y"])], {"x": [10**6, 10**6]}, ["y"]), tmp_path)


def test_a_constant_that_grows_by_broadcasting(tmp_path):
    proto = raw(
        [node("Add", ["a", "b"], ["c"], name="big"), node("Add", ["x", "c"], ["y"])],
        {"x": [1]},
        ["y"],
        initializers=[
            onnx.numpy_helper.from_array(np.ones(s, np.float32), n) for n, s in (("a", (20000, 1)), ("b", (1, 20000)))
        ],
    )
    with pytest.raises(ModelError, match=r"'big'.*constant"):
        imported(proto, tmp_path)


def test_a_constant_loop_is_not_run(tmp_path):
    value = h.make_tensor_value_info
    body = h.make_graph(
        [node("Identity", ["go"], ["on"]), node("Add", ["v", "v"], ["w"])],
        "body",
        [value("i", 7, []), value("go", 9, []), value("v", 1, [1])],
        [value("on", 9, []), value("w", 1, [1])],
    )
    arrays = {"n": np.int64(BIG), "c": np.array(True), "k": np.ones(1, np.float32)}
    proto = raw(
        [node("Loop", ["n", "c", "k"], ["z"], name="loop", body=body), node("Add", ["x", "z"], ["y"])],
        {"x": [1]},
        ["y"],
        initializers=[onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()],
    )
    with pytest.raises(ModelError, match="'loop'"):
        imported(proto, tmp_path)


def test_an_input_listed_twice(tmp_path):
    proto = relu()
    proto.graph.input.append(proto.graph.input[0])
    with pytest.raises(ModelError, match="'x' is there twice"):
        imported(proto, tmp_path)


def test_negative_sizes_of_an_initializer(tmp_path):
    proto = raw([node("Add", ["x", "c"], ["y"])], {"x": [4]}, ["y"])
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(4, np.float32), "c"))
    proto.graph.initializer[0].dims[:] = [-4]
    with pytest.raises(ModelError, match=r"'c' is damaged.*-4"):
        imported(proto, tmp_path)


def test_a_large_constant_whose_size_only_computing_tells_is_folded(tmp_path):
    mask = np.zeros(9000, np.float32)
    mask[[5, 7]] = 1
    proto = raw(
        [node("NonZero", ["m"], ["n"]), node("Cast", ["n"], ["f"], to=1), node("Add", ["x", "f"], ["y"])],
        {"x": [1, 2]},
        ["y"],
        initializers=[onnx.numpy_helper.from_array(mask, "m")],
    )
    constants = [t.value().ravel().tolist() for t in imported(proto, tmp_path).graph.tensors() if t.const is not None]
    assert [5.0, 7.0] in constants
