"""Functions of one variable: import, export and the float64 tables, against onnxruntime."""

import math

import numpy as np
import onnx
import pytest

from bpuc.base.dtypes import DType
from bpuc.frontend import export_float
from bpuc.ir import Graph, Tensor
from bpuc.ops import table
from bpuc.ops.attrs import Step, TableAttrs, UnaryAttrs
from bpuc.ops.unary import FUNCTIONS, evaluate
from tests.unit.ops.onnx_cases import assert_kinds, model, run, values

node = onnx.helper.make_node

CASES = [
    ("Relu", {}, 13),
    ("LeakyRelu", {}, 13),
    ("LeakyRelu", {"alpha": 0.3}, 13),
    ("Sigmoid", {}, 13),
    ("HardSigmoid", {}, 13),
    ("HardSigmoid", {"alpha": 0.25, "beta": 0.4}, 13),
    ("HardSwish", {}, 14),
    ("Tanh", {}, 13),
    ("Gelu", {}, 20),
    ("Gelu", {"approximate": "tanh"}, 20),
    ("Elu", {}, 13),
    ("Elu", {"alpha": 0.5}, 13),
    ("Selu", {}, 13),
    ("Selu", {"alpha": 1.2, "gamma": 0.9}, 13),
    ("Celu", {}, 13),
    ("Celu", {"alpha": 0.5}, 13),
    ("Mish", {}, 18),
    ("Softplus", {}, 13),
    ("Softsign", {}, 13),
    ("Exp", {}, 13),
    ("Abs", {}, 13),
    ("Neg", {}, 13),
    ("Erf", {}, 13),
    ("Floor", {}, 13),
    ("Ceil", {}, 13),
    ("Round", {}, 13),
    ("Sign", {}, 13),
    ("Sin", {}, 13),
    ("Cos", {}, 13),
    ("Tan", {}, 13),
    ("Atan", {}, 13),
    ("Sinh", {}, 13),
    ("Cosh", {}, 13),
    ("Asinh", {}, 13),
    ("ThresholdedRelu", {}, 13),
    ("ThresholdedRelu", {"alpha": 0.3}, 13),
    ("Shrink", {}, 13),
    ("Shrink", {"bias": 0.2, "lambd": 0.7}, 13),
    ("Log", {}, 13),
    ("Sqrt", {}, 13),
    ("Reciprocal", {}, 13),
    ("Asin", {}, 13),
    ("Acos", {}, 13),
    ("Atanh", {}, 13),
    ("Acosh", {}, 13),
]
RANGES = {
    "Log": (0.01, 4.0),
    "Sqrt": (0.0, 4.0),
    "Reciprocal": (0.2, 4.0),
    "Asin": (-0.99, 0.99),
    "Acos": (-0.99, 0.99),
    "Atanh": (-0.99, 0.99),
    "Acosh": (1.01, 4.0),
    "Tan": (-1.4, 1.4),
}


@pytest.mark.parametrize(("kind", "attrs", "opset"), CASES)
def test_unary(kind, attrs, opset, tmp_path):
    low, high = RANGES.get(kind, (-3.0, 3.0))
    proto = model([node(kind, ["x"], ["y"], **attrs)], {"x": [1, 2, 16, 16]}, ["y"], opset=opset)
    (op,) = assert_kinds(proto, tmp_path, [kind], low=low, high=high).graph
    x = values((1, 2, 16, 16), 5, low, high)
    wanted = run(proto, {"x": x})["y"]
    np.testing.assert_allclose(evaluate(kind, x, dict(op.attrs.params)), wanted, rtol=2e-5, atol=2e-6)


def test_every_function_is_tested():
    assert set(FUNCTIONS) == {kind for kind, _, _ in CASES} | {"Clip", "Pow", "Swish"}


def test_rounding_is_half_to_even():
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])
    assert evaluate("Round", halves, {}).tolist() == [-2, -2, 0, 0, 2, 2]


def test_swish_by_hand():
    x = np.array([-1.0, 0.0, 2.0])
    wanted = [v / (1 + math.exp(-1.5 * v)) for v in x]
    np.testing.assert_allclose(evaluate("Swish", x, {"alpha": 1.5}), wanted, rtol=1e-12)


@pytest.mark.parametrize("kind", sorted(FUNCTIONS))
def test_extremes_do_not_warn_and_keep_the_shape(kind):
    x = np.array([[-1e30, -100.0, 0.0, 100.0, 1e30]])
    assert evaluate(kind, x, {"exponent": 2.0}).shape == (1, 5)


@pytest.mark.parametrize(
    ("operands", "constants", "params"),
    [
        (["x", "lo", "hi"], {"lo": -0.5, "hi": 1.0}, {"min": -0.5, "max": 1.0}),
        (["x", "lo"], {"lo": -0.5}, {"min": -0.5}),
        (["x", "", "hi"], {"hi": 1.0}, {"max": 1.0}),
        (["x", "lo", "hi"], {"lo": 0.0, "hi": 3.4028234663852886e38}, {"min": 0.0}),
        (["x", "lo", "hi"], {"lo": 0.0, "hi": np.inf}, {"min": 0.0}),
    ],
)
def test_clip(operands, constants, params, tmp_path):
    arrays = {n: np.float32(v) for n, v in constants.items()}
    proto = model([node("Clip", operands, ["y"])], {"x": [1, 2, 8, 8]}, ["y"], arrays)
    (op,) = assert_kinds(proto, tmp_path, ["Clip"]).graph
    assert dict(op.attrs.params) == params


def test_clip_with_attributes(tmp_path):
    proto = model([node("Clip", ["x"], ["y"], min=0.0, max=6.0)], {"x": [2, 8]}, ["y"], opset=9)
    (op,) = assert_kinds(proto, tmp_path, ["Clip"], low=-9.0, high=9.0).graph
    assert dict(op.attrs.params) == {"min": 0.0, "max": 6.0}


def test_clip_whose_bound_is_computed_stays_opaque(tmp_path):
    proto = model([node("Clip", ["x", "lo"], ["y"])], {"x": [2, 8], "lo": []}, ["y"])
    (op,) = assert_kinds(proto, tmp_path, ["Onnx"]).graph
    assert op.attrs.why == "Clip whose min is not constant"


@pytest.mark.parametrize("exponent", [2.0, 0.5, 3.0, -1.0])
def test_pow(exponent, tmp_path):
    proto = model([node("Pow", ["x", "e"], ["y"])], {"x": [2, 8]}, ["y"], {"e": np.array([exponent], np.float32)})
    (op,) = assert_kinds(proto, tmp_path, ["Pow"], low=0.2).graph
    x = values((2, 8), 3, 0.2)
    np.testing.assert_allclose(evaluate("Pow", x, dict(op.attrs.params)), x.astype(float) ** exponent, rtol=1e-12)


def test_pow_of_two_tensors_stays_opaque(tmp_path):
    proto = model([node("Pow", ["x", "e"], ["y"])], {"x": [2, 3], "e": [2, 3]}, ["y"])
    (op,) = assert_kinds(proto, tmp_path, ["Onnx"], low=0.5).graph
    assert op.attrs.why == "Pow whose exponent is not one constant"


SILU = TableAttrs((Step("Sigmoid", ("x",)), Step("Mul", ("x", 0))))
GELU = TableAttrs(
    (
        Step("Div", ("x", math.sqrt(2))),
        Step("Erf", (0,)),
        Step("Add", (1, 1.0)),
        Step("Mul", ("x", 2)),
        Step("Mul", (3, 0.5)),
    )
)
CLIPPED = TableAttrs((Step("LeakyRelu", ("x",), (("alpha", 0.1),)), Step("Min", (0, 1.5)), Step("Sub", (1.0, 1))))


@pytest.mark.parametrize(
    ("attrs", "wanted"),
    [
        (SILU, lambda v: v / (1 + math.exp(-v))),
        (GELU, lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2)))),
        (CLIPPED, lambda v: 1.0 - min(v if v > 0 else 0.1 * v, 1.5)),
    ],
)
def test_table_by_hand_and_as_its_steps(attrs, wanted):
    x = values((2, 3, 4), 7, -3, 3)
    by_hand = np.array([wanted(float(v)) for v in x.reshape(-1)]).reshape(x.shape)
    np.testing.assert_allclose(table.evaluate(attrs, x), by_hand, rtol=1e-12)
    graph = Graph()
    source, out = Tensor("x", x.shape, DType.FLOAT32), Tensor("y", x.shape, DType.FLOAT32)
    graph.inputs, graph.outputs, graph.output_names = [source], [out], ["y"]
    graph.add("Table", attrs, [source], [out], name="table")
    np.testing.assert_allclose(run(export_float(graph), {"x": x})["y"], by_hand, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("slope", "axis"), [((3, 1, 1), 1), ((1,), -1), ((), -1), ((1, 1, 5), 3), ((1, 3, 1, 1), 1)])
def test_prelu(slope, axis, tmp_path):
    proto = model([node("PRelu", ["x", "s"], ["y"])], {"x": [1, 3, 4, 5]}, ["y"], {"s": values(slope)})
    (op,) = assert_kinds(proto, tmp_path, ["PRelu"]).graph
    assert op.attrs.axis == axis
    assert op.input(1).rank == 4


def test_prelu_whose_slope_varies_everywhere_stays_opaque(tmp_path):
    proto = model([node("PRelu", ["x", "s"], ["y"])], {"x": [1, 3, 4, 5]}, ["y"], {"s": values((3, 4, 5))})
    (op,) = assert_kinds(proto, tmp_path, ["Onnx"]).graph
    assert op.attrs.why == "PRelu whose slope varies along more than one axis"


def test_unbounded_clip_exports():
    graph = Graph()
    x, y = Tensor("x", (3,), DType.FLOAT32), Tensor("y", (3,), DType.FLOAT32)
    graph.inputs, graph.outputs, graph.output_names = [x], [y], ["y"]
    graph.add("Clip", UnaryAttrs(), [x], [y], name="clip")
    feed = np.array([-9, 0, 9], np.float32)
    assert run(export_float(graph), {"x": feed})["y"].tolist() == [-9, 0, 9]


INF = float("inf")


@pytest.mark.parametrize(
    ("op", "bounds", "kinds"),
    [
        ("Max", [np.float32(-INF)], ["Relu"]),
        ("Min", [np.full((1, 4), INF, np.float32), np.float32(0.5)], ["Min", "Relu"]),
        ("Max", [np.array([-INF, 0.5, 0.25, -INF], np.float32)], ["Onnx", "Relu"]),
        ("Max", [np.full((3, 4), -INF, np.float32)], ["Onnx", "Relu"]),
    ],
)
def test_bounds_that_never_hold(op, bounds, kinds, tmp_path):
    """A maximum over nothing starts from -Inf: exporters leave that as an operand."""
    names = [f"b{i}" for i in range(len(bounds))]
    nodes = [node(op, [*names, "x"], ["m"]), node("Relu", ["m"], ["y"])]
    assert_kinds(model(nodes, {"x": (1, 4)}, ["y"], dict(zip(names, bounds))), tmp_path, kinds)
