"""Made-up samples, for a look at a model without data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bpuc.base.errors import DataError
from bpuc.data.source import DataSource, InputSpec

ELEMENTS = 1 << 25  # of all samples: a second or two to make and to look at
PIECE = 1 << 20  # elements made at a time: they are made as doubles


class RandomSource(DataSource):
    """Floats even in [-1, 1), integers even in 0..127, the same for the same seed."""

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
        array = np.empty(spec.shape, np.float32)
        flat = array.reshape(-1)
        for start in range(0, flat.size, PIECE):
            piece = flat[start : start + PIECE]
            piece[:] = rng.uniform(-1, 1, piece.size)
        return array
    return rng.integers(0, 2 if kind == "b" else 128, spec.shape)


def random_data(inputs: Sequence[InputSpec], samples: int | None = None, seed: int = 0) -> DataSource:
    """Made-up samples. They do for placement and speed; thresholds from them say nothing about accuracy.

    Args:
        inputs: of the model.
        samples: how many; else 8, fewer where they would have more than `ELEMENTS` elements together.
        seed: other samples for another one.

    Raises:
        DataError: `samples` is below 1.
    """
    if samples is None:
        size = sum(math.prod(s.shape) for s in inputs)
        samples = max(1, min(8, ELEMENTS // max(1, size)))
    if samples < 1:
        raise DataError(f"{samples} random samples were asked for", want="at least one")
    return RandomSource(inputs, samples, seed)
