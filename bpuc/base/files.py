"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from bpuc.base.errors import FileError

LARGEST = 1 << 31  # bytes of a file that is read as a whole: protobuf ends there


def check_writable(path: str | os.PathLike[str]) -> Path:
    """Refuse an output path that cannot become a regular file, before any work is done.

    Raises:
        FileError: the path is a folder or a device, or its folder is missing or not writable.
    """
    p = Path(path)
    try:
        mode = p.stat().st_mode
    except FileNotFoundError:
        mode = None
    except (OSError, ValueError) as e:
        raise FileError(f"cannot write {p}: {getattr(e, 'strerror', None) or e}", hint="choose another path") from e
    if mode is None and os.fspath(path).endswith((os.sep, os.altsep or os.sep)):
        raise FileError(f"cannot write {path}: it names a folder, which is not there", want="a path of a file")
    if mode is not None and not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise FileError(f"cannot write {p}: it is {what}", want="a path of a regular file, new or to be replaced")
    if not p.parent.is_dir():
        raise FileError(f"cannot write {p}: there is no folder {p.parent}", hint=f"mkdir -p {p.parent}")
    if p.is_symlink():
        return check_writable(p.resolve())
    if not os.access(p.parent, os.W_OK | os.X_OK):
        raise FileError(f"cannot write {p}: the folder {p.parent} is not writable")
    return p


def exists(path: str | os.PathLike[str]) -> bool:
    """Whether something is at a path that the user named; false too for a path that no file can have."""
    return os.path.exists(path)  # noqa: PTH110 - Path's own raises for names that are too long


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a path that the user named is a folder; false too for a path that no folder can have."""
    return os.path.isdir(path)  # noqa: PTH112


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether a path that the user named is a regular file; false too for a path that no file can have."""
    return os.path.isfile(path)  # noqa: PTH113


def real_path(path: str | os.PathLike[str]) -> str:
    """The path with links followed; as it is where no file can have it."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return str(path)


def make_folder(path: str | os.PathLike[str]) -> Path:
    """A folder to write into, made where it is missing.

    Raises:
        FileError: something else stands there, or it cannot be made.
    """
    p = Path(path)
    try:
        p.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as e:
        reason = "it is no folder" if isinstance(e, FileExistsError) else getattr(e, "strerror", None) or e
        raise FileError(f"cannot write to the folder {p}: {reason}", want="a folder, new or existing") from e
    return p


@contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """As `make_folder`, for a block of work; when the block fails, the folders that were made and hold nothing go."""
    missing = [p for p in (Path(path), *Path(path).parents) if not exists(p)]
    try:
        yield make_folder(path)
    except BaseException:
        with suppress(OSError, ValueError):
            for p in missing:
                p.rmdir()
        raise


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write under a temporary name in the same folder; renamed over `path` when the block ends well.

    Raises:
        FileError: the file cannot be written; what stood at `path` before is untouched.
    """
    p = check_writable(path)
    tmp: str | None = None
    try:
        p = p.resolve()  # a link stays, and what it points to is replaced
        fd, tmp = tempfile.mkstemp(prefix=f".{p.name[:40]}.", suffix=".part", dir=p.parent)
        with os.fdopen(fd, "w+b") as f:
            yield f
            f.flush()
            os.fsync(f.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(tmp).chmod(0o666 & ~umask)
        Path(tmp).replace(p)
        tmp = None
    except OSError as e:
        raise FileError(f"cannot write {p}: {e.strerror or e}", hint="check free space and permissions") from e
    finally:
        if tmp is not None:
            Path(tmp).unlink(missing_ok=True)


def write_atomic(path: str | os.PathLike[str], data: bytes | str) -> None:
    """Write a whole file under a temporary name in the same folder, then rename it over `path`.

    Raises:
        FileError: the file cannot be written; what stood at `path` before is untouched.
    """
    write_together({os.fspath(path): data})


def write_together(files: Mapping[str, bytes | str]) -> None:
    """Write several files, all or none: each whole under a temporary name, and renamed when all are written.

    Raises:
        FileError: one cannot be written; what stood at the paths before is untouched.
    """
    with ExitStack() as stack:
        for path, data in files.items():
            f = stack.enter_context(atomic_file(path))
            # a path that is no UTF-8 holds halves of characters, which JSON has as escapes
            f.write(data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data)
            f.flush()


def read_bytes(path: str | os.PathLike[str], what: str) -> bytes:
    """The bytes of a file that the user named.

    Raises:
        FileError: it is missing, a folder or a device, larger than 2 GB or not readable; the message says which `what`
            it should have been.
    """
    try:
        # a named pipe that nobody writes to ends at once; opened in the plain way it would never answer
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(fd, "rb") as f:
            status = os.fstat(fd)
            if stat.S_ISFIFO(status.st_mode):
                os.set_blocking(fd, True)
                return _until(f, LARGEST)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(0, "Is a directory" if stat.S_ISDIR(status.st_mode) else "it is a device")
            if status.st_size > LARGEST:
                raise OSError(0, f"it is larger than {LARGEST >> 20} MB")
            return f.read()
    except (OSError, ValueError) as e:
        raise FileError(f"cannot read {what} {path}: {getattr(e, 'strerror', None) or e}") from e


def _until(f: BinaryIO, most: int) -> bytes:
    parts: list[bytes] = []
    while part := f.read(1 << 20):
        parts.append(part)
        if len(parts) > most >> 20:
            raise OSError(0, f"it is larger than {most >> 20} MB")
    return b"".join(parts)
