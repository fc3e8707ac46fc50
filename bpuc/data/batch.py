"""Samples joined to batches, and batches taken apart into one input a sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice

import numpy as np

from bpuc.data.source import DataSource, InputSpec, Sample


class BatchedSource(DataSource):
    """Every `size` samples of a source as one; the last one is filled up with the first samples again."""

    def __init__(self, source: DataSource, inputs: Sequence[InputSpec], size: int):
        super().__init__(inputs, source.where, -(-source.samples // size), source.warnings)
        self._source, self._size = source, size

    def _read(self) -> Iterator[Sample]:
        first: list[Sample] = []
        frames: list[Sample] = []
        for sample in self._source:
            first += [sample] if len(first) < self._size else []
            frames.append(sample)
            if len(frames) == self._size:
                yield self._joined(frames)
                frames = []
        if frames:
            again = chain.from_iterable(iter(lambda: first, None))
            yield self._joined([*frames, *islice(again, self._size - len(frames))])

    def _joined(self, frames: Sequence[Sample]) -> Sample:
        return {s.name: np.concatenate([f[s.name] for f in frames]).reshape(s.shape) for s in self.inputs}


class SeparateSource(DataSource):
    """A source with some inputs in parts.

    Args:
        parts: input -> names of the inputs that its samples become, along its first axis.
    """

    def __init__(self, source: DataSource, inputs: Sequence[InputSpec], parts: Mapping[str, Sequence[str]]):
        super().__init__(inputs, source.where, source.samples, source.warnings)
        self._source, self._parts = source, parts

    def _read(self) -> Iterator[Sample]:
        for sample in self._source:
            out: Sample = {}
            for name, array in sample.items():
                names = self._parts.get(name, (name,))
                out |= zip(names, np.split(array, len(names)) if len(names) > 1 else [array])
            yield out
