"""Host values: strings, sequences, optionals and tensors whose shape hangs on data, in float and refused elsewhere."""

import numpy as np
import onnx
import onnxruntime
import pytest

from bpuc import backend
from bpuc.base.dtypes import DType
from bpuc.base.errors import DataError, ModelError
from bpuc.frontend.onnx_import import import_model
from bpuc.ir.text import parse_graph, print_graph
from bpuc.ops import registry

SEQ = "seq(float[?, ?])"
X = np.array([[1, 0, -2], [0, 3, 0.5]], np.float32)
BOXES = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 10, 1, 11]]], np.float32)
REFUSED = r"has no static shape|(is|gives) no tensor|STRING, which is not supported"
MASK = np.array([True, False, True])
ONE, TWO = X[:, :1], X + 1
WORDS = np.array(["a", "bc", ""], object)

# signature, body, inputs
CASES = {
    "NonZero and what reads it": (
        "(float[2, 3] x) => (int64[2, n] i, float[n] v, int64[2] s)",
        "r = Neg(x) i = NonZero(r) t = Transpose(i) v = GatherND(r, t) s = Shape(i)",
        [X],
    ),
    "a static shape behind it": (
        "(float[2, 3] x) => (float y)",
        "i = NonZero(x) t = Transpose(i) v = GatherND(x, t) y = ReduceSum <keepdims = 0> (v)",
        [X],
    ),
    "NonMaxSuppression": (
        "(float[1, 3, 4] b, float[1, 1, 3] s) => (int64[n, 3] i)",
        "m = Constant <value = int64[1] {3}> () t = Constant <value = float[1] {0.5}> () "
        "i = NonMaxSuppression(b, s, m, t)",
        [BOXES, np.array([[[0.9, 0.8, 0.7]]], np.float32)],
    ),
    "Compress": ("(float[2, 3] x, bool[3] m) => (float[2, n] y)", "y = Compress <axis = 1> (x, m)", [X, MASK]),
    "Unique": ("(float[2, 3] x) => (float[n] y, int64[n] f, int64[6] b)", "y, f, b = Unique(x)", [X]),
    "a sequence made and joined": (
        "(float[2, 3] x, float[2, 1] z) => (float[2, 4] y)",
        "s = SequenceConstruct(x, z) y = ConcatFromSequence <axis = 1> (s)",
        [X, ONE],
    ),
    "an empty sequence, filled": (
        f"(float[2, 3] x) => ({SEQ} s, int64 n)",
        "e = SequenceEmpty() s = SequenceInsert(e, x) n = SequenceLength(s)",
        [X],
    ),
    "a sequence at both ends": (f"({SEQ} a, float[2, 1] x) => ({SEQ} b)", "b = SequenceInsert(a, x)", [[X, TWO], ONE]),
    "an empty sequence at the input": (f"({SEQ} a, float[2, 1] x) => ({SEQ} b)", "b = SequenceInsert(a, x)", [[], ONE]),
    "SplitToSequence": (f"(float[2, 3] x) => ({SEQ} s)", "s = SplitToSequence <axis = 1> (x)", [X]),
    "SequenceMap": (
        f"({SEQ} a) => ({SEQ} b)",
        "b = SequenceMap <body = g (float[?, ?] x) => (float[?, ?] y) { y = Neg(x) }> (a)",
        [[X, ONE]],
    ),
    "an optional": ("(optional(float[2, 3]) o) => (bool h)", "h = OptionalHasElement(o)", [X]),
    "an empty optional": ("(optional(float[2, 3]) o) => (bool h)", "h = OptionalHasElement(o)", [None]),
    "strings": (
        "(string[3] s) => (string[3] t, bool[3] same)",
        'c = Constant <value = string[3] {"a", "b", "c"}> () t = StringConcat(s, c) same = Equal(s, c)',
        [WORDS],
    ),
    "strings split": (
        "(string[3] s) => (string[3, n] p, int64[3] c)",
        'p, c = StringSplit <delimiter = "b"> (s)',
        [WORDS],
    ),
    "no elements": ("(float[n, 3] x) => (float[n, 3] y)", "y = Neg(x)", [X[:0]]),
}


def proto(signature: str, body: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]> g {signature} {{ {body} }}')


def assert_equal(found, wanted):
    if isinstance(wanted, list):
        assert isinstance(found, list)
        assert len(found) == len(wanted)
        for f, w in zip(found, wanted):
            assert_equal(f, w)
    else:
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", CASES)
def test_as_onnxruntime(name):
    signature, body, inputs = CASES[name]
    model = proto(signature, body)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, dict(zip((i.name for i in model.graph.input), inputs)))
    found = backend.run_model(model, inputs)
    assert len(found) == len(wanted)
    for f, w in zip(found, wanted):
        assert_equal(f, w)


def test_each_run_may_give_other_shapes():
    prepared = backend.prepare(proto("(float[2, 3] x) => (int64[2, n] i)", "i = NonZero(x)"))
    for x in (X, np.zeros_like(X), X + 5):
        np.testing.assert_array_equal(prepared.run([x])[0], np.nonzero(x))


def test_other_floats_come_back_as_declared():
    a = X.astype(np.float64)
    (b,) = backend.run_model(proto("(seq(double[?, ?]) a) => (seq(double[?, ?]) b)", "b = Identity(a)"), [[a]])
    assert_equal(b, [a])


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("no elements", "an empty optional")])
def test_refused_where_shapes_must_be_static(name, tmp_path):
    signature, body, _ = CASES[name]
    path = tmp_path / "m.onnx"
    onnx.save(proto(signature, body), path)
    with pytest.raises(ModelError, match=REFUSED):
        import_model(path)


def test_strings_are_no_data_for_integers():
    signature, body, inputs = CASES["strings"]
    with pytest.raises(DataError, match="'s' holds ndarray of object"):
        backend.run_model(proto(signature, body), inputs, march="bayes-e")


def test_text_form(tmp_path):
    path = tmp_path / "m.onnx"
    signature = "(float[2, 3] x, string[2] s) => (int64[2, n] i, string[2] t)"
    onnx.save(
        proto(signature, 'c = Constant <value = string[1] {"a b"}> () i = NonZero(x) t = StringConcat(s, c)'), path
    )
    graph = import_model(path, host_values=True).graph
    graph.input_names = [t.name for t in graph.inputs]
    text = print_graph(graph)
    assert {t.name: t.host for t in graph.tensors()} == {
        "x": "", "s": "string[2]", "c": "string[1]", "i": "int64[2,?]", "t": "string[2]"
    }  # fmt: skip
    assert graph.find("i").dtype is DType.HOST
    attrs = {kind: registry.get(kind).attrs for kind in ("Onnx",)}
    again = parse_graph(text, attrs)
    assert print_graph(again) == text
    assert again.find("c").const.tolist() == ["a b"]
