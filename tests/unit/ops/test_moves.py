"""Ops that move values: against onnxruntime, with the attributes that they get."""

import numpy as np
import onnx
import pytest

from tests.unit.ops.onnx_cases import assert_kinds, assert_same, model, values

node = onnx.helper.make_node
INTS = np.int64


def ints(*numbers):
    return np.array(numbers, INTS)


@pytest.mark.parametrize("axis", [0, 1, -1, 2])
def test_concat(axis, tmp_path):
    shape = [2, 3, 4]
    other = list(shape)
    other[axis] = 5
    proto = model([node("Concat", ["a", "b"], ["y"], axis=axis)], {"a": shape, "b": other}, ["y"])
    (op,) = assert_kinds(proto, tmp_path, ["Concat"]).graph
    assert op.attrs.axis == axis % 3


def test_concat_drops_what_is_empty(tmp_path):
    constants = {"none": np.zeros((2, 0), np.float32)}
    nodes = [node("Concat", ["a", "none", "b"], ["c"], axis=1), node("Concat", ["none", "c"], ["y"], axis=1)]
    proto = model(nodes, {"a": [2, 3], "b": [2, 1]}, ["y"], constants)
    (op,) = assert_kinds(proto, tmp_path, ["Concat"]).graph
    assert [t.name for t in op.inputs] == ["a", "b"]
    assert op.out.name == "y"


@pytest.mark.parametrize(
    ("attrs", "sizes", "opset"),
    [
        ({"axis": 1}, None, 13),
        ({"axis": -1}, ints(1, 3), 13),
        ({"axis": 1, "num_outputs": 2}, None, 18),
        ({"axis": 2, "split": [3, 1]}, None, 11),
    ],
)
def test_split(attrs, sizes, opset, tmp_path):
    operands = ["x"] if sizes is None else ["x", "s"]
    proto = model(
        [node("Split", operands, ["a", "b"], **attrs)],
        {"x": [2, 6, 4]},
        ["a", "b"],
        {} if sizes is None else {"s": sizes},
        opset,
    )
    (op,) = assert_kinds(proto, tmp_path, ["Split"]).graph
    assert [t.name for t in op.outputs] == ["a", "b"]


def test_split_with_an_unread_and_an_empty_part(tmp_path):
    nodes = [node("Split", ["x", "s"], ["a", "b", "c"], axis=0), node("Relu", ["c"], ["y"])]
    proto = model(nodes, {"x": [5, 2]}, ["y"], {"s": ints(2, 0, 3)})
    split, _ = assert_kinds(proto, tmp_path, ["Split", "Relu"]).graph
    assert split.attrs.sizes == (2, 3)


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps", "first", "stride"),
    [
        (ints(1), ints(3), ints(1), None, (0, 1, 0), (1, 1, 1)),
        (ints(1, 0), ints(2, 9), ints(0, -1), ints(1, 2), (1, 0, 0), (1, 1, 2)),
        (ints(-1), ints(-100), ints(2), ints(-1), (0, 0, 4), (1, 1, -1)),
        (ints(-3), ints(-1), ints(2), None, (0, 0, 2), (1, 1, 1)),
        (ints(4), ints(0), ints(2), ints(-2), (0, 0, 4), (1, 1, -2)),
        (ints(0, 1), ints(2, 3), None, None, (0, 1, 0), (1, 1, 1)),
    ],
)
def test_slice(starts, ends, axes, steps, first, stride, tmp_path):
    given = {"st": starts, "en": ends, "ax": axes, "sp": steps}
    constants = {n: a for n, a in given.items() if a is not None}
    operands = ["x", *(n if a is not None else "" for n, a in given.items())]
    while not operands[-1]:
        operands.pop()
    proto = model([node("Slice", operands, ["y"])], {"x": [2, 4, 5]}, ["y"], constants)
    (op,) = assert_kinds(proto, tmp_path, ["Slice"]).graph
    assert op.attrs.starts == first
    assert op.attrs.steps == stride


def test_slice_with_attributes(tmp_path):
    proto = model(
        [node("Slice", ["x"], ["y"], starts=[1, -2], ends=[3, 99], axes=[1, 2])], {"x": [2, 4, 5]}, ["y"], opset=9
    )
    (op,) = assert_kinds(proto, tmp_path, ["Slice"]).graph
    assert op.attrs.starts == (0, 1, 3)


def test_slice_of_everything_is_a_name(tmp_path):
    constants = {"st": ints(0), "en": ints(99), "ax": ints(1)}
    nodes = [node("Relu", ["x"], ["r"]), node("Slice", ["r", "st", "en", "ax"], ["s"]), node("Neg", ["s"], ["y"])]
    assert_kinds(model(nodes, {"x": [2, 4]}, ["y"], constants), tmp_path, ["Relu", "Neg"])


@pytest.mark.parametrize("shape", [ints(4, 6), ints(-1), ints(0, -1), ints(2, 3, 2, 2)])
def test_reshape(shape, tmp_path):
    proto = model([node("Reshape", ["x", "s"], ["y"])], {"x": [2, 3, 4]}, ["y"], {"s": shape})
    (op,) = assert_kinds(proto, tmp_path, ["Reshape"]).graph
    assert op.attrs.shape == op.out.shape


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_flatten(axis, tmp_path):
    proto = model([node("Flatten", ["x"], ["y"], axis=axis)], {"x": [2, 3, 4]}, ["y"])
    (op,) = assert_kinds(proto, tmp_path, ["Reshape"]).graph
    assert op.onnx_type == "Flatten"


@pytest.mark.parametrize("opset", [11, 13])
def test_squeeze_and_unsqueeze(opset, tmp_path):
    if opset < 13:
        nodes, constants = [node("Squeeze", ["x"], ["s"], axes=[0]), node("Unsqueeze", ["s"], ["y"], axes=[1, 3])], {}
    else:
        nodes = [node("Squeeze", ["x", "a"], ["s"]), node("Unsqueeze", ["s", "b"], ["y"])]
        constants = {"a": ints(0), "b": ints(1, 3)}
    proto = model(nodes, {"x": [1, 3, 4]}, ["y"], constants, opset)
    ops = list(assert_kinds(proto, tmp_path, ["Reshape", "Reshape"]).graph)
    assert [op.onnx_type for op in ops] == ["Squeeze", "Unsqueeze"]
    assert ops[1].out.shape == (3, 1, 4, 1)


@pytest.mark.parametrize("perm", [None, [0, 2, 1], [2, 0, 1]])
def test_transpose(perm, tmp_path):
    attrs = {} if perm is None else {"perm": perm}
    proto = model([node("Transpose", ["x"], ["y"], **attrs)], {"x": [2, 3, 4]}, ["y"])
    (op,) = assert_kinds(proto, tmp_path, ["Transpose"]).graph
    assert op.attrs.perm == tuple(perm or (2, 1, 0))


@pytest.mark.parametrize("shape", [ints(2, 3, 4), ints(5, 2, 3, 4), ints(1, 1, 4)])
def test_expand(shape, tmp_path):
    proto = model([node("Expand", ["x", "s"], ["y"])], {"x": [2, 1, 4]}, ["y"], {"s": shape})
    result = assert_same(proto, tmp_path)
    assert [op.kind for op in result.graph] == (["Expand"] if shape.tolist() != [1, 1, 4] else ["Onnx"])


def test_tile(tmp_path):
    proto = model([node("Tile", ["x", "r"], ["y"])], {"x": [2, 1, 4]}, ["y"], {"r": ints(1, 3, 2)})
    (op,) = assert_kinds(proto, tmp_path, ["Tile"]).graph
    assert op.attrs.repeats == (1, 3, 2)


@pytest.mark.parametrize("value", [None, 0.0, 1.5])
def test_pad(value, tmp_path):
    constants = {"p": ints(0, 1, 2, 0, 0, 3)} | ({} if value is None else {"v": np.float32(value)})
    proto = model([node("Pad", ["x", *constants], ["y"])], {"x": [2, 3, 4]}, ["y"], constants)
    (op,) = assert_kinds(proto, tmp_path, ["Pad"]).graph
    assert op.attrs.pads == (0, 1, 2, 0, 0, 3)
    assert op.attrs.value == (value or 0.0)


def test_pad_of_some_axes(tmp_path):
    constants = {"p": ints(1, 2), "a": ints(-1)}
    proto = model([node("Pad", ["x", "p", "", "a"], ["y"])], {"x": [2, 3]}, ["y"], constants, 18)
    (op,) = assert_kinds(proto, tmp_path, ["Pad"]).graph
    assert op.attrs.pads == (0, 1, 0, 2)


def test_pad_with_attributes(tmp_path):
    proto = model([node("Pad", ["x"], ["y"], pads=[0, 1, 0, 2], value=0.5)], {"x": [2, 3]}, ["y"], opset=9)
    assert_kinds(proto, tmp_path, ["Pad"])


@pytest.mark.parametrize(
    ("attrs", "pads", "why"),
    [
        ({"mode": "reflect"}, ints(0, 1, 0, 1), "Pad mode reflect"),
        ({"mode": "edge"}, ints(0, 1, 0, 1), "Pad mode edge"),
        ({}, ints(0, -1, 0, 1), "Pad with negative pads"),
    ],
)
def test_other_pads_stay_opaque(attrs, pads, why, tmp_path):
    proto = model([node("Pad", ["x", "p"], ["y"], **attrs)], {"x": [2, 3]}, ["y"], {"p": pads})
    (op,) = assert_kinds(proto, tmp_path, ["Onnx"]).graph
    assert op.attrs.why == why


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space(mode, tmp_path):
    proto = model([node("DepthToSpace", ["x"], ["y"], blocksize=2, mode=mode)], {"x": [1, 8, 3, 2]}, ["y"])
    assert_kinds(proto, tmp_path, ["DepthToSpace"])


def test_space_to_depth(tmp_path):
    proto = model([node("SpaceToDepth", ["x"], ["y"], blocksize=2)], {"x": [1, 3, 4, 6]}, ["y"])
    assert_kinds(proto, tmp_path, ["SpaceToDepth"])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("indices", [np.array(1, INTS), ints(-1, 0, 1), np.array([[0, 1], [1, -2]], INTS)])
def test_gather(axis, indices, tmp_path):
    proto = model([node("Gather", ["x", "i"], ["y"], axis=axis)], {"x": [2, 3, 4]}, ["y"], {"i": indices})
    (op,) = assert_kinds(proto, tmp_path, ["Gather"]).graph
    assert min(op.attrs.indices) >= 0
    assert op.attrs.index_shape == indices.shape


def test_embedding_stays_opaque(tmp_path):
    nodes = [node("ArgMax", ["x"], ["i"], axis=1, keepdims=0), node("Gather", ["table", "i"], ["y"])]
    proto = model(nodes, {"x": [2, 3]}, ["y"], {"table": values((3, 4))})
    ops = list(assert_same(proto, tmp_path).graph)
    assert [op.kind for op in ops] == ["ArgMax", "Onnx"]
