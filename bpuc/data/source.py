"""What a source of samples is, and the checks that every kind of source shares."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bpuc.base.errors import DataError

Sample = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class InputSpec:
    """An input of the model: its ONNX name, static shape and element type (a numpy name such as "float32").

    at_once: samples that a run of the compiled model takes; data may hold them run by run.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    at_once: int = 1


class DataSource(ABC):
    """Samples, one at a time: input name -> array of exactly the model's shape and dtype.

    Iterating reads the files anew each time and holds one sample only.

    Attributes:
        inputs: the model's inputs.
        where: the file or folder, for messages.
        samples: how many there are.
        warnings: what the user should know about the data, such as arrays that no input takes.
    """

    def __init__(self, inputs: Sequence[InputSpec], where: str, samples: int, warnings: Sequence[str] = ()):
        self.inputs, self.where, self.samples, self.warnings = tuple(inputs), where, samples, list(warnings)
        self._digest: str | None = None

    @abstractmethod
    def _read(self) -> Iterator[Mapping[str, npt.NDArray[Any]]]:
        """The samples as stored: the model's shapes, any dtype."""

    def __iter__(self) -> Iterator[Sample]:
        """Yield the samples.

        Raises:
            DataError: a file is damaged, or a value is NaN, infinite or nothing that the input's dtype can hold.
        """
        digest = None if self._digest else hashlib.sha256()
        for index, stored in enumerate(self._read()):
            sample = {s.name: to_dtype(stored[s.name], s, f"{self.where}, sample {index}") for s in self.inputs}
            if digest:
                for spec in self.inputs:
                    digest.update(f"{spec.name}\0{spec.dtype}{list(spec.shape)}".encode())
                    digest.update(sample[spec.name].data)
            yield sample
        if digest:
            self._digest = digest.hexdigest()

    def files(self, index: int) -> list[Path]:  # noqa: ARG002
        """The files that sample `index` alone comes from; none where a file holds several samples."""
        return []

    def digest(self) -> str:
        """SHA-256 of the samples as the model gets them (names, dtypes, shapes, bytes), however they are stored.

        Costs a reading of the data unless they have been iterated to the end before.
        """
        if self._digest is None:
            for _ in self:
                pass
        assert self._digest is not None
        return self._digest


def to_dtype(array: npt.NDArray[Any], spec: InputSpec, where: str) -> npt.NDArray[Any]:
    """The array in the input's dtype with the values unchanged (floats may lose digits), C order.

    Raises:
        DataError: NaN or infinity, a fraction for an integer input, or a value out of the dtype's range.
    """
    want = np.dtype(spec.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        out = np.asarray(array, dtype=want, order="C")
    if out.size == 0:
        return out
    if want.kind == "f":
        lo, hi = out.min(), out.max()  # both carry a NaN on
        if not (np.isfinite(lo) and np.isfinite(hi)):
            was_finite = array.dtype.kind != "f" or np.isfinite(array).all()
            what = f"a value too large for {want.name}" if was_finite else "NaN or infinity"
            raise DataError(f"input {spec.name!r} holds {what}", where=where, want="finite values")
    elif not np.can_cast(array.dtype, want, "safe") and not np.array_equal(out, array):
        raise DataError(
            f"input {spec.name!r} holds values that {want.name} does not have",
            where=where,
            want=f"whole numbers in the range of {want.name}",
        )
    return out


def check_dtype(dtype: np.dtype[Any], name: str, where: str) -> None:
    """Refuse element types that are no numbers.

    Raises:
        DataError: objects (which would need pickle), text, records, complex numbers.
    """
    if dtype.kind not in "biuf" or dtype.hasobject:
        raise DataError(f"input {name!r} holds elements of type {dtype}", where=where, want="real numbers")
