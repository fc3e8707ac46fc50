"""A share of onnx's node tests, held to the recorded outcomes; ``make conformance`` runs and records all of them."""

import json
from collections import Counter

import numpy as np
import onnx
import pytest

from bpuc import backend
from bpuc.base.errors import BpucError, ConfigError, DataError
from tests.conformance.record import EXPECTED, OPS_PAGE, PAGE, ops_page, page, versions
from tests.conformance.stored import light_cases, stored_cases
from tests.conformance.suite import cases, has_float_input, outcome
from tests.unit.ops.onnx_cases import run, values

pytestmark = pytest.mark.xdist_group("conformance")  # the suite is made once
RECORDED = json.loads(EXPECTED.read_text())


@pytest.fixture(scope="module")
def sample():
    light = [c for c in light_cases() if "squeezenet" in c.name]
    return [*cases(part=(3, 8)), *stored_cases()[::4], *light]


def recorded(path: str) -> dict[str, tuple[str, str]]:
    lists = RECORDED[path]
    return {n: (kind, why) for kind in ("differs", "refused") for why, names in lists[kind].items() for n in names}


@pytest.mark.parametrize("path", ["float", "integer"])
def test_outcomes_are_those_recorded(sample, path):
    found = {c.name: outcome(c, path == "integer") for c in sample if path == "float" or has_float_input(c)}
    assert len(found) > 150
    assert {n: o.reason for n, o in found.items() if o.kind == "crashed"} == {}
    if {k: RECORDED[k] for k in ("onnx", "onnxruntime")} == versions():
        expected = recorded(path)
        wrong = {n: o for n, o in found.items() if (o.kind, o.reason) != expected.get(n, ("agrees", ""))}
        assert wrong == {}


def test_every_refusal_and_difference_has_a_reason():
    assert "?" not in {why for path in ("float", "integer") for _, why in recorded(path).values()}


def test_nine_in_ten_cases_with_float_inputs_agree_in_integers():
    counts = np.array(list(RECORDED["integer"]["ops"].values())).sum(0)
    assert counts[0] >= 0.9 * counts.sum()


def test_page_is_fresh():
    assert PAGE.read_text(encoding="utf-8") == page(RECORDED)
    assert OPS_PAGE.read_text(encoding="utf-8") == ops_page(RECORDED)


def relu() -> onnx.ModelProto:
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }'
    )


def test_open_shapes_come_from_the_arrays_of_each_run():
    prepared = backend.prepare(relu())
    for n in (1, 3):
        x = np.arange(-2.0, 4 * n - 2, dtype=np.float32).reshape(n, 4)
        (y,) = prepared.run([x])
        np.testing.assert_array_equal(y, np.maximum(x, 0))


def test_a_shape_that_is_an_input_is_built_for_each_value():
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2, 6] x, int64[2] s) => (float[a, b] y) { y = Reshape(x, s) }'
    )
    prepared = backend.prepare(model)
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    for shape in ((3, 4), (4, 3)):
        assert prepared.run({"x": x, "s": np.array(shape)}).y.shape == shape


def test_integers_stay_within_half_a_step():
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    (y,) = backend.run_model(relu(), [x], march="bayes-e", observer="min_max")
    assert np.abs(y - np.maximum(x, 0)).max() <= 0.5 / 127 + 1e-7
    assert Counter(np.unique(y) > 0)[True] == 4


def test_a_node_alone_and_half_precision():
    node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
    a = np.array([1, 2], np.float16)
    (c,) = backend.run_node(node, [a, a])
    np.testing.assert_array_equal(c, np.array([2, 4], np.float16))


def test_refusals():
    with pytest.raises(ConfigError, match="CUDA"):
        backend.prepare(relu(), "CUDA")
    assert not backend.supports_device("CUDA")
    with pytest.raises(DataError, match="2 inputs"):
        backend.run_model(relu(), [np.zeros((1, 4), np.float32)] * 2)
    with pytest.raises(DataError, match="'x' holds list"):
        backend.run_model(relu(), [[np.zeros(2), np.zeros(3)]])
    with pytest.raises(BpucError, match="'x'"):
        backend.run_model(relu(), [])


def test_a_mask_of_minus_infinity_keeps_the_softmax_exact():
    """The masked scores stay in float, and what they feed is right to a step of the result's scale."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]> g (float[2, 2] q, float[2, 2] v) => (float[2, 2] y)
        <float[2, 2] mask = {0, 0, 0, 0}> { s = Add(q, mask) p = Softmax <axis = 1> (s) y = MatMul(p, v) }""")
    mask = np.array([[0, -np.inf], [0, 0]], np.float32)
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(mask, "mask"))
    q, v = np.array([[0.5, 3], [1, 2]], np.float32), np.array([[1, -1], [0.25, 2]], np.float32)
    e = np.exp(q + mask)
    expected = e / e.sum(1, keepdims=True) @ v
    for options in ({}, {"march": "bayes-e", "observer": "min_max"}):
        (y,) = backend.run_model(model, [q, v], **options)
        np.testing.assert_allclose(y, expected, atol=4 * 2 / 127 if options else 1e-6)


def test_an_op_without_a_kernel_in_onnxruntime_runs_in_onnx_s_evaluator():
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13]> g (float[2, 3] x, int16[3] a, int16[3] b) '
        "=> (int16[3] c, float[2, 3] y) { c = Max(a, b) y = Neg(x) }"
    )
    a, b = np.array([1, 5, -7], np.int16), np.array([2, -5, -6], np.int16)
    for options in ({}, {"march": "bayes-e"}):
        c, _ = backend.run_model(model, [values((2, 3)), a, b], **options)
        np.testing.assert_array_equal(c, np.array([2, 5, -6], np.int16))


def test_a_scalar_from_the_bpu():
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13]> g (float[3] a, float[3] b) => (float y) { y = MatMul(a, b) }'
    )
    a, b = values((3,)), values((3,), 1)
    (y,) = backend.run_model(model, [a, b], march="bayes-e")
    assert y.shape == ()
    assert abs(y - a @ b) < 0.02 * np.abs(a).max() * np.abs(b).sum()


def test_a_scalar_and_a_constant_scalar_on_the_bpu():
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 13]> g (float[2, 3] x) => (float y)
        <float c = {0.5}> { m = ReduceMax <keepdims = 0> (x) y = Max(m, c) }""")
    for x in (values((2, 3)), np.full((2, 3), -1, np.float32)):
        (y,) = backend.run_model(model, [x], march="bayes-e")
        assert abs(y - max(x.max(), 0.5)) < 0.05


def test_where_rounding_grows_float_results_are_as_near_to_double_precision_as_those_of_onnxruntime():
    """A steep function makes of the last bits errors of a hundredth, in any order of the operations."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]> g (float[1, 8, 12, 12] x) => (float[1, 8, 12, 12] y)
        { c = Conv <pads = [1, 1, 1, 1]> (x, w)  n = BatchNormalization(c, scale, bias, mean, var)  y = Sin(n) }""")
    shapes = {"w": (8, 8, 3, 3), "scale": (8,), "bias": (8,), "mean": (8,)}
    constants = {n: values(s, i) * (3e4 if n == "scale" else 1) for i, (n, s) in enumerate(shapes.items())}
    constants["var"] = np.ones(8, np.float32)
    x = values((1, 8, 12, 12), 9)
    for name, array in constants.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array.astype(np.float32), name))
    wide = {n: a.astype(np.float32).astype(np.float64) for n, a in constants.items()}
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    sums = np.einsum("nchwij,kcij->nkhw", windows, wide["w"]) - wide["mean"].reshape(-1, 1, 1)
    normal = sums / np.sqrt(1 + 1e-5) * wide["scale"].reshape(-1, 1, 1) + wide["bias"].reshape(-1, 1, 1)
    plain = run(model, {"x": x})["y"]
    (found,) = backend.run_model(model, [x])
    of_plain, of_found = (np.sqrt(np.square(y - np.sin(normal)).mean()) for y in (plain, found))
    assert 1e-3 < of_plain < 0.1
    assert of_found < 1.5 * of_plain
