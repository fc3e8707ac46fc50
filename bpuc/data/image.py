"""Images to inputs of the model: size, colour, mean and scale, layout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from bpuc.base.errors import DataError
from bpuc.base.image import CHANNELS, ImageInput
from bpuc.data.npz import unreadable
from bpuc.data.recipe import Recipe
from bpuc.data.resize import fitted
from bpuc.data.source import InputSpec

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
EIGHT_BIT = {"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "HSV", "LAB"}


class ImageReader:
    """Reads image files for one input: pixels in the format at run time, and from those what the float model takes.

    Steps: orientation by EXIF, RGB or gray, resizing, the colours of the board (BT.601; nv12 loses chroma as there),
    then the colours of the model, mean and scale. Calibration and `bpuc run` share every one of them.
    """

    def __init__(self, image: ImageInput):
        self._image = image

    def pixels(self, path: Path) -> npt.NDArray[np.uint8]:
        """One sample in the format at run time.

        Raises:
            DataError: the file is damaged, no image, or of more than 8 bits a channel.
        """
        i = self._image
        height, width = i.size
        opened = _open(path, "L" if i.train == "gray" else "RGB")
        picture = fitted(opened, (width, height), i.resize, i.interpolation, i.pad_value)
        return i.from_image(np.asarray(picture, np.uint8).reshape(height, width, -1))

    def __call__(self, path: Path) -> npt.NDArray[np.float32]:
        """One sample as the float model takes it; errors as `pixels`."""
        return self._image.to_model(self.pixels(path))


def image_reader(spec: InputSpec, recipe: Recipe) -> ImageReader:
    """The reader of an input that the configuration describes.

    Raises:
        DataError: the configuration does not say what the model takes, or the input has no shape of an image.
    """
    config = recipe.input
    missing = [k for k, v in (("type", config.type_train), ("layout", config.layout_train)) if v is None]
    if missing:
        keys = " and ".join(f"input_{m}_train" for m in missing)
        raise DataError(
            f"the images for input {spec.name!r} cannot be converted without {keys}",
            hint=f"give a configuration (-c) with {keys} under input_parameters, and mean_value and scale_value "
            "as in training; or store the samples as .npy",
        )
    kind, layout = str(config.type_train), str(config.layout_train)
    if kind == "featuremap":
        raise DataError(
            f"input {spec.name!r} is a featuremap, which no image can be converted to",
            hint="store the samples as .npy, or set input_type_train to rgb, bgr, yuv444 or gray",
        )
    nhwc = layout == "NHWC"
    axes = spec.shape[1:] if nhwc else (*spec.shape[2:], *spec.shape[1:2])
    if len(spec.shape) != 4 or spec.shape[0] != 1 or axes[2] != CHANNELS[kind]:
        wanted = f"[1, H, W, {CHANNELS[kind]}]" if nhwc else f"[1, {CHANNELS[kind]}, H, W]"
        raise DataError(
            f"input {spec.name!r} has the shape {list(spec.shape)}, into which no {kind} image goes",
            want=f"{wanted} for {config.layout_train}",
            hint="look at input_type_train and input_layout_train, or store the samples as .npy",
        )
    recipe.check(spec)
    p = recipe.preprocess
    runtime = config.type_rt if config.type_rt not in (None, "featuremap") else kind
    if runtime in ("nv12", "yuv444") and any(n % 2 for n in axes[:2]):
        runtime = kind  # refused where it is compiled
    image = ImageInput(str(runtime), layout, kind, layout, spec.shape, config.mean, config.scale, config.video)
    return ImageReader(replace(image, resize=p.resize, interpolation=p.interpolation, pad_value=p.pad_value))


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
