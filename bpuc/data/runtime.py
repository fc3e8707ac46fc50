"""Samples of a folder as a compiled program takes them: pixels in the format at run time, other arrays as they are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bpuc.data.folder import open_folder
from bpuc.data.recipe import Recipe
from bpuc.data.source import DataSource, InputSpec
from bpuc.program import Port


def open_runtime(
    folder: str | os.PathLike[str], ports: Sequence[Port], batch: Mapping[str, Sequence[str]] | None = None
) -> DataSource:
    """The samples of a folder, one file a sample, or one sub-folder an input; images become pixels of its format.

    Args:
        batch: inputs of which a run takes several samples -> the ports that take them, one a sample or all of them;
            of such an input the source gives single samples.

    Raises:
        DataError: the files do not fit the ports, or are images for an input that takes none.
    """
    parts = {part: name for name, found in (batch or {}).items() for part in found}
    specs: dict[str, InputSpec] = {}
    recipes: dict[str, Recipe] = {}
    for port in ports:
        name, image, shape = parts.get(port.name, port.name), port.image, port.shape
        if port.name in parts:
            image = None if image is None else replace(image, shape=(1, *image.shape[1:]))
            shape = (1, *shape[1:]) if image is None else image.port_shape
        specs[name] = InputSpec(name, shape, port.ref.dtype.value)
        recipes[name] = Recipe(pixels=image)
    return open_folder(Path(folder), list(specs.values()), recipes)
