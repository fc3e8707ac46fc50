"""A folder of samples: one file a sample, or one sub-folder an input with one file a sample in each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from bpuc.base.errors import DataError, FileError, did_you_mean
from bpuc.data.files import kind_of, reader_of
from bpuc.data.npz import equal_counts
from bpuc.data.recipe import Recipe
from bpuc.data.source import DataSource, InputSpec


class FolderSource(DataSource):
    """Samples in files, the first by name first.

    Args:
        where: what the user named, for messages.
        files: input -> its files; the one key "" for files that hold all inputs (.npz).
        inputs: the model's inputs.
        recipes: input -> how what is stored becomes that input.
        warnings: as DataSource.
    """

    def __init__(
        self,
        where: Path,
        files: Mapping[str, list[Path]],
        inputs: Sequence[InputSpec],
        recipes: Mapping[str, Recipe],
        warnings: Sequence[str] = (),
    ):
        super().__init__(inputs, str(where), equal_counts({k: len(v) for k, v in files.items()}, str(where)), warnings)
        self._parts = []
        for name, paths in files.items():
            specs = [s for s in inputs if name in ("", s.name)]
            self._parts.append((reader_of(_one_kind(paths), specs, recipes), paths))

    def _read(self) -> Iterator[Mapping[str, npt.NDArray[Any]]]:
        for i in range(self.samples):
            yield {k: v for read, paths in self._parts for k, v in read(paths[i]).items()}

    def files(self, index: int) -> list[Path]:
        return [paths[index] for _, paths in self._parts]


def open_folder(folder: Path, inputs: Sequence[InputSpec], recipes: Mapping[str, Recipe]) -> DataSource:
    """The samples in a folder.

    Raises:
        DataError: it is empty, holds several kinds of files, or does not fit the inputs.
        FileError: it cannot be read.
    """
    folders, files, warnings = _listing(folder)
    if folders and files:
        raise DataError(
            f"{folder.name} holds both samples and sub-folders",
            where=str(folder),
            want="one file a sample, or one sub-folder an input",
        )
    if folders:
        return open_folders(folder, _by_input(folder, folders, inputs), inputs, recipes)
    if not files:
        raise DataError(
            f"the folder {folder} holds no samples",
            want="files ending in .npy, .npz, .bin or as images do, or one sub-folder an input",
            hint=next(iter(warnings), None),
        )
    if _one_kind(files) == "npz":
        return FolderSource(folder, {"": files}, inputs, recipes, warnings)
    if len(inputs) == 1:
        return FolderSource(folder, {inputs[0].name: files}, inputs, recipes, warnings)
    names = ", ".join(repr(s.name) for s in inputs)
    raise DataError(
        f"the model has {len(inputs)} inputs, and the files do not say which is theirs",
        where=str(folder),
        want=f"one sub-folder an input ({names}), or .npz files",
    )


def open_folders(
    where: Path, folders: Mapping[str, Path], inputs: Sequence[InputSpec], recipes: Mapping[str, Recipe]
) -> DataSource:
    """The samples of inputs that have a folder each; errors as open_folder."""
    by_input: dict[str, list[Path]] = {}
    warnings: list[str] = []
    for name, folder in folders.items():
        _, by_input[name], more = _listing(folder)
        if not by_input[name]:
            raise DataError(f"the folder {folder} holds no samples for input {name!r}", want="one file a sample")
        warnings += more
    return FolderSource(where, by_input, inputs, recipes, warnings)


def _one_kind(files: list[Path]) -> str:
    kinds = sorted({str(kind_of(f)) for f in files})
    if len(kinds) > 1:
        raise DataError(
            f"the samples are of several kinds: {', '.join(kinds)}",
            where=str(files[0].parent),
            want="one kind of file in a folder",
        )
    return kinds[0]


def _listing(folder: Path) -> tuple[list[Path], list[Path], list[str]]:
    """Sub-folders and files of a known kind, by name, and warnings on the others; hidden ones do not count."""
    try:
        entries = sorted((p for p in folder.iterdir() if not p.name.startswith(".")), key=lambda p: p.name)
    except OSError as e:
        raise FileError(f"cannot read folder {folder}: {e.strerror or e}") from e
    folders = [p for p in entries if p.is_dir()]
    files = [p for p in entries if p.is_file() and kind_of(p)]
    others = [p.name for p in entries if not p.is_dir() and p not in files]
    warnings = [f"{folder}: files of no known kind are not used, such as {others[0]} ({len(others)})"] if others else []
    return folders, files, warnings


def _by_input(folder: Path, folders: list[Path], inputs: Sequence[InputSpec]) -> dict[str, Path]:
    """Input -> its sub-folder; a slash in the input's name is an underscore there."""
    found = {p.name: p for p in folders}
    taken = {n for s in inputs for n in (s.name, s.name.replace("/", "_"))}
    out = {}
    for spec in inputs:
        name = next((n for n in (spec.name, spec.name.replace("/", "_")) if n in found), None)
        if name is None:
            raise DataError(
                f"there is no sub-folder for input {spec.name!r}",
                where=str(folder),
                want=f"one sub-folder an input; found {', '.join(map(repr, found))}",
                hint=did_you_mean(spec.name, [n for n in found if n not in taken]),
            )
        out[spec.name] = found[name]
    return out
