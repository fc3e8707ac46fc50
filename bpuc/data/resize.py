"""Images of another size: the ways of Pillow, and two of OpenCV written out.

Pillow's filters widen when an image gets smaller (antialiasing); OpenCV's do not, and training pipelines on either
give different pixels. `opencv_bilinear` is INTER_LINEAR up to its rounding of weights, `opencv_nearest` INTER_NEAREST.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

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
    for axis, count in ((0, size[1]), (1, size[0])):
        if interpolation == "opencv_nearest":
            pixels = np.take(pixels, np.arange(count) * pixels.shape[axis] // count, axis=axis)
        else:
            pixels = _linear(pixels, axis, count)
    return Image.fromarray(np.clip(np.floor(pixels + 0.5), 0, 255).astype(np.uint8), image.mode)


def _linear(pixels: npt.NDArray[Any], axis: int, count: int) -> npt.NDArray[np.float64]:
    """Between the two nearest samples, centres of pixels at whole numbers and a half; float64."""
    size = pixels.shape[axis]
    at = np.clip((np.arange(count) + 0.5) * size / count - 0.5, 0, size - 1)
    low = np.floor(at).astype(np.int64)
    part = (at - low).reshape([-1 if a == axis else 1 for a in range(pixels.ndim)])
    first, second = (np.take(pixels, i, axis=axis).astype(np.float64) for i in (low, np.minimum(low + 1, size - 1)))
    return np.asarray(first * (1 - part) + second * part)
