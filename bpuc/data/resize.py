"""Images of another size: the ways of Pillow, and four of OpenCV written out.

Pillow's filters widen when an image gets smaller (antialiasing); OpenCV's do not but for the area, and training
pipelines on either give different pixels. `opencv_bilinear` is INTER_LINEAR and `opencv_nearest` INTER_NEAREST to the
integer; `opencv_bicubic` is INTER_CUBIC (Keys, with a = -0.75) and `opencv_area` INTER_AREA up to one step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

Floats = npt.NDArray[np.float64]

PILLOW = {
    "bilinear": Image.Resampling.BILINEAR,
    "nearest": Image.Resampling.NEAREST,
    "bicubic": Image.Resampling.BICUBIC,
    "area": Image.Resampling.BOX,
}


def fitted(image: Image.Image, size: tuple[int, int], mode: str, interpolation: str, pad_value: float) -> Image.Image:
    """An image of `size` (width, height).

    Args:
        mode: stretch; letterbox keeps the proportions and pads evenly; crop keeps them and cuts around the centre.
    """
    if mode == "stretch":
        return _resized(image, size, interpolation)
    width, height = image.size
    ratios = size[0] / width, size[1] / height
    ratio = min(ratios) if mode == "letterbox" else max(ratios)
    inner = max(1, round(width * ratio)), max(1, round(height * ratio))
    small = _resized(image, inner, interpolation)
    left, top = (size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2
    if mode == "crop":
        return small.crop((-left, -top, size[0] - left, size[1] - top))
    colour: Any = (int(pad_value),) * len(image.getbands())
    canvas = Image.new(image.mode, size, colour if len(colour) > 1 else colour[0])
    canvas.paste(small, (left, top))
    return canvas


def _resized(image: Image.Image, size: tuple[int, int], interpolation: str) -> Image.Image:
    if image.size == size:
        return image
    if interpolation in PILLOW:
        return image.resize(size, PILLOW[interpolation])
    pixels = np.asarray(image)
    if interpolation == "opencv_nearest":
        for axis, count in ((0, size[1]), (1, size[0])):
            pixels = np.take(pixels, np.arange(count) * pixels.shape[axis] // count, axis=axis)
        return Image.fromarray(pixels, image.mode)
    if interpolation == "opencv_bilinear":
        return Image.fromarray(_bilinear(pixels, size), image.mode)
    smaller = size[1] <= pixels.shape[0] and size[0] <= pixels.shape[1]
    weights = _area if smaller and interpolation == "opencv_area" else WEIGHTS[interpolation]
    result: npt.NDArray[Any] = pixels.astype(np.float64)
    for axis, count in ((0, size[1]), (1, size[0])):
        result = np.moveaxis(np.tensordot(weights(result.shape[axis], count), result, (1, axis)), 0, axis)
    return Image.fromarray(np.clip(np.floor(result + 0.5), 0, 255).astype(np.uint8), image.mode)


def _spread(size: int, first: Floats, parts: list[Floats]) -> Floats:
    """Weights [count, size]: `parts` for the pixels from `first` on, beyond the ends for the last ones."""
    count = len(first)
    out = np.zeros((count, size))
    for step, part in enumerate(parts):
        at = np.clip(first.astype(np.int64) + step, 0, size - 1)
        np.add.at(out, (np.arange(count), at), part)
    return out


def _places(size: int, count: int) -> tuple[Floats, Floats]:
    """Pixel before each wanted one, and the way from it, with centres of pixels at whole numbers and a half."""
    at = (np.arange(count) + 0.5) * size / count - 0.5
    return np.floor(at), at - np.floor(at)


def _bilinear(pixels: npt.NDArray[Any], size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Weights in steps of 2**-11; along the height products lose 4 bits before and 16 after, their sum the last 2."""
    values = pixels.astype(np.int64)
    for axis, count in ((1, size[0]), (0, size[1])):
        first, t = _places(values.shape[axis], count)
        shape = [-1 if a == axis else 1 for a in range(values.ndim)]
        taps = []
        for step, part in enumerate((1 - t, t)):
            at = np.clip(first.astype(np.int64) + step, 0, values.shape[axis] - 1)
            weights = np.rint(part * 2048).astype(np.int64).reshape(shape)
            read = np.take(values, at, axis=axis)
            taps.append(weights * read if axis else (weights * (read >> 4)) >> 16)
        values = taps[0] + taps[1]
    return np.asarray(np.clip((values + 2) >> 2, 0, 255), np.uint8)


def _cubic(size: int, count: int) -> Floats:
    a = -0.75
    first, t = _places(size, count)
    before = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a
    here = ((a + 2) * t - (a + 3)) * t * t + 1
    there = ((a + 2) * (1 - t) - (a + 3)) * (1 - t) * (1 - t) + 1
    return _spread(size, first - 1, [before, here, there, 1 - before - here - there])


def _area(size: int, count: int) -> Floats:
    """The part of each pixel that lies under the wanted one."""
    edges = np.arange(count + 1)[:, None] * size / count
    covered = np.clip(np.minimum(edges[1:], np.arange(1, size + 1)) - np.maximum(edges[:-1], np.arange(size)), 0, None)
    return np.asarray(covered * count / size)


def _area_larger(size: int, count: int) -> Floats:
    """What INTER_AREA does where an axis grows: a step between pixels takes as long as one wanted pixel."""
    ratio = count / size
    first = np.floor(np.arange(count) / ratio)
    t = np.arange(1, count + 1) - (first + 1) * ratio
    t = np.where(t <= 0, 0, t - np.floor(t))
    return _spread(size, first, [1 - t, t])


WEIGHTS = {"opencv_bicubic": _cubic, "opencv_area": _area_larger}
