"""What has been seen so far, kept in a file beside the result, so that an interrupted calibration can go on.

The file names what it belongs to: the model, the options and the samples that are in it. It is replaced atomically
every few seconds, between two blocks of samples; what is done again after an interruption is at most that.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
import zipfile
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from bpuc.base.errors import FileError
from bpuc.base.files import check_writable, exists, read_bytes, write_atomic
from bpuc.calibrate.statistics import BLOCK, Statistics

SCHEMA = "bpuc.calib-partial/1"
SECONDS = 2.0  # between two writings, at least
SHARE = 20  # and so many times as long as a writing takes
Sample = Mapping[str, np.ndarray[Any, np.dtype[Any]]]


class Partial:
    """The file of a partial calibration.

    Args:
        path: of the file.
        identity: all that the result depends on but the samples, as JSON types.
    """

    def __init__(self, path: str | os.PathLike[str], identity: Mapping[str, Any]):
        self.path = check_writable(path)
        self._identity = json.loads(json.dumps({"schema": SCHEMA, "block": BLOCK, **identity}))
        self._hash = hashlib.sha256()
        self._digests: dict[int, str] = {}
        self._number = 0
        self._next = time.monotonic() + SECONDS

    def watch(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        """The samples; remembers which they were."""
        for sample in samples:
            for name in sorted(sample):
                array = np.ascontiguousarray(sample[name])
                self._hash.update(f"{name}\0{array.dtype.str}{array.shape}".encode())
                self._hash.update(array.data)
            self._number += 1
            if self._number % BLOCK == 0:
                self._digests[self._number] = self._hash.hexdigest()
            yield sample

    def load(self, statistics: Statistics, watched: Iterator[Sample]) -> int:
        """Fill `statistics` from the file, if there is one, and read on past the samples that are in it.

        Returns:
            the number of the next sample.

        Raises:
            FileError: the file is damaged, or belongs to another model, to other options or other data.
        """
        if not exists(self.path):
            return 0
        raw = read_bytes(self.path, "the partial calibration")
        try:
            with np.load(io.BytesIO(raw), allow_pickle=False) as file:
                head = json.loads(file["head"].tobytes())
                arrays = {name: file[f"rows/{i}"] for i, name in enumerate(head["rows"])}
            number, differs = int(head["number"]), _differing(head["identity"], self._identity)
            if not differs:
                statistics.load(head["statistics"], arrays)
        except (OSError, ValueError, KeyError, TypeError, EOFError, AttributeError, zipfile.BadZipFile) as e:
            raise FileError(
                f"{self.path} is no partial calibration, or one that is damaged",
                want="what an interrupted `bpuc calibrate --resume` left",
                hint="delete it to begin anew",
            ) from e
        if not differs:
            read = sum(1 for _ in islice(watched, number))
            if read < number or self._digests.get(number) != head["digest"]:
                differs = "data"
        if differs:
            raise FileError(
                f"{self.path} was made with another {differs}",
                want="the same model, data and options as in the run that was interrupted",
                hint="delete the file to begin anew",
            )
        return number

    def keep(self, statistics: Statistics, number: int) -> None:
        """Write the file, if the last time is long enough ago; `statistics` hold the samples before `number`."""
        start = time.monotonic()
        digest = self._digests.pop(number, None)
        if start < self._next or digest is None:
            return
        text, arrays = statistics.state()
        head = {
            "identity": self._identity,
            "number": number,
            "digest": digest,
            "statistics": text,
            "rows": list(arrays),
        }
        raw = np.frombuffer(json.dumps(head, allow_nan=False).encode(), np.uint8)
        buffer = io.BytesIO()
        rows: dict[str, Any] = {f"rows/{i}": a for i, a in enumerate(arrays.values())}
        np.savez(buffer, head=raw, **rows)
        write_atomic(self.path, buffer.getvalue())
        end = time.monotonic()
        self._next = end + max(SECONDS, SHARE * (end - start))


def _differing(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """The first thing in which two identities differ; empty where they do not."""
    return next((key for key in {**here, **there} if there.get(key) != here.get(key)), "")
