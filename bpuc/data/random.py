"""Made-up samples, for a look at a model without data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bpuc.base.errors import DataError
from bpuc.data.source import DataSource, InputSpec


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
        return rng.uniform(-1, 1, spec.shape)
    return rng.integers(0, 2 if kind == "b" else 128, spec.shape)


def random_data(inputs: Sequence[InputSpec], samples: int = 8, seed: int = 0) -> DataSource:
    """Made-up samples. They do for placement and speed; thresholds from them say nothing about accuracy.

    Raises:
        DataError: `samples` is below 1.
    """
    if samples < 1:
        raise DataError(f"{samples} random samples were asked for", want="at least one")
    return RandomSource(inputs, samples, seed)
