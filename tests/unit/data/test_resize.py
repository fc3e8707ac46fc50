"""Resizing against values that OpenCV 5.0 gave for the same pixels."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from bpuc.base.image import ImageInput
from bpuc.data.resize import fitted

PIXELS = (np.arange(35).reshape(5, 7) * 37 % 256).astype(np.uint8)
# interpolation -> [3, 4] of cv2.resize(PIXELS, (4, 3)), and the first two rows of cv2.resize(PIXELS, (9, 8))
OPENCV = {
    "opencv_bilinear": (
        [[15, 79, 144, 209], [20, 85, 149, 214], [25, 89, 154, 219]],
        [[0, 25, 53, 82, 111, 140, 168, 197, 222], [1, 26, 55, 83, 112, 141, 170, 199, 223]],
    ),
    "opencv_nearest": (
        [[0, 37, 111, 185], [3, 40, 114, 188], [9, 46, 120, 194]],
        [[0, 0, 37, 74, 111, 111, 148, 185, 222], [0, 0, 37, 74, 111, 111, 148, 185, 222]],
    ),
    "opencv_bicubic": (
        [[12, 81, 143, 212], [17, 86, 148, 217], [22, 91, 153, 222]],
        [[0, 21, 54, 84, 111, 138, 168, 200, 224], [0, 22, 55, 85, 112, 139, 169, 202, 225]],
    ),
    "opencv_area": (
        [[17, 80, 144, 207], [22, 85, 149, 212], [27, 90, 154, 217]],
        [[0, 26, 53, 79, 111, 143, 169, 196, 222], [1, 28, 54, 80, 112, 144, 170, 197, 223]],
    ),
}


@pytest.mark.parametrize("name", OPENCV)
def test_opencv(name: str) -> None:
    for size, want in zip(((4, 3), (9, 8)), OPENCV[name]):
        got = np.asarray(fitted(Image.fromarray(PIXELS), size, "stretch", name, 0)).astype(int)
        assert got.shape == size[::-1]
        assert np.abs(got[: len(want)] - want).max() <= (name in ("opencv_bicubic", "opencv_area"))
    colour = np.stack([PIXELS, PIXELS[::-1], 255 - PIXELS], -1)
    got = np.asarray(fitted(Image.fromarray(colour), (4, 3), "stretch", name, 0)).astype(int)
    assert np.abs(got[..., 0] - OPENCV[name][0]).max() <= 1
    assert np.abs(255 - got[..., 2] - OPENCV[name][0]).max() <= 1


def test_letterbox_and_crop_around_the_middle() -> None:
    image = Image.fromarray(np.full((4, 8), 9, np.uint8))
    boxed = np.asarray(fitted(image, (8, 7), "letterbox", "opencv_bilinear", 114))
    np.testing.assert_array_equal(boxed[:, 0], [114, 9, 9, 9, 9, 114, 114])
    columns = Image.fromarray(np.tile(np.arange(8, dtype=np.uint8), (4, 1)))
    np.testing.assert_array_equal(np.asarray(fitted(columns, (4, 4), "crop", "opencv_area", 0))[0], [2, 3, 4, 5])


def test_nv12_of_a_ramp_as_opencv_has_it() -> None:
    """cv2.COLOR_RGB2YUV_I420, whose Y, U and V are in video range."""
    rgb = np.stack([PIXELS[:4, :6], PIXELS[:4, 1:7], PIXELS[1:5, :6]], -1)
    nv12 = ImageInput("nv12", "NHWC", "rgb", "NHWC", (1, 4, 6, 3), video=True).from_image(rgb).astype(int)
    want = [[35, 67, 99, 130, 162, 194], [38, 69, 101, 133, 165, 196], [40, 72, 104, 135, 167, 199]]
    assert np.abs(nv12[:3] - want).max() <= 1
    assert np.abs(nv12[4:] - [119, 114] * 3).max() <= 1
