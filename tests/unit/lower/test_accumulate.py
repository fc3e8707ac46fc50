"""Conv, ConvTranspose, MatMul and Affine against sums written out in numpy; scales are powers of two, so exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bpuc.isa import Conv, ConvTranspose, MatMul
from tests.unit.lower.bench import Array, build, exact_weights, int8s, node, rounded


def conv2d(
    x: Array,
    w: Array,
    strides: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilations: tuple[int, int] = (1, 1),
    group: int = 1,
) -> Array:
    """The sums of the definition, output by output."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    out_channels, per_group, kh, kw = w.shape
    h = (x.shape[2] - (kh - 1) * dilations[0] - 1) // strides[0] + 1
    v = (x.shape[3] - (kw - 1) * dilations[1] - 1) // strides[1] + 1
    y = np.zeros((x.shape[0], out_channels, h, v))
    for o in range(out_channels):
        first = o // (out_channels // group) * per_group
        for i in range(h):
            for j in range(v):
                top, left = i * strides[0], j * strides[1]
                window = x[
                    :,
                    first : first + per_group,
                    top : top + (kh - 1) * dilations[0] + 1 : dilations[0],
                    left : left + (kw - 1) * dilations[1] + 1 : dilations[1],
                ]
                y[:, o, i, j] = (window * w[o].astype(np.float64)).sum((1, 2, 3))
    return y


def test_conv_residual_and_relu_round_once(tmp_path: Path) -> None:
    w = exact_weights((4, 3, 3, 3), [2**-7] * 4)
    bias = np.array([0.5, -1.25, 3.0, 0.0078125], np.float32)
    scales = {"x": 2**-5, "r": 2**-4, "y": 0.25}
    net = build(
        tmp_path,
        [
            node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1]),
            node("Add", ["r", "c"], ["s"], "add"),
            node("Relu", ["s"], ["y"], "relu"),
        ],
        {"x": (1, 3, 5, 6), "r": (1, 4, 5, 6)},
        constants={"w": w, "b": bias},
        scales=scales,
    )
    (ins,) = net.bpu()
    assert isinstance(ins, Conv)
    assert ins.res is not None
    assert ins.lo == 0
    x, r = int8s((1, 3, 5, 6)), int8s((1, 4, 5, 6), 7)
    linear = conv2d(x * 2**-5, w, pads=(1, 1, 1, 1)) + bias.reshape(1, 4, 1, 1)
    want = rounded(linear + r * 2**-4, 0.25, 0)
    twice = np.clip(rounded(linear, 0.25, -(10**6), 10**6) + rounded(r * 2**-4, 0.25), 0, 127)
    assert (want != twice).any(), "the data must tell one rounding from two"
    np.testing.assert_array_equal(net.run(x=x, r=r)["y"], want)


def test_weights_have_one_scale_an_output_channel(tmp_path: Path) -> None:
    steps = [2**-7, 2**-3, 2**-12]
    w = exact_weights((3, 2, 1, 1), steps)
    scales = {"x": 2**-6, "y": 2**-4}
    net = build(
        tmp_path, [node("Conv", ["x", "w"], ["y"], "conv")], {"x": (1, 2, 4, 4)}, constants={"w": w}, scales=scales
    )
    (ins,) = net.instructions(Conv)
    real = net.constant(ins.mult) / 2.0 ** net.constant(ins.shift)
    np.testing.assert_array_equal(real, np.array(steps) * 2**-6 / 2**-4)
    np.testing.assert_array_equal(net.constant(ins.w), w / np.array(steps).reshape(3, 1, 1, 1))
    x = int8s((1, 2, 4, 4))
    np.testing.assert_array_equal(net.run(x=x)["y"], rounded(conv2d(x * 2**-6, w), 2**-4))


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize(("strides", "dilations"), [((2, 1), (1, 1)), ((1, 1), (2, 2))])
def test_windows_and_groups(tmp_path: Path, group: int, strides: tuple[int, int], dilations: tuple[int, int]) -> None:
    w = exact_weights((4, 4 // group, 3, 2), [2**-7] * 4)
    window = {"strides": list(strides), "pads": [2, 0, 1, 3], "dilations": list(dilations)}
    net = build(
        tmp_path,
        [node("Conv", ["x", "w"], ["y"], "conv", group=group, **window)],
        {"x": (1, 4, 8, 6)},
        constants={"w": w},
        scales={"x": 2**-6, "y": 2**-3},
    )
    x = int8s((1, 4, 8, 6))
    want = rounded(conv2d(x * 2**-6, w, strides, (2, 0, 1, 3), dilations, group), 2**-3)
    np.testing.assert_array_equal(net.run(x=x)["y"], want)


def test_one_spatial_axis(tmp_path: Path) -> None:
    w = exact_weights((2, 2, 3), [2**-7] * 2)
    net = build(
        tmp_path,
        [node("Conv", ["x", "w"], ["y"], "conv", pads=[1, 1])],
        {"x": (1, 2, 6)},
        constants={"w": w},
        scales={"x": 2**-6, "y": 2**-4},
        march="nash-e",
    )
    x = int8s((1, 2, 6))
    want = conv2d(x[:, :, None] * 2**-6, w[:, :, None], pads=(0, 1, 0, 1))[:, :, 0]
    np.testing.assert_array_equal(net.run(x=x)["y"], rounded(want, 2**-4))


@pytest.mark.parametrize("padding", [[0, 0], [1, 0], [1, 1]])
def test_transposed_convolution_scatters(tmp_path: Path, padding: list[int]) -> None:
    # weights are [C, O/group, kh, kw]; the channel that scales go by is the output's
    q = exact_weights((4, 2, 3, 3), [1] * 4)
    q[0, :, 0, 0] = q[2, :, 0, 0] = 127
    steps = np.array([2**-7, 2**-6, 2**-5, 2**-4])
    w = (q.reshape(2, 2, 2, 3, 3) * steps.reshape(2, 1, 2, 1, 1)).reshape(4, 2, 3, 3).astype(np.float32)
    bias = np.array([1.0, -2.0, 0.5, 0.0], np.float32)
    net = build(
        tmp_path,
        [
            node(
                "ConvTranspose",
                ["x", "w", "b"],
                ["y"],
                "up",
                strides=[2, 2],
                pads=[1, 1, 1, 1],
                output_padding=padding,
                group=2,
            )
        ],
        {"x": (1, 4, 3, 4)},
        constants={"w": w, "b": bias},
        scales={"x": 2**-6, "y": 0.25},
    )
    (ins,) = net.bpu()
    assert isinstance(ins, ConvTranspose)
    x = int8s((1, 4, 3, 4))
    full = np.zeros((1, 4, 8, 10))  # stride * (n - 1) + kernel + output_padding
    for c in range(4):
        for o in range(2):
            for i in range(3):
                for j in range(4):
                    full[0, c // 2 * 2 + o, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] += x[0, c, i, j] * 2**-6 * w[c, o]
    want = full[:, :, 1 : 6 + padding[0], 1 : 8 + padding[1]] + bias.reshape(1, 4, 1, 1)
    np.testing.assert_array_equal(net.run(x=x)["y"], rounded(want, 0.25))


def test_linear_layer(tmp_path: Path) -> None:
    w = exact_weights((3, 8), [2**-7, 2**-8, 2**-6])
    bias = np.array([1.0, -1.0, 0.25], np.float32)
    net = build(
        tmp_path,
        [node("Gemm", ["x", "w", "b"], ["g"], "fc", transB=1), node("Clip", ["g", "lo", "hi"], ["y"], "clip")],
        {"x": (4, 8)},
        constants={"w": w, "b": bias, "lo": np.float32(-1.5), "hi": np.float32(6)},
        scales={"x": 2**-6, "y": 2**-4},
        march="nash-e",
    )
    (ins,) = net.instructions(MatMul)
    assert (ins.lo, ins.hi) == (-24, 96)
    x = int8s((4, 8))
    want = rounded(x * 2**-6 @ w.T.astype(np.float64) + bias, 2**-4, -24, 96)
    np.testing.assert_array_equal(net.run(x=x)["y"], want)


def test_product_of_activations(tmp_path: Path) -> None:
    net = build(
        tmp_path,
        [node("MatMul", ["a", "b"], ["y"], "mm")],
        {"a": (1, 2, 3, 5), "b": (1, 2, 5, 4)},
        scales={"a": 2**-6, "b": 2**-5, "y": 2**-4},
    )
    a, b = int8s((1, 2, 3, 5)), int8s((1, 2, 5, 4), 3)
    np.testing.assert_array_equal(net.run(a=a, b=b)["y"], rounded((a * 2**-6) @ (b * 2**-5), 2**-4))


def test_gain_and_offset_of_a_channel(tmp_path: Path) -> None:
    gain, mean = np.array([1.0, -0.5, 127 / 128], np.float32), np.array([0.0, 1.0, -2.0], np.float32)
    ones, zeros = np.ones(3, np.float32), np.zeros(3, np.float32)
    net = build(
        tmp_path,
        [node("BatchNormalization", ["x", "g", "z", "m", "v"], ["y"], "bn", epsilon=0.0)],
        {"x": (1, 3, 2, 4)},
        constants={"g": gain, "z": zeros, "m": mean, "v": ones},
        scales={"x": 2**-6, "y": 2**-5},
    )
    (ins,) = net.bpu()
    assert isinstance(ins, Conv)
    assert ins.group == 3
    x = int8s((1, 3, 2, 4))
    want = (x * 2**-6 - mean.reshape(1, 3, 1, 1)) * gain.reshape(1, 3, 1, 1)
    # gains are integers of 127 steps: not powers of two, so a tie may fall either way
    assert np.abs(net.run(x=x)["y"] - want / 2**-5).max() <= 0.5 + 1e-4


def test_the_last_convolution_gives_its_accumulator(tmp_path: Path) -> None:
    w = exact_weights((2, 3, 1, 1), [2**-7, 2**-9])
    bias = np.array([3.0, -0.5], np.float32)
    net = build(
        tmp_path,
        [node("Conv", ["x", "w", "b"], ["y"], "conv")],
        {"x": (1, 3, 2, 2)},
        constants={"w": w, "b": bias},
        scales={"x": 2**-6},
    )
    (port,) = net.program.report["outputs"]
    assert port["scale"] == [2**-13, 2**-15]
    x = int8s((1, 3, 2, 2))
    real = conv2d(x * 2**-6, w) + bias.reshape(1, 2, 1, 1)
    np.testing.assert_array_equal(net.run(x=x)["y"] * np.array([2**-13, 2**-15]).reshape(1, 2, 1, 1), real)


@pytest.mark.parametrize("high", [np.finfo(np.float32).max, np.float32(1e30)])
def test_a_bound_beyond_every_integer_is_no_bound(tmp_path: Path, high: np.float32) -> None:
    w = exact_weights((1, 1, 1, 1), [2**-7])
    net = build(
        tmp_path,
        [node("Conv", ["x", "w"], ["c"], "conv"), node("Clip", ["c", "lo", "hi"], ["y"], "clip")],
        {"x": (1, 1, 4, 4)},
        constants={"w": w, "lo": np.float32(0), "hi": high},
        scales={"x": 2**-6, "y": 2**-6},
    )
    x = int8s((1, 1, 4, 4))
    np.testing.assert_array_equal(net.run(x=x)["y"], rounded(x * 2**-6 * w, 2**-6, 0))


@pytest.mark.parametrize("size", [2.0**-50, 2.0**-90])
def test_weights_keep_their_bits_however_small_they_are(tmp_path: Path, size: float) -> None:
    q = np.array([[127, -64], [5, 127]])
    net = build(
        tmp_path,
        [node("Conv", ["x", "w"], ["c"], "conv"), node("Relu", ["c"], ["y"], "relu")],
        {"x": (1, 2, 3, 3)},
        constants={"w": (q * size).astype(np.float32).reshape(2, 2, 1, 1)},
        scales={"x": 1.0, "y": size * 256},
    )
    x = int8s((1, 2, 3, 3))
    want = rounded(np.einsum("oc,bchw->bohw", q, x), 256.0, lo=0)
    np.testing.assert_array_equal(net.run(x=x.astype(np.int8))["y"], want)
