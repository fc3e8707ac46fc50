"""Limits of convolutions, pooling and matrix products, each held and broken by hand."""

import pytest

from tests.unit.target.target_samples import conv, op, tensor

A224 = (1, 3, 224, 224)


def deconv(x, w, **attrs):
    return op("ConvTranspose", x, tensor(w, True), out=(x[0], w[1], x[2], x[3]), **attrs)


def pool(kind, kernel, **attrs):
    return op(kind, (1, 8, 300, 300), kernel_shape=kernel, **attrs)


@pytest.mark.parametrize(
    ("march", "held", "broken", "says"),
    [
        (
            "bayes-e",
            conv(A224, (8, 3, 31, 1)),
            conv(A224, (8, 3, 32, 1)),
            "kernel 32x1: bayes-e takes kernel height 1..31",
        ),
        ("bayes-e", conv(A224, (8, 3, 1, 31)), conv(A224, (8, 3, 1, 33)), "kernel width 1..31"),
        (
            "bayes-e",
            conv((1, 8192, 8, 8), (8, 8192, 1, 1)),
            conv((1, 8193, 8, 8), (8, 8193, 1, 1)),
            "8193 input channels",
        ),
        ("bayes-e", conv((1, 8, 8, 8), (8192, 8, 1, 1)), conv((1, 8, 8, 8), (8193, 8, 1, 1)), "8193 output channels"),
        # 3640 * 9 = 32760 and 3641 * 9 = 32769 taps
        ("bayes-e", conv((1, 3640, 8, 8), (8, 3640, 3, 3)), conv((1, 3641, 8, 8), (8, 3641, 3, 3)), "(product 32769)"),
        # 65534 taps fit bayes, not bayes-e
        ("bayes", conv((1, 7281, 8, 8), (8, 7281, 3, 3)), conv((1, 7282, 8, 8), (8, 7282, 3, 3)), "up to 65535"),
        (
            "bayes-e",
            conv(A224, (8, 3, 3, 3), strides=(256, 1)),
            conv(A224, (8, 3, 3, 3), strides=(257, 1)),
            "strides 1..256",
        ),
        (
            "bayes-e",
            conv(A224, (8, 3, 3, 3), pads=(256, 0, 0, 0)),
            conv(A224, (8, 3, 3, 3), pads=(0, 0, 0, 257)),
            "pads 0..256",
        ),
        (
            "bayes-e",
            conv(A224, (8, 3, 3, 3), strides=(2, 2), fused_add=True),
            conv(A224, (8, 3, 3, 3), strides=(3, 3), fused_add=True),
            "stride 1 or 2 where a shortcut Add is fused",
        ),
        (
            "bayes-e",
            conv((1, 8, 32, 32), (8, 8, 3, 3), dilations=(16, 16)),
            conv((1, 8, 34, 34), (8, 8, 3, 3), dilations=(17, 17)),
            "dilations 1..16",
        ),
        (
            "bayes-e",
            conv((1, 8, 32, 32), (8, 8, 3, 3), dilations=(2, 2)),
            conv((1, 8, 33, 32), (8, 8, 3, 3), dilations=(2, 2)),
            "with dilation 2x2 on 33x32",
        ),
        (
            "bayes-e",
            conv((1, 8, 32, 32), (8, 8, 3, 3), dilations=(1, 1), strides=(2, 2)),
            conv((1, 8, 32, 32), (8, 8, 3, 3), dilations=(2, 2), strides=(2, 2)),
            "with dilation 2x2 and stride 2x2",
        ),
        ("bernoulli2", conv(A224, (8, 3, 7, 7)), conv(A224, (8, 3, 9, 7)), "kernel height 1..7"),
        # grouped: 2049 channels a group are too many; plain: 4096 are not
        (
            "bernoulli2",
            conv((1, 4096, 8, 8), (8, 4096, 1, 1)),
            conv((1, 4098, 8, 8), (8, 2049, 1, 1), group=2),
            "of 2049 channels a group",
        ),
        (
            "bernoulli2",
            conv((1, 8, 8, 8), (8, 8, 3, 3), dilations=(2, 4)),
            conv((1, 8, 8, 8), (8, 8, 3, 3), dilations=(3, 3)),
            "with dilation 3x3",
        ),
        (
            "bernoulli2",
            conv((1, 8, 8, 8), (8, 8, 3, 3), strides=(2, 2)),
            conv((1, 8, 8, 8), (8, 8, 3, 3), dilations=(4, 2)),
            "with dilation 4x2",
        ),
        # 3-D: 4 * 2048 = 8192 and 4 * 2049
        (
            "bayes-e",
            conv((1, 2048, 4, 8, 8), (8, 2048, 4, 1, 1)),
            conv((1, 2049, 4, 8, 8), (8, 2049, 4, 1, 1)),
            "kernel depth x input channels up to 8192",
        ),
        (
            "bayes-e",
            conv((1, 8, 4, 8, 8), (8, 8, 3, 3, 3), pads=(1, 9, 9, 1, 9, 9)),
            conv((1, 8, 4, 8, 8), (8, 8, 3, 3, 3), pads=(2, 0, 0, 0, 0, 0)),
            "depth padding up to half the kernel depth",
        ),
        (
            "bayes-e",
            conv((1, 8, 4, 8, 8), (8, 8, 3, 3, 3), strides=(1, 2, 2)),
            conv((1, 8, 4, 8, 8), (8, 8, 3, 3, 3), strides=(1, 1, 2)),
            "one stride for height and width",
        ),
        # height * 256 * 64 * 65: 1,064,960,000 and 1,090,519,040 against 2^30 = 1,073,741,824
        (
            "bayes-e",
            conv((1, 64, 65, 1000, 8), (8, 64, 3, 3, 3)),
            conv((1, 64, 65, 1024, 8), (8, 64, 3, 3, 3)),
            "below 1 GiB",
        ),
        (
            "bayes-e",
            deconv((1, 64, 8, 8), (64, 32, 4, 4), strides=(2, 2), pads=(1, 1, 1, 1), kernel_shape=(4, 4)),
            deconv((1, 64, 8, 8), (64, 32, 15, 4), strides=(2, 2), kernel_shape=(15, 4)),
            "kernel height 1..14",
        ),
        (
            "bayes-e",
            deconv((1, 64, 8, 8), (64, 32, 2, 2), strides=(2, 2)),
            deconv((1, 64, 8, 8), (64, 32, 2, 2), strides=(1, 1)),
            "a stride other than 1x1",
        ),
        (
            "bayes-e",
            deconv((1, 64, 8, 8), (64, 32, 1, 2), strides=(2, 2)),
            deconv((1, 64, 8, 8), (64, 32, 1, 1), strides=(2, 2)),
            "a kernel other than 1x1",
        ),
        # pad <= k / s for an even stride: 2 of 4 / 2; below for an odd one: 1 of 3 / 3
        (
            "bayes-e",
            deconv((1, 64, 8, 8), (64, 32, 4, 4), strides=(2, 2), pads=(2, 2, 2, 2)),
            deconv((1, 64, 8, 8), (64, 32, 3, 3), strides=(3, 3), pads=(1, 1, 1, 1)),
            "pads below kernel / stride for an odd stride",
        ),
        # one phase of 14x14 at stride 1x2: (13 // 1 + 1) * (13 // 2 + 1) = 98 taps a channel; 334 * 98 = 32732
        (
            "bayes-e",
            deconv((1, 334, 8, 8), (334, 32, 14, 14), strides=(1, 2)),
            deconv((1, 335, 8, 8), (335, 32, 14, 14), strides=(1, 2)),
            "of 32830 taps a phase",
        ),
        (
            "bernoulli2",
            deconv((1, 64, 8, 8), (64, 32, 4, 4), strides=(2, 4), pads=(1, 1, 1, 1)),
            deconv((1, 64, 8, 8), (64, 32, 4, 4), strides=(4, 2), pads=(1, 1, 1, 1)),
            "stride 4x2",
        ),
        (
            "bernoulli2",
            deconv((1, 64, 8, 8), (64, 32, 5, 5), strides=(2, 2), pads=(2, 2, 2, 2)),
            deconv((1, 64, 8, 8), (64, 32, 4, 4), strides=(2, 2), pads=(2, 2, 2, 2)),
            "pads up to (kernel - 1) / 2",
        ),
        ("bayes-e", pool("MaxPool", (256, 1)), pool("MaxPool", (257, 1)), "kernel height up to 256"),
        ("bayes-e", pool("MaxPool", (3, 3)), pool("MaxPool", (3, 3), dilations=(2, 1)), "dilation 1"),
        ("bayes-e", pool("AveragePool", (90, 91)), pool("AveragePool", (91, 91)), "window of up to 8192"),
        ("bernoulli2", pool("AveragePool", (7, 7)), pool("AveragePool", (8, 7)), "kernel height 1..7"),
        (
            "bernoulli2",
            pool("MaxPool", (64, 64), strides=(185, 1)),
            pool("MaxPool", (3, 3), strides=(1, 186)),
            "strides 1..185",
        ),
        ("bernoulli2", op("GlobalAveragePool", (1, 8, 64, 128)), op("GlobalAveragePool", (1, 8, 65, 128)), "8192"),
        ("bayes-e", op("GlobalMaxPool", (1, 8, 256, 8)), op("GlobalMaxPool", (1, 8, 257, 8)), "height 1..256"),
    ],
)
def test_limit(ask, march, held, broken, says):
    assert ask(march, held).reason == ""
    verdict = ask(march, broken)
    assert not verdict.ok
    assert says in verdict.reason
    assert verdict.reason.startswith(broken.op_type)
    assert march in verdict.reason


def test_last_operator_may_have_more_channels_a_group(ask):
    wide = conv((1, 8193, 8, 8), (8, 8193, 1, 1), last=True)
    assert "input channels" in ask("bayes-e", wide).reason  # the general bound of 8192 stays
    assert ask("bernoulli2", op("Gemm", (1, 8), tensor((8, 4097), True), out=(1, 4097), last=True)).ok
    assert "1024 groups" in ask("bernoulli2", op("Gemm", (1, 8), tensor((8, 4097), True), out=(1, 4097))).reason


def test_one_spatial_axis_is_two_with_height_one(ask):
    line = op("Conv", (1, 8, 64), tensor((8, 8, 33), True), kernel_shape=(33,), strides=(2,), pads=(1, 1))
    assert "kernel 1x33: bayes-e takes kernel width" in ask("bayes-e", line).reason
    assert ask("bayes-e", op("Conv", (1, 8, 64), tensor((8, 8, 3), True), kernel_shape=(3,))).ok


@pytest.mark.parametrize("kind", ["Gemm", "MatMul"])
def test_constant_product_is_a_1x1_convolution(ask, kind):
    assert ask("bayes-e", op(kind, (1, 768), tensor((768, 3072), True), out=(1, 3072)), "int16").ok
    verdict = ask("bayes-e", op(kind, (1, 768), tensor((768, 9000), True), out=(1, 9000)))
    assert f"{kind} 9000 columns" in verdict.reason
    assert "8192 output channels" in verdict.reason


@pytest.mark.parametrize(
    ("a", "b", "fits"),
    [
        ((2, 3, 4, 5), (2, 3, 5, 6), True),
        ((2, 3, 4, 5), (2, 1, 5, 6), True),  # HDMK x H1KN
        ((1, 1, 4, 5), (2, 3, 5, 6), True),  # 11MK x HDKN
        ((7, 2, 3, 4, 5), (7, 1, 1, 5, 6), True),  # BHDMK x B11KN
        ((2, 1, 4, 5), (1, 3, 5, 6), False),  # H1MK x 1DKN
        ((2, 1, 4, 5), (2, 3, 5, 6), False),  # H1MK x HDKN
        ((7, 2, 3, 4, 5), (7, 1, 3, 5, 6), False),  # BHDMK x B1DKN
        ((3, 4, 5), (1, 3, 5, 6), True),  # led by 1s to one rank
        ((1, 1, 8193, 5), (1, 1, 5, 6), False),
        ((4097, 1, 4, 5), (4097, 1, 5, 6), False),
    ],
)
def test_matmul_of_two_activations(ask, a, b, fits):
    verdict = ask("bayes-e", op("MatMul", a, b, out=(*max(a[:-2], b[:-2], key=len), a[-2], b[-1])))
    assert verdict.ok is fits
    assert (
        fits
        or "leading dimensions" in verdict.reason
        or "others 1..4096" in verdict.reason
        or "1..4096" in verdict.reason
    )


@pytest.mark.parametrize(
    ("a", "b", "const", "fits"),
    [
        ((4, 5), (5, 6), 1, True),
        ((2, 3, 4, 5), (5, 6), 1, True),
        ((2, 1, 4, 5), (5, 6), 1, False),  # ABMK needs A, B > 1
        ((1, 3, 4, 5), (1, 1, 5, 6), 1, False),  # 1BMK x 11KN with a constant right side
        ((1, 3, 4, 5), (1, 1, 5, 6), 0, True),
        ((1, 1, 4, 5), (1, 1, 5, 6), 0, False),  # B > 1
        ((1, 3, 4, 5), (1, 1, 5, 6), None, True),
        ((1, 3, 4, 5), (1, 3, 5, 6), None, False),
    ],
)
def test_bernoulli2_matmul_forms(ask, a, b, const, fits):
    operands = [tensor(s, i == const) for i, s in enumerate((a, b))]
    verdict = ask("bernoulli2", op("MatMul", *operands, out=(*a[:-1], b[-1])))
    assert verdict.ok is fits
    assert fits or "1BMK x 11KN" in verdict.reason or "11MK" in verdict.reason


def test_int16_where_the_march_has_it(ask):
    facts = conv(A224, (8, 3, 3, 3))
    assert ask("bayes-e", facts, "int16").ok
    assert ask("bernoulli2", facts, "int16").reason.startswith("Conv in int16: bernoulli2 has no int16 activations")
    assert not ask("bernoulli2", facts).int16
    average = pool("AveragePool", (3, 3))
    assert "AveragePool in int16: bayes-e takes int8" in ask("bayes-e", average, "int16").reason
    assert not ask("bayes-e", average).int16
    dilated = conv((1, 8, 32, 32), (8, 8, 3, 3), dilations=(2, 2))
    assert "with dilation 2x2 in int16" in ask("bayes-e", dilated, "int16").reason
