"""``bpuc run``: simulate a binary on inputs from an .npz file."""

from __future__ import annotations

import math
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, cast

import click
import numpy as np
from numpy.lib.format import MAGIC_PREFIX

from bpuc.base.errors import DataError, FileError
from bpuc.base.files import atomic_file, check_writable, exists, is_file, is_folder
from bpuc.cli import options, ui
from bpuc.data.npz import read_header
from bpuc.data.runtime import open_runtime
from bpuc.data.source import DataSource
from bpuc.program import Program, load_program
from bpuc.sim.batch import batch_of, in_runs, joined
from bpuc.sim.engine import Array
from bpuc.sim.inputs import Samples, check_inputs
from bpuc.sim.run import EngineName, Simulation

_EPOCH = (1980, 1, 1, 0, 0, 0)
LARGE = 64 << 20  # bytes of an array from which it is read from disk as it is needed


@click.command(
    "run",
    cls=options.Command,
    epilog="Example: bpuc run model.bpuc --inputs images.npz -o out.npz --integers --tensors all",
)
@click.argument("binary", metavar="X.bpuc")
@click.option(
    "--inputs",
    required=True,
    metavar="IN.npz",
    help="Arrays by input name, one more leading axis: samples; an .npy, for one input; or a folder of samples.",
)
@click.option("-o", "--output", required=True, metavar="OUT.npz", help="Outputs by name, with the same leading axis.")
@click.option("--integers", is_flag=True, help="Stored integers in place of real values.")
@click.option("--tensors", multiple=True, metavar="all|NAME", help="Tensors wanted beside the outputs; repeatable.")
@click.option(
    "--engine", type=click.Choice(["fast", "reference"]), default="fast", show_default=True, help="Both give the same."
)
@click.option(
    "--threads", type=options.THREADS, metavar="N", help="Threads of the engine; the results do not depend on it."
)
def command(
    binary: str, inputs: str, output: str, integers: bool, tensors: tuple[str, ...], engine: str, threads: int | None
) -> None:
    """Run a simulated binary on inputs: the integers that the simulated machine computes, or their real values.

    --engine reference is plain numpy, instruction by instruction; fast gives the same integers.
    """
    check_writable(output)
    program = load_program(binary)
    folder = Path(output).parent
    if is_folder(inputs):
        samples: Samples | FolderSamples = _folder(inputs, program)
    else:
        samples = check_inputs(program, in_runs(program, _arrays(inputs, program, folder)), ui.warn)
    simulation = Simulation(
        program, engine=cast(EngineName, engine), integers=integers, tensors=tensors, threads=threads
    )
    with ExitStack() as stack, NpzSpool(Path(output).parent) as spool:
        for feeds in stack.enter_context(ui.progress(samples, "samples", len(samples))):
            spool.add(simulation.sample(feeds))
        spool.save(output, samples.count)
    size = batch_of(program)[0]
    of = f" of {size} samples" if size > 1 else ""
    what = "run" if size > 1 else "sample"
    ui.note(f"{output}: {len(samples)} {what}{'s' if len(samples) > 1 else ''}{of}, {engine} engine")


@dataclass(frozen=True)
class FolderSamples:
    """Samples of a folder, read one at a time; each is checked against the ports."""

    source: DataSource
    program: Program

    size: int = 1  # of a run

    @property
    def count(self) -> int:
        return self.source.samples // self.size

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[dict[str, Array]]:
        frames: list[Mapping[str, Array]] = []
        for sample in self.source:
            frames.append(sample)
            if len(frames) == self.size:
                yield from check_inputs(self.program, frames[0] if self.size == 1 else joined(frames, self.program))
                frames = []


def _folder(path: str, program: Program) -> FolderSamples:
    size, batch = batch_of(program)
    source = open_runtime(path, program.inputs, batch)
    for text in source.warnings:
        ui.warn(text)
    if source.samples % size:
        raise DataError(
            f"{path} holds {source.samples} samples, and a run takes {size} at once", want=f"a multiple of {size}"
        )
    return FolderSamples(source, program, size)


def _arrays(path: str, program: Program, folder: Path) -> dict[str, Array]:
    """Arrays by input name; of an .npy, which has no name, the array of the program's one input."""
    if exists(path) and not is_file(path):
        raise FileError(f"cannot read inputs {path}: it is no regular file", want="an .npz file, an .npy or a folder")
    if len(program.inputs) == 1 and _is_npy(path):
        return {program.inputs[0].name: read_npy(path)}
    return read_npz(path, folder)


def _is_npy(path: str) -> bool:
    try:
        with Path(path).open("rb") as f:
            return f.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX
    except (OSError, ValueError):
        return False  # told where it is read


def read_npy(path: str) -> Array:
    """The array of an .npy file, read from disk as it is needed, without unpickling anything.

    Raises:
        FileError: the file cannot be read.
        DataError: it is damaged, or holds Python objects.
    """
    try:
        with Path(path).open("rb") as f:
            header = read_header(f)
            size, start = math.prod(header.shape) * header.dtype.itemsize, f.tell()
        if size + start != Path(path).stat().st_size:
            raise ValueError(f"it has not the bytes of its shape {list(header.shape)}")
        array: Array = np.load(path, mmap_mode="r" if size else None, allow_pickle=False)
    except OSError as e:
        raise FileError(f"cannot read inputs {path}: {e.strerror or e}") from e
    except (ValueError, EOFError) as e:
        raise DataError(
            f"{path} is not a readable .npy file: {e}", want="an array of numbers, as numpy.save writes it"
        ) from e
    return array


def read_npz(path: str, folder: Path, large: int = LARGE) -> dict[str, Array]:
    """All arrays of an .npz file, without unpickling anything.

    Args:
        path: of the file.
        folder: where arrays of more than `large` bytes are unpacked, to be read as they are needed; nothing stays.

    Raises:
        FileError: the file cannot be read.
        DataError: it is no .npz file of plain arrays.
    """
    want = "an .npz file of plain arrays by input name, as numpy.savez writes it"
    try:
        with Path(path).open("rb") as f:
            if not zipfile.is_zipfile(f):
                f.seek(0)
                if f.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX:
                    raise DataError(
                        f"{path} is a single array, not an .npz archive",
                        want=want,
                        hint="np.savez('inputs.npz', NAME=array) with the name of the model's input",
                    )
                raise DataError(f"{path} is not a readable .npz file: it is no zip archive, or cut off", want=want)
            arrays = {}
            with zipfile.ZipFile(f) as z:
                for entry in z.infolist():
                    if not entry.filename.endswith(".npy"):
                        raise DataError(
                            f"{path} is not an .npz file: its entry '{entry.filename}' is no array", want=want
                        )
                    with z.open(entry) as stream:
                        arrays[entry.filename[:-4]] = _array(stream, entry, folder if entry.file_size > large else None)
    except OSError as e:
        raise FileError(f"cannot read inputs {path}: {e.strerror or e}") from e
    except (ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as e:
        raise DataError(f"{path} is not a readable .npz file: {e}", want=want) from e
    return arrays


def _array(stream: IO[bytes], entry: zipfile.ZipInfo, folder: Path | None) -> Array:
    """One array, in memory or in an unnamed file of `folder`; its head is believed only where the size agrees."""
    header = read_header(stream)
    size, start = math.prod(header.shape) * header.dtype.itemsize, stream.tell()
    if size + start != entry.file_size:
        raise ValueError(f"array '{entry.filename[:-4]}' has not the bytes of its shape {list(header.shape)}")
    order: Literal["C", "F"] = "F" if header.fortran else "C"
    if folder is None or not size:
        flat = np.frombuffer(stream.read(), header.dtype)
        return flat.reshape(header.shape, order=order)
    with tempfile.TemporaryFile(dir=folder) as file:
        shutil.copyfileobj(stream, file, 1 << 20)  # to its end, where the sum is checked
        file.flush()
        return np.memmap(file, header.dtype, "r", 0, header.shape, order)


class NpzSpool:
    """Collects results sample by sample on disk and writes them as one .npz, so memory holds a single sample.

    The file depends on the arrays alone: stored entries, fixed timestamps, the order of the first sample.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._files: dict[str, tuple[IO[bytes], Array]] = {}

    def __enter__(self) -> NpzSpool:
        return self

    def __exit__(self, *exc: object) -> None:
        for f, _ in self._files.values():
            with suppress(OSError):  # what could not be written has been told, and nobody reads it any more
                f.close()

    def add(self, row: dict[str, Array]) -> None:
        """Append one sample of every array."""
        try:
            for name, value in row.items():
                if name not in self._files:
                    # unnamed: gone with the process, whatever happens
                    self._files[name] = (tempfile.TemporaryFile(dir=self._folder), value)  # noqa: SIM115
                self._files[name][0].write(np.ascontiguousarray(value).tobytes())
        except OSError as e:
            raise FileError(f"cannot keep results in {self._folder}: {e.strerror or e}") from e

    def save(self, path: str, count: int | None) -> None:
        """Write the archive atomically; `count` None: no sample axis."""
        with atomic_file(path) as out, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as z:
            for name, (f, first) in self._files.items():
                shape = first.shape if count is None else (count, *first.shape)
                header: dict[str, Any] = {
                    "descr": np.lib.format.dtype_to_descr(first.dtype),
                    "fortran_order": False,
                    "shape": shape,
                }
                f.seek(0)
                with z.open(zipfile.ZipInfo(f"{name}.npy", _EPOCH), "w", force_zip64=True) as entry:
                    np.lib.format.write_array_header_1_0(entry, header)
                    while block := f.read(1 << 20):
                        entry.write(block)
