"""Input shapes: dynamic, fixed by the user, contradicting; element types; external data."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from bpuc.base.dtypes import DType
from bpuc.base.errors import ModelError
from bpuc.frontend import export_float, import_model, load
from tests.unit.ops.onnx_cases import imported, model, run, values

h = onnx.helper
node = h.make_node


def dynamic(*dims):
    return model([node("Relu", ["images"], ["y"])], {"images": list(dims)}, ["y"])


def test_dynamic_batch_is_one_with_a_warning(tmp_path):
    result = imported(dynamic("N", 3, 4, 4), tmp_path)
    assert result.graph.inputs[0].shape == (1, 3, 4, 4)
    ((code, message, where),) = result.warnings
    assert (code, where) == ("dynamic-batch", "images")
    assert "dynamic" in message
    assert "[N, 3, 4, 4]" in message


@pytest.mark.parametrize("dims", [("N", 3, "H", 4), (1, "C"), (0, 3), (2, 0)])
def test_other_open_dimensions_are_refused_with_the_remedy(dims, tmp_path):
    with pytest.raises(ModelError, match="shape of input 'images'") as caught:
        imported(dynamic(*dims), tmp_path)
    assert "--input-shape images:" in (caught.value.hint or "")


def test_given_shape(tmp_path):
    result = imported(dynamic("N", 3, "H", 4), tmp_path, input_shapes={"images": (2, 3, 6, 4)})
    assert result.graph.outputs[0].shape == (2, 3, 6, 4)
    assert result.warnings == []


def test_shapes_of_a_later_source_are_asked_with_the_names_and_lose(tmp_path):
    asked = []

    def more(names):
        asked.append(list(names))
        return {"images": (9, 3, 9, 4)}

    given = {"images": (2, 3, 6, 4)}
    assert imported(dynamic("N", 3, "H", 4), tmp_path, more_shapes=more).graph.inputs[0].shape == (9, 3, 9, 4)
    both = imported(dynamic("N", 3, "H", 4), tmp_path, input_shapes=given, more_shapes=more)
    assert both.graph.inputs[0].shape == (2, 3, 6, 4)
    assert asked == [["images"], ["images"]]


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"imagez": (1, 3, 4, 4)}, r"'imagez'.*'images'"),
        ({"images": (1, 3, 0, 4)}, r"\[1, 3, 0, 4\].*'images'.*below 1"),
        ({"images": (1, 5, 4, 4)}, r"\[1, 5, 4, 4\].*contradicts.*\[N, 3, H, 4\]"),
        ({"images": (1, 3, 4)}, r"\[1, 3, 4\].*contradicts"),
    ],
)
def test_shapes_that_are_wrong(shapes, words, tmp_path):
    with pytest.raises(ModelError, match=words):
        imported(dynamic("N", 3, "H", 4), tmp_path, input_shapes=shapes)


def test_input_without_a_shape(tmp_path):
    proto = dynamic(1, 3)
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ModelError, match="unknown"):
        imported(proto, tmp_path)
    assert imported(proto, tmp_path, input_shapes={"images": (4, 2)}).graph.outputs[0].shape == (4, 2)


def test_initializers_that_are_listed_as_inputs_are_none(tmp_path):
    proto = model([node("Add", ["x", "c"], ["y"])], {"x": [2, 3]}, ["y"], {"c": values((2, 3))})
    proto.graph.input.insert(0, h.make_tensor_value_info("c", 1, [2, 3]))
    assert [t.name for t in imported(proto, tmp_path).graph.inputs] == ["x"]


@pytest.mark.parametrize(("element", "given"), [(10, DType.FLOAT16), (11, DType.FLOAT32), (16, DType.FLOAT32)])
def test_other_floats_become_float32(element, given, tmp_path):
    numbers = [1.5, -2.0, 0.25]
    constant = h.make_tensor("c", element, [3], numbers)
    graph = h.make_graph(
        [node("Mul", ["x", "c"], ["m"]), node("Cast", ["m"], ["y"], to=1)],
        "g",
        [h.make_tensor_value_info("x", element, [2, 3])],
        [h.make_tensor_value_info("y", 1, [2, 3])],
        [constant],
    )
    proto = h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8)
    result = imported(proto, tmp_path)
    (op,) = result.graph
    assert op.input(1).dtype is DType.FLOAT32
    assert op.input(1).value().tolist() == numbers
    assert result.input_types == {"x": given}
    assert {code for code, _, _ in result.warnings} == {"float-type"}
    x = values((2, 3))
    np.testing.assert_allclose(run(export_float(result.graph), {"x": x})["y"], x * np.array(numbers, np.float32))


def test_doubles_beyond_float32_become_its_ends(tmp_path):
    constant = h.make_tensor("c", 11, [2], [-1e300, 1.0])
    graph = h.make_graph(
        [node("Max", ["x", "c"], ["y"])],
        "g",
        [h.make_tensor_value_info("x", 11, [1, 2])],
        [h.make_tensor_value_info("y", 11, [1, 2])],
        [constant],
    )
    result = imported(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8), tmp_path)
    (op,) = result.graph
    assert op.input(1).value()[0] == np.finfo(np.float32).min


def external(folder, location="w.bin", **entries):
    """A model whose weights lie in another file."""
    proto = model([node("Add", ["x", "c"], ["y"])], {"x": [4, 8]}, ["y"], {"c": values((4, 8))})
    folder.mkdir(exist_ok=True)
    tensor = proto.graph.initializer[0]
    (folder / "w.bin").write_bytes(b"\0" * 16 + tensor.raw_data)
    onnx.external_data_helper.set_external_data(tensor, location, **({"offset": 16, "length": 128} | entries))
    tensor.ClearField("raw_data")
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


@pytest.mark.parametrize("large", [1, 1 << 20])
def test_external_data(large, tmp_path, monkeypatch):
    """Read, or mapped where they lie."""
    monkeypatch.setattr(load, "LARGE", large)
    path = external(tmp_path / "m")
    first = import_model(path)
    (op,) = first.graph
    np.testing.assert_array_equal(op.input(1).value(), values((4, 8)))
    (tmp_path / "m" / "w.bin").write_bytes(b"\1" * 144)
    assert import_model(path).sha256 != first.sha256


def test_no_large_tensor_is_read_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(load, "LARGE", 1)
    names = [f"c{i}" for i in range(8)]
    constants = {name: values((4, 8), i) for i, name in enumerate(names)}
    nodes = [node("Sum", ["x", *names], ["y"])]
    proto = model(nodes, {"x": [4, 8]}, ["y"], constants)
    onnx.save_model(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    source = load.load(tmp_path / "m.onnx")
    assert sorted(source.large) == names
    assert not any(t.raw_data for t in source.model.graph.initializer)


@pytest.mark.parametrize(
    ("location", "entries", "words"),
    [
        ("missing.bin", {}, r"'missing\.bin'.*no such file"),
        ("../outside.bin", {}, r"'\.\./outside\.bin'.*outside"),
        ("/etc/passwd", {}, r"'/etc/passwd'.*outside"),
        ("w.bin", {"length": 4000}, r"'w\.bin'.*ends at byte 144"),
        ("w.bin", {"offset": 140}, r"'w\.bin'.*ends at byte 144"),
        ("w.bin", {"length": 64}, "'c' is damaged"),
        ("", {}, "outside"),
    ],
)
def test_external_data_that_cannot_be_used(location, entries, words, tmp_path):
    (tmp_path / "outside.bin").write_bytes(b"\0" * 999)
    with pytest.raises(ModelError, match=words) as caught:
        import_model(external(tmp_path / "m", location, **entries))
    assert caught.value.where == "initializer 'c'"


@pytest.mark.parametrize("element", ["float16", "float64", "int8"])
def test_large_external_data_of_other_types(element, tmp_path, monkeypatch):
    monkeypatch.setattr(load, "LARGE", 1)
    array = np.arange(-16, 16).astype(element).reshape(4, 8)
    path = external(tmp_path / "m")
    proto = onnx.load(path, load_external_data=False)
    proto.graph.initializer[0].data_type = h.np_dtype_to_tensor_dtype(array.dtype)
    del proto.graph.initializer[0].external_data[1:]  # the location stays
    proto.graph.node[0].CopyFrom(node("Cast", ["c"], ["y"], to=1))
    path.write_bytes(proto.SerializeToString())
    (tmp_path / "m" / "w.bin").write_bytes(array.tobytes())
    (op,) = import_model(path).graph
    np.testing.assert_array_equal(op.input(0).value(), array.astype(np.float32))


def test_link_out_of_the_folder_is_refused(tmp_path):
    (tmp_path / "outside.bin").write_bytes(b"\0" * 999)
    path = external(tmp_path / "m", "link.bin")
    (tmp_path / "m" / "link.bin").symlink_to(tmp_path / "outside.bin")
    with pytest.raises(ModelError, match=r"'link\.bin'.*outside"):
        import_model(path)


def two_inputs():
    return model([node("MatMul", ["a", "b"], ["y"])], {"a": ["batch", "rows", 4], "b": ["batch", 4, "columns"]}, ["y"])


def test_named_dimensions(tmp_path):
    result = imported(two_inputs(), tmp_path, symbols={"batch": 3, "rows": 5, "columns": 7})
    assert [t.shape for t in result.graph.inputs] == [(3, 5, 4), (3, 4, 7)]
    assert result.graph.outputs[0].shape == (3, 5, 7)
    assert result.warnings == []


def test_a_named_dimension_follows_from_another_input_s_shape(tmp_path):
    result = imported(two_inputs(), tmp_path, input_shapes={"a": (2, 5, 4)}, symbols={"columns": 1})
    assert [t.shape for t in result.graph.inputs] == [(2, 5, 4), (2, 4, 1)]


@pytest.mark.parametrize(
    ("symbols", "words"),
    [({"bach": 1}, "no input has a dimension named 'bach'"), ({"rows": 0}, "'rows' is given as 0")],
)
def test_named_dimensions_that_are_wrong(symbols, words, tmp_path):
    with pytest.raises(ModelError, match=words):
        imported(two_inputs(), tmp_path, symbols=symbols)
    with pytest.raises(ModelError, match="not static") as caught:
        imported(two_inputs(), tmp_path)
    assert "--input-shape rows=N" in (caught.value.hint or "")


def chosen(element=onnx.TensorProto.INT64, dims=()):
    """y = x * 2, [2], where sr is 16000, else the sum of x, [1]: no shape holds for both."""
    out = h.make_tensor_value_info("b", onnx.TensorProto.FLOAT, None)
    then = h.make_graph([node("Mul", ["x", "two"], ["b"])], "then", [], [out])
    other = h.make_graph([node("ReduceSum", ["x"], ["b"])], "other", [], [out])
    rate = onnx.numpy_helper.from_array(np.array(16000, h.tensor_dtype_to_np_dtype(element)), "rate")
    two = onnx.numpy_helper.from_array(np.float32([2.0]), "two")
    nodes = [
        node("Equal", ["sr", "rate"], ["same"]),
        node("If", ["same"], ["y"], "choice", then_branch=then, else_branch=other),
    ]
    x = h.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])
    sr = h.make_tensor_value_info("sr", element, dims)
    y = h.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = h.make_graph(nodes, "g", [x, sr], [y], [rate, two])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)


def test_a_branch_without_a_shape_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(ModelError, match="'choice'") as caught:
        imported(chosen(), tmp_path)
    assert "--input-value" in (caught.value.hint or "")


@pytest.mark.parametrize(("value", "want"), [(16000, [3.0, 10.0]), (8000, [6.5])])
def test_an_input_value_chooses_the_branch(value, want, tmp_path):
    result = imported(chosen(), tmp_path, input_values={"sr": value})
    assert [t.name for t in result.graph.inputs] == ["x"]
    assert "Onnx:If" not in {f"{op.kind}:{op.onnx_type}" for op in result.graph}
    session = ort.InferenceSession(
        export_float(result.graph, [result.graph.outputs[0].name]).SerializeToString(),
        providers=["CPUExecutionProvider"],
    )
    (got,) = session.run(None, {"x": np.float32([1.5, 5.0])})
    np.testing.assert_array_equal(got.reshape(-1), want)


@pytest.mark.parametrize(
    ("values_", "message"),
    [({"rs": 1}, "no input 'rs'"), ({"x": 1}, "cannot be given as one value"), ({"sr": 0.5}, "cannot be 0.5")],
)
def test_input_values_that_do_not_fit_are_named(values_, message, tmp_path):
    with pytest.raises(ModelError, match=message):
        imported(chosen(), tmp_path, input_values=values_)
