"""Calibration by several processes: blocks of samples go out, what observers saw of them comes back, in order.

This process reads the data; the others run the float graph. A few blocks are under way at a time, so memory does not
grow with the number of samples. A block whose process was lost is sent out again.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, Protocol

import numpy as np

from bpuc.base.errors import BpucError
from bpuc.calibrate.plan import Plan
from bpuc.calibrate.statistics import BLOCK, Statistics
from bpuc.execute.ort import FloatExecutor
from bpuc.ir import Graph

Sample = Mapping[str, np.ndarray[Any, np.dtype[Any]]]
# number of the first sample, samples
Block = tuple[int, list[Sample]]
Blocks = Iterator[Block]
ATTEMPTS = 3  # for a block whose process was lost


class Pool(Protocol):
    """Processes that run the float graph."""

    def run(self, graph: Graph, plan: Plan, blocks: Blocks) -> Iterator[tuple[int, Statistics]]:
        """What was seen of each block, in order, each with the number of the sample after it."""


def in_blocks(samples: Iterable[Sample], first: int) -> Blocks:
    """The samples, the first of which has the number `first`, in blocks."""
    stream = iter(samples)
    while block := list(islice(stream, BLOCK)):
        yield first, block
        first += len(block)


def see_block(executor: FloatExecutor, plan: Plan, block: Block) -> Statistics | BpucError:
    """What observers see of a block; faults are returned, as they would lose their parts on the way as exceptions."""
    first, samples = block
    statistics = Statistics(plan)
    try:
        for number, sample in enumerate(samples, first):
            statistics.see(number, executor.run(sample))
    except BpucError as e:
        e.__cause__ = None
        return e
    statistics.close()
    return statistics


class LocalPool:
    """Processes of this machine.

    Args:
        workers: how many.
        threads: of onnxruntime in each; None divides the processors among them.
    """

    def __init__(self, workers: int, threads: int | None = None):
        self._workers = workers
        self._threads = threads or max(1, multiprocessing.cpu_count() // workers)

    def run(self, graph: Graph, plan: Plan, blocks: Blocks) -> Iterator[tuple[int, Statistics]]:
        """As `Pool.run`.

        Raises:
            BpucError: of the first sample at fault; or a block cost its process every time.
        """
        waiting: deque[Block] = deque()
        attempts = 0
        while True:
            pool = ProcessPoolExecutor(
                self._workers,
                # a process that copies this one's threads' locks could stop for ever
                multiprocessing.get_context("spawn"),
                _begin,
                (graph, plan, self._threads),
            )
            try:
                futures = deque(pool.submit(_see, block) for block in waiting)
                while True:
                    for block in islice(blocks, 2 * self._workers - len(waiting)):
                        waiting.append(block)
                        futures.append(pool.submit(_see, block))
                    if not waiting:
                        return
                    answer = futures[0].result()
                    if isinstance(answer, BpucError):
                        raise answer
                    futures.popleft()
                    first, samples = waiting.popleft()
                    attempts = 0
                    yield first + len(samples), answer
            except BrokenProcessPool:
                attempts += 1
                if attempts == ATTEMPTS:
                    raise lost(waiting[0][0] if waiting else 0) from None
            finally:
                pool.shutdown(cancel_futures=True)


def lost(first: int) -> BpucError:
    """The error where a block costs its process again and again."""
    return BpucError(
        f"the processes that run samples from number {first} on end before they answer ({ATTEMPTS} times)",
        hint="memory may be short: use fewer --workers, or --resume with one",
    )


_job: tuple[FloatExecutor, Plan] | None = None


def _begin(graph: Graph, plan: Plan, threads: int) -> None:
    global _job
    _job = FloatExecutor(graph, plan.taps, threads), plan


def _see(block: Block) -> Statistics | BpucError:
    assert _job is not None
    return see_block(*_job, block)
