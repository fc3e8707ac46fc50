"""Opening what `--data` names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bpuc.base.errors import DataError, FileError
from bpuc.data.npz import NpzSource
from bpuc.data.source import DataSource, InputSpec


def open_data(path: str | os.PathLike[str], inputs: Sequence[InputSpec]) -> DataSource:
    """The samples of an .npz, an .npy (for a model of one input) or a folder.

    Raises:
        DataError: the data do not fit the inputs. FileError: nothing is there, or it cannot be read.
    """
    p = Path(path)
    if not p.exists():
        raise FileError(f"cannot read data {p}: there is no such file or folder")
    if p.suffix.lower() in (".npz", ".npy") and p.is_file():
        return NpzSource(p, inputs)
    raise DataError(
        f"{p.name} is no data that can be read", where=str(p), want="an .npz, an .npy or a folder of samples"
    )


class _RandomSource(DataSource):
    def __init__(self, inputs: Sequence[InputSpec], samples: int, seed: int):
        super().__init__(inputs, "random data", samples)
        self._seed = seed

    def _read(self) -> Iterator[Mapping[str, npt.NDArray[Any]]]:
        rng = np.random.default_rng(self._seed)
        for _ in range(self.samples):
            yield {s.name: _random(rng, s) for s in self.inputs}


def _random(rng: np.random.Generator, spec: InputSpec) -> npt.NDArray[Any]:
    kind = np.dtype(spec.dtype).kind
    if kind == "f":
        return rng.uniform(-1, 1, spec.shape)
    return rng.integers(0, 2 if kind == "b" else 128, spec.shape)


def random_data(inputs: Sequence[InputSpec], samples: int = 8, seed: int = 0) -> DataSource:
    """Made-up samples, the same for the same seed: floats even in [-1, 1), integers even in 0..127.

    They fit a look at placement and speed; thresholds from them say nothing about accuracy.

    Raises:
        DataError: `samples` is below 1.
    """
    if samples < 1:
        raise DataError(f"{samples} random samples were asked for", want="at least one")
    return _RandomSource(inputs, samples, seed)
