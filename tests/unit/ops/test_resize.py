"""Resize and Upsample against onnxruntime: every coordinate mode and rounding, growing and shrinking."""

from itertools import product

import numpy as np
import onnx
import pytest

from tests.unit.ops.onnx_cases import assert_kinds, assert_same, model, run, values

node = onnx.helper.make_node

COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
SCALES = [(2.0, 2.0), (1.7, 2.5), (0.5, 0.4), (3.0, 0.6), (1.0, 2.0)]


def resize(attrs, scales=None, sizes=None, shape=(1, 2, 5, 7), opset=19):
    constants = {"roi": np.zeros(0, np.float32)} if opset < 13 else {}
    operands = ["x", "roi" if opset < 13 else ""]
    if scales is not None:
        constants["s"] = np.array([1, 1, *scales], np.float32)
        operands.append("s")
    else:
        constants["z"] = np.array(sizes, np.int64)
        operands += ["", "z"]
    return model([node("Resize", operands, ["y"], **attrs)], {"x": list(shape)}, ["y"], constants, opset)


def by_table(op, x):
    """The op's own tables, carried out by numpy."""
    a = op.attrs
    if a.mode == "nearest":
        return x[:, :, a.index_h, :][:, :, :, a.index_w]
    h, w = a.size
    top, bottom = x[:, :, a.index_h[:h]], x[:, :, a.index_h[h:]]
    wh, ww = np.array(a.weight_h).reshape(h, 1), np.array(a.weight_w)
    rows = top * (1 - wh) + bottom * wh
    return rows[..., a.index_w[:w]] * (1 - ww) + rows[..., a.index_w[w:]] * ww


def check(proto, folder, shape=(1, 2, 5, 7)):
    """Export and tables both give what onnxruntime gives for the original."""
    (op,) = assert_kinds(proto, folder, ["Resize"]).graph
    x = values(shape, 9)
    np.testing.assert_allclose(by_table(op, x), run(proto, {"x": x})["y"], rtol=1e-5, atol=1e-6)
    return op


@pytest.mark.parametrize(("coordinates", "rounding", "scales"), list(product(COORDINATES, ROUNDINGS, SCALES)))
def test_nearest(coordinates, rounding, scales, tmp_path):
    attrs = {"mode": "nearest", "coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
    check(resize(attrs, scales), tmp_path)


@pytest.mark.parametrize(("coordinates", "scales"), list(product(COORDINATES, SCALES)))
def test_linear(coordinates, scales, tmp_path):
    check(resize({"mode": "linear", "coordinate_transformation_mode": coordinates}, scales), tmp_path)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("sizes", [(1, 2, 10, 14), (1, 2, 9, 4), (1, 2, 1, 1), (1, 2, 5, 8)])
@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])
def test_sizes(mode, sizes, coordinates, tmp_path):
    check(resize({"mode": mode, "coordinate_transformation_mode": coordinates}, sizes=sizes), tmp_path)


def test_sizes_of_some_axes(tmp_path):
    check(resize({"mode": "nearest", "axes": [3, 2], "nearest_mode": "floor"}, sizes=(9, 8)), tmp_path)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(2.0, 3.0), (1.0, 2.0)])
def test_symmetric_half_pixels_of_whole_sizes(mode, scales, tmp_path):
    op = check(resize({"mode": mode, "coordinate_transformation_mode": "half_pixel_symmetric"}, scales), tmp_path)
    assert op.attrs.coordinates == "half_pixel"


def test_half_pixels_for_nearest_neighbours_of_old(tmp_path):
    attrs = {"mode": "nearest", "coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "floor"}
    check(resize(attrs, (2.0, 1.5), opset=11), tmp_path)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(2.0, 2.0), (0.5, 0.4), (1.0, 3.0)])
def test_resize_10(mode, scales, tmp_path):
    constants = {"s": np.array([1, 1, *scales], np.float32)}
    proto = model([node("Resize", ["x", "s"], ["y"], mode=mode)], {"x": [1, 2, 5, 7]}, ["y"], constants, 10)
    assert check(proto, tmp_path).attrs.coordinates == "asymmetric"


@pytest.mark.parametrize("opset", [7, 9])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample(opset, mode, tmp_path):
    scales = [1.0, 1.0, 2.0, 3.0]
    if opset == 7:
        nodes, constants = [node("Upsample", ["x"], ["y"], mode=mode, scales=scales)], {}
    else:
        nodes, constants = [node("Upsample", ["x", "s"], ["y"], mode=mode)], {"s": np.array(scales, np.float32)}
    op = check(model(nodes, {"x": [1, 2, 5, 7]}, ["y"], constants, opset), tmp_path)
    assert op.attrs.scales == (2.0, 3.0)


@pytest.mark.parametrize(
    ("attrs", "scales", "shape", "why"),
    [
        ({"mode": "cubic"}, (2.0, 2.0), (1, 2, 5, 7), "Resize mode cubic"),
        ({"mode": "linear", "antialias": 1}, (0.5, 0.5), (1, 2, 8, 8), "Resize with antialias"),
        (
            {"coordinate_transformation_mode": "half_pixel_symmetric"},
            (0.5, 0.6),
            (1, 2, 5, 7),
            "Resize with coordinate_transformation_mode half_pixel_symmetric",
        ),
        ({"mode": "nearest"}, (2.0,), (1, 2, 5), "Resize of other axes than the last two of four"),
    ],
)
def test_other_forms_stay_opaque(attrs, scales, shape, why, tmp_path):
    (op,) = assert_same(resize(attrs, scales, shape=shape), tmp_path).graph
    assert op.kind == "Onnx"
    assert op.attrs.why == why


def test_factor_1_is_a_name(tmp_path):
    proto = resize({"mode": "linear"}, (1.0, 1.0))
    proto.graph.node[0].output[0] = "r"
    proto.graph.node.append(node("Relu", ["r"], ["y"]))
    assert_kinds(proto, tmp_path, ["Relu"])


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_keeping_the_aspect_ratio_stays_opaque(policy, tmp_path):
    attrs = {"mode": "nearest", "axes": [2, 3], "keep_aspect_ratio_policy": policy}
    (op,) = assert_same(resize(attrs, sizes=(9, 9)), tmp_path).graph
    assert op.attrs.why == "Resize that keeps the aspect ratio"
