"""Reading .npz and .npy as a stream: one sample's bytes at a time, whatever the size of the file, and no pickles."""

from __future__ import annotations

import contextlib
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.lib.format as npy
import numpy.typing as npt

from bpuc.base.dtypes import integers_as_floats
from bpuc.base.errors import DataError, FileError, did_you_mean
from bpuc.data.recipe import Recipe
from bpuc.data.shapes import count_samples
from bpuc.data.source import DataSource, InputSpec, check_dtype

DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError)


@dataclass(frozen=True)
class Header:
    """What the head of an .npy says."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]


class NpzSource(DataSource):
    """An .npz: input name -> `[samples, *model shape]`; of an .npy, the one array for the model's one input."""

    def __init__(self, path: Path, inputs: Sequence[InputSpec], recipes: Mapping[str, Recipe]):
        self.path, self._recipes = path, recipes
        headers = read_headers(path)
        if path.suffix.lower() == ".npy" and len(inputs) == 1:
            headers = {inputs[0].name: headers[path.name]}
        match_names(list(headers), inputs, str(path))
        counts = {}
        for spec in inputs:
            check_dtype(headers[spec.name].dtype, spec.name, str(path))
            counts[spec.name] = count_samples(headers[spec.name].shape, spec, str(path))
        extra = [n for n in headers if n not in counts]
        warnings = [f"{path}: array {n!r} is no input of the model and is not used" for n in extra]
        warnings += [
            integers_as_floats(s.name, s.dtype, headers[s.name].dtype.name)
            for s in inputs
            if np.dtype(s.dtype).kind == "f"
            and headers[s.name].dtype.kind in "biu"
            and not recipes[s.name].normalize_arrays
        ]
        super().__init__(inputs, str(path), equal_counts(counts, str(path)), warnings)
        self._headers = headers

    def _read(self) -> Iterator[Mapping[str, npt.NDArray[Any]]]:
        with contextlib.ExitStack() as stack:
            streams = {}
            for spec in self.inputs:
                stream = stack.enter_context(_open_member(self.path, spec.name))
                streams[spec.name] = self._samples_of(spec, stream)
            for _ in range(self.samples):
                stored = {name: self._next(samples, name) for name, samples in streams.items()}
                yield {s.name: self._recipes[s.name].finish(stored[s.name], s) for s in self.inputs}
            for name, samples in streams.items():
                self._next(samples, name)  # runs the check behind the last sample

    def _next(self, samples: Iterator[npt.NDArray[Any]], name: str) -> npt.NDArray[Any]:
        try:
            return next(samples, np.empty(0))
        except DAMAGE as e:
            raise damaged(self.path, f"array {name!r}", e) from e

    def _samples_of(self, spec: InputSpec, stream: IO[bytes]) -> Iterator[npt.NDArray[Any]]:
        header = read_header(stream)
        if header.fortran:  # a sample is scattered over the whole array; such files are rare and are read at once
            whole = np.frombuffer(_exactly(stream, header.dtype.itemsize * int(np.prod(header.shape))), header.dtype)
            yield from whole.reshape(header.shape[::-1]).T.reshape(self.samples, *spec.shape)
            return
        elements = int(np.prod(spec.shape, dtype=np.int64))
        for _ in range(self.samples):
            raw = _exactly(stream, elements * header.dtype.itemsize)
            yield np.frombuffer(raw, header.dtype).reshape(spec.shape)
        if stream.read(1):  # also makes zipfile check the sum of a packed array
            raise ValueError("more bytes than its header says")


def match_names(found: list[str], inputs: Sequence[InputSpec], where: str) -> None:
    """Refuse data in which an input is missing.

    Raises:
        DataError: names the input, and the array that may have been meant.
    """
    names = [s.name for s in inputs]
    spare = [n for n in found if n not in names]
    for name in names:
        if name not in found:
            raise DataError(
                f"no data for input {name!r}",
                where=where,
                want=f"arrays named {', '.join(map(repr, names))}; found {', '.join(map(repr, found)) or 'none'}",
                hint=did_you_mean(name, spare)
                or "np.savez(PATH, **{NAME: array}) with the names of the model's inputs",
            )


def equal_counts(counts: Mapping[str, int], where: str) -> int:
    """The number of samples that all inputs share.

    Raises:
        DataError: they differ; names the input with the odd number, and both numbers.
    """
    values = list(counts.values())
    usual = max(set(values), key=lambda v: (values.count(v), v))
    for name, n in counts.items():
        if n != usual:
            other = next(k for k, v in counts.items() if v == usual)
            raise DataError(
                f"input {name!r} has {n} samples, {other!r} has {usual}",
                where=where,
                want="the same number of samples for every input",
            )
    return usual


def read_headers(path: Path) -> dict[str, Header]:
    """Names and headers of the arrays in an .npz, or of an .npy under its file name.

    Raises:
        DataError: the file is damaged, is no such file, or holds pickled objects.
        FileError: it cannot be read.
    """
    out = {}
    for name in _member_names(path):
        with _open_member(path, name) as stream:
            try:
                out[name] = read_header(stream)
            except DAMAGE as e:
                raise damaged(path, f"array {name!r}", e) from e
    return out


def read_npy(path: Path) -> npt.NDArray[Any]:
    """The array of a small .npy: one sample.

    Raises:
        DataError: damaged, or pickled objects. FileError: it cannot be read.
    """
    try:
        with path.open("rb") as f:
            return np.asarray(npy.read_array(f, allow_pickle=False))
    except OSError as e:
        raise unreadable(path, e) from e
    except DAMAGE as e:
        raise damaged(path, "the array", e) from e


def damaged(path: Path, what: str, e: BaseException) -> DataError:
    """The error for a file whose bytes are not what they should be."""
    reason = str(e).splitlines()[0] if str(e) else type(e).__name__
    return DataError(f"{path.name} is damaged or no data file: {what}: {reason}", where=str(path))


def unreadable(path: Path, e: OSError) -> FileError:
    """The error for a file that cannot be opened."""
    return FileError(f"cannot read data {path}: {e.strerror or e}")


def _member_names(path: Path) -> list[str]:
    if path.suffix.lower() == ".npy":
        return [path.name]
    try:
        with zipfile.ZipFile(path) as z:
            return [n[:-4] for n in z.namelist() if n.endswith(".npy")]
    except OSError as e:
        raise unreadable(path, e) from e
    except DAMAGE as e:
        raise damaged(path, "the archive", e) from e


@contextlib.contextmanager
def _open_member(path: Path, name: str) -> Iterator[IO[bytes]]:
    with contextlib.ExitStack() as stack:
        try:
            if path.suffix.lower() == ".npy":
                stream: IO[bytes] = stack.enter_context(path.open("rb"))
            else:
                stream = stack.enter_context(stack.enter_context(zipfile.ZipFile(path)).open(f"{name}.npy"))
        except OSError as e:
            raise unreadable(path, e) from e
        except DAMAGE as e:
            raise damaged(path, f"array {name!r}", e) from e
        yield stream


def read_header(stream: IO[bytes]) -> Header:
    """The head of an .npy at the start of a stream, which then stands at the first element.

    Raises:
        ValueError, EOFError: it is damaged, or says that Python objects follow.
    """
    version = npy.read_magic(stream)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"version {version[0]}.{version[1]} of the .npy format is not known")
    try:
        header = Header(*read(stream))
    except DAMAGE:
        raise
    except Exception as e:  # the header is Python text, and its parser raises what it likes
        raise ValueError(f"its header cannot be read: {e}") from e
    if min(header.shape, default=0) < 0:
        raise ValueError(f"its shape is {list(header.shape)}")
    if header.dtype.hasobject:
        raise ValueError("it holds Python objects, which are not read from data files")
    return header


def _exactly(stream: IO[bytes], n: int) -> bytes:
    parts, left = [], n
    while left:
        part = stream.read(left)
        if not part:
            raise EOFError("it ends too early")
        parts.append(part)
        left -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
