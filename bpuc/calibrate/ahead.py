"""Samples run ahead of the observers: onnxruntime computes the next ones while those at hand are looked at.

Every sample is run by one thread, several samples at a time. That costs less than a sample divided among threads, which
wait for each other in every layer. Results come in the order of the samples.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any

import numpy as np

from bpuc.execute.ort import FloatExecutor
from bpuc.ir import Graph

Array = np.ndarray[Any, np.dtype[Any]]
Sample = Mapping[str, Array]
Tensors = Iterator[tuple[str, Array]]
MOST_BYTES = 256 << 20  # of a graph's tensors, for samples to be run side by side: each has its own in memory


def run_samples(
    graph: Graph, taps: Sequence[str], samples: Iterable[Sample], count: int, threads: int | None
) -> Iterator[Tensors]:
    """The tapped tensors of every sample, as of `FloatExecutor.run`; each sample's are to be taken before the next's.

    Args:
        count: how many samples there are, about.
        threads: for all of it; None is one for each processor.

    Raises:
        DataError: as `FloatExecutor.run`, when the sample's turn comes.
    """
    lanes = min(threads or os.cpu_count() or 1, count)
    size = sum(t.elements * t.dtype.numpy.itemsize for op in graph for t in op.outputs)
    if lanes < 2 or size > MOST_BYTES:
        executor = FloatExecutor(graph, taps, threads)
        yield from (executor.run(sample) for sample in samples)
        return
    executor = FloatExecutor(graph, taps, 1)
    stream = iter(samples)
    with ThreadPoolExecutor(lanes) as pool:
        ahead = deque(_Run(pool, executor, sample) for sample in islice(stream, lanes))
        while ahead:
            run = ahead.popleft()
            ahead += (_Run(pool, executor, sample) for sample in islice(stream, 1))
            yield run.tensors()


class _Run:
    """One sample on its way: a part of its tensors is computed while the one before it is taken."""

    def __init__(self, pool: ThreadPoolExecutor, executor: FloatExecutor, sample: Sample):
        self._pool, self._parts = pool, executor.parts(sample)
        self._next = self._submit()

    def _submit(self) -> Future[Tensors | None]:
        return self._pool.submit(next, self._parts, None)

    def tensors(self) -> Tensors:
        """All of them, in order."""
        while (part := self._next.result()) is not None:
            self._next = self._submit()
            yield from part
