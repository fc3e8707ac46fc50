"""Files that hold one sample each: their kinds, and a reader for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bpuc.base.errors import DataError
from bpuc.data.image import IMAGE_SUFFIXES, ImageReader, image_reader
from bpuc.data.npz import NpzSource, read_npy, unreadable
from bpuc.data.recipe import Recipe
from bpuc.data.shapes import count_samples
from bpuc.data.source import InputSpec, check_dtype

Array = npt.NDArray[Any]
Reader = Callable[[Path], Mapping[str, Array]]
# Endings of raw files: our .bin, and those that the vendor's sample scripts write (some write none).
RAW_SUFFIXES = frozenset(
    {".bin", ".raw", ".rgb", ".bgr", ".rgbchw", ".bgrchw", ".yuv", ".yuv444", ".gray", ".feature", ""}
)


def kind_of(path: Path) -> str | None:
    """npy, npz, raw or image by the ending; None for anything else."""
    suffix = path.suffix.lower()
    if suffix in (".npy", ".npz"):
        return suffix[1:]
    return "raw" if suffix in RAW_SUFFIXES else "image" if suffix in IMAGE_SUFFIXES else None


def reader_of(kind: str, inputs: Sequence[InputSpec], recipes: Mapping[str, Recipe]) -> Reader:
    """A function from a file of this kind to the arrays of `inputs`; only an .npz can hold more than one.

    Raises:
        DataError: the configuration does not say how images become this input.
    """
    if kind == "npz":
        return lambda path: _read_npz(path, inputs, recipes)
    spec, recipe = inputs[0], recipes[inputs[0].name]
    if kind == "image":
        read_image: Callable[[Path], Array] = (
            image_reader(spec, recipe) if recipe.pixels is None else ImageReader(recipe.pixels).pixels
        )
        return lambda path: {spec.name: read_image(path)}
    read = _read_npy if kind == "npy" else _read_raw
    return lambda path: {spec.name: recipe.finish(read(path, spec, recipe), spec)}


def _read_npz(path: Path, inputs: Sequence[InputSpec], recipes: Mapping[str, Recipe]) -> Mapping[str, Array]:
    source = NpzSource(path, inputs, recipes)
    _check_one(source.samples, path)
    return next(iter(source))


def _read_npy(path: Path, spec: InputSpec, _: Recipe) -> Array:
    array = read_npy(path)
    check_dtype(array.dtype, spec.name, str(path))
    _check_one(count_samples(array.shape, spec, str(path)), path)
    return array.reshape(spec.shape)


def _check_one(samples: int, path: Path) -> None:
    if samples != 1:
        raise DataError(
            f"{path.name} holds {samples} samples",
            where=str(path),
            want="one sample a file in a folder; a file of many samples is given by its own path",
        )


def _read_raw(path: Path, spec: InputSpec, recipe: Recipe) -> Array:
    dtype = np.dtype(recipe.raw_dtype or "float32").newbyteorder("<")
    size = int(np.prod(spec.shape, dtype=np.int64))
    try:
        bytes_there = path.stat().st_size
        if recipe.by_size and recipe.raw_dtype is None and bytes_there == size:
            dtype = np.dtype(np.uint8)
        raw = path.read_bytes() if bytes_there == size * dtype.itemsize else b""
    except OSError as e:
        raise unreadable(path, e) from e
    if bytes_there != size * dtype.itemsize:
        as_bytes = recipe.raw_dtype is None and bytes_there == size
        raise DataError(
            f"{path.name} has {bytes_there} bytes, which is not one sample of input {spec.name!r}",
            where=str(path),
            want=f"{size * dtype.itemsize} bytes: {list(spec.shape)} of {dtype.name}",
            hint="it has the size of uint8; if so, set calibration_parameters.cal_data_type to uint8"
            if as_bytes
            else None,
        )
    return np.frombuffer(raw, dtype).reshape(spec.shape)
