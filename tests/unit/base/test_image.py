"""Formats of pixels: colours by the formulas of BT.601 written out per pixel, packing, and the way back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bpuc.base.image import ImageInput

MEAN, SCALE = (123.675, 116.28, 103.53), (0.017, 0.018, 0.019)
NV12 = ImageInput("nv12", "NCHW", "rgb", "NCHW", (1, 3, 4, 6), MEAN, SCALE)


def pixels(image: ImageInput) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, image.port_shape).astype(np.uint8)


@pytest.mark.parametrize("video", [False, True])
@pytest.mark.parametrize("train", ["rgb", "bgr"])
def test_nv12_to_colours(train: str, video: bool) -> None:
    image = replace(NV12, train=train, video=video)
    p = pixels(image)
    assert p.shape == (6, 6)
    got = image.to_model(p)
    for i in range(4):
        for j in range(6):
            y, u, v = (float(p[i, j]), float(p[4 + i // 2, j // 2 * 2]), float(p[4 + i // 2, j // 2 * 2 + 1]))
            y, u, v = (
                (1.164384 * (y - 16), 1.138393 * (u - 128), 1.138393 * (v - 128)) if video else (y, u - 128, v - 128)
            )
            rgb = [y + 1.402 * v, y - 0.344136 * u - 0.714136 * v, y + 1.772 * u]
            channels = rgb if train == "rgb" else rgb[::-1]
            want = [(c - m) * s for c, m, s in zip(channels, MEAN, SCALE)]
            np.testing.assert_allclose(got[0, :, i, j], want, atol=2e-4)


def test_the_affine_map_is_the_same() -> None:
    p = pixels(NV12)
    a, b = NV12.affine()
    want = NV12.channels_last(p).astype(np.float64) @ a.T + b
    np.testing.assert_allclose(NV12.to_model(p), want.transpose(0, 3, 1, 2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("runtime", "layout", "train", "train_layout"),
    [
        ("nv12", "NCHW", "rgb", "NHWC"),
        ("yuv444", "NHWC", "bgr", "NCHW"),
        ("rgb", "NHWC", "bgr", "NCHW"),
        ("bgr", "NCHW", "bgr", "NHWC"),
        ("gray", "NHWC", "gray", "NCHW"),
    ],
)
def test_the_way_back(runtime: str, layout: str, train: str, train_layout: str) -> None:
    c = 1 if train == "gray" else 3
    shape = (2, 4, 6, c) if train_layout == "NHWC" else (2, c, 4, 6)
    image = ImageInput(runtime, layout, train, train_layout, shape, (10.5,), (0.25,))
    p = pixels(image)
    assert image.to_model(p).shape == shape
    np.testing.assert_array_equal(image.from_model(image.to_model(p)), p)
    assert ImageInput.from_json(image.as_json()) == image


def test_pictures_become_pixels() -> None:
    red = np.zeros((2, 2, 3), np.uint8)
    red[..., 0] = 255
    image = replace(NV12, shape=(1, 3, 2, 2))
    # 0.299 * 255; 128 - 0.168736 * 255; 128 + 0.5 * 255, which is clamped
    np.testing.assert_array_equal(image.from_image(red), [[76, 76], [76, 76], [85, 255]])
    # 16 + 219 / 255 * 76.245; 128 - 224 / 255 * 43.028; 128 + 112
    np.testing.assert_array_equal(replace(image, video=True).from_image(red), [[81, 81], [81, 81], [90, 240]])
    bgr = ImageInput("bgr", "NHWC", "rgb", "NCHW", (1, 3, 2, 2))
    np.testing.assert_array_equal(bgr.from_image(red), red[None, ..., ::-1])
    gray = ImageInput("gray", "NCHW", "gray", "NCHW", (1, 1, 2, 2))
    np.testing.assert_array_equal(gray.from_image(red[..., :1]), red[None, None, ..., 0])


def test_chroma_is_the_mean_of_four_pixels() -> None:
    image = ImageInput("nv12", "NCHW", "yuv444", "NCHW", (1, 3, 2, 2))
    x = np.zeros((1, 3, 2, 2), np.float32)
    x[0, 1] = [[10, 20], [30, 41]]
    np.testing.assert_array_equal(image.from_model(x), [[0, 0], [0, 0], [25, 0]])
