"""Samples of a folder as a compiled program takes them: pixels in the format at run time, other arrays as they are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from bpuc.data.folder import open_folder
from bpuc.data.recipe import Recipe
from bpuc.data.source import DataSource, InputSpec
from bpuc.program import Port


def open_runtime(folder: str | os.PathLike[str], ports: Sequence[Port]) -> DataSource:
    """The samples of a folder, one file a sample, or one sub-folder an input; images become pixels of its format.

    Raises:
        DataError: the files do not fit the ports, or are images for an input that takes none.
    """
    specs = [InputSpec(p.name, p.shape, p.ref.dtype.value) for p in ports]
    return open_folder(Path(folder), specs, {p.name: Recipe(pixels=p.image) for p in ports})
