"""Images to inputs of the model: size, colour, mean and scale, layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from bpuc.base.errors import DataError
from bpuc.data.npz import unreadable
from bpuc.data.recipe import Recipe
from bpuc.data.source import InputSpec

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
CHANNELS = {"rgb": 3, "bgr": 3, "yuv444": 3, "gray": 1}
FILTERS = {
    "bilinear": Image.Resampling.BILINEAR,
    "nearest": Image.Resampling.NEAREST,
    "bicubic": Image.Resampling.BICUBIC,
    "area": Image.Resampling.BOX,
}
EIGHT_BIT = {"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "HSV", "LAB"}


class ImageReader:
    """Reads image files for one input.

    Steps: orientation by EXIF, RGB or gray, resizing, colour order (yuv444: full-range BT.601, as in JPEG), mean and
    scale, layout. Values are 0 to 255 before mean and scale.

    Raises:
        DataError: the configuration does not say what the model takes, or the input has no shape of an image.
    """

    def __init__(self, spec: InputSpec, recipe: Recipe):
        self._spec, self._recipe = spec, recipe
        config = recipe.input
        missing = [k for k, v in (("type", config.type_train), ("layout", config.layout_train)) if v is None]
        if missing:
            keys = " and ".join(f"input_{m}_train" for m in missing)
            raise DataError(
                f"the images for input {spec.name!r} cannot be converted without {keys}",
                hint=f"give a configuration (-c) with {keys} under input_parameters, and mean_value and scale_value "
                "as in training; or store the samples as .npy",
            )
        kind = str(config.type_train)
        if kind == "featuremap":
            raise DataError(
                f"input {spec.name!r} is a featuremap, which no image can be converted to",
                hint="store the samples as .npy, or set input_type_train to rgb, bgr, yuv444 or gray",
            )
        self._kind, self._nhwc = kind, config.layout_train == "NHWC"
        axes = spec.shape[1:] if self._nhwc else (*spec.shape[2:], *spec.shape[1:2])
        if len(spec.shape) != 4 or spec.shape[0] != 1 or axes[2] != CHANNELS[kind]:
            layout = f"[1, H, W, {CHANNELS[kind]}]" if self._nhwc else f"[1, {CHANNELS[kind]}, H, W]"
            raise DataError(
                f"input {spec.name!r} has the shape {list(spec.shape)}, into which no {kind} image goes",
                want=f"{layout} for {config.layout_train}",
                hint="look at input_type_train and input_layout_train, or store the samples as .npy",
            )
        self._height, self._width = axes[0], axes[1]

    def __call__(self, path: Path) -> npt.NDArray[Any]:
        """One sample.

        Raises:
            DataError: the file is damaged, no image, or of more than 8 bits a channel.
        """
        image = self._resized(_open(path, "L" if self._kind == "gray" else "RGB"))
        if self._kind == "yuv444":
            image = image.convert("YCbCr")
        pixels = np.asarray(image, np.float32).reshape(1, self._height, self._width, -1)
        if self._kind == "bgr":
            pixels = pixels[..., ::-1]
        if not self._nhwc:
            pixels = pixels.transpose(0, 3, 1, 2)
        return self._recipe.normalized(pixels, self._spec)

    def _resized(self, image: Image.Image) -> Image.Image:
        p, size = self._recipe.preprocess, (self._width, self._height)
        method = FILTERS[p.interpolation]
        if p.resize == "letterbox":
            colour: Any = (int(p.pad_value),) * len(image.getbands())
            return ImageOps.pad(image, size, method, color=colour if len(colour) > 1 else colour[0])
        if p.resize == "crop":
            return ImageOps.fit(image, size, method)
        return image if image.size == size else image.resize(size, method)


def _open(path: Path, mode: str) -> Image.Image:
    try:
        with Image.open(path) as image:
            if image.mode not in EIGHT_BIT:
                raise DataError(f"{path.name} has more than 8 bits a channel", where=str(path), want="an 8-bit image")
            upright = ImageOps.exif_transpose(image)
            return upright.convert(mode)
    # a damaged length asks Pillow for memory that nobody has
    except (UnidentifiedImageError, MemoryError, Image.DecompressionBombError, SyntaxError, ValueError, EOFError) as e:
        raise DataError(f"{path.name} is damaged or no image", where=str(path)) from e
    except OSError as e:
        if e.errno is not None:
            raise unreadable(path, e) from e
        raise DataError(f"{path.name} is damaged: {e}", where=str(path)) from e
