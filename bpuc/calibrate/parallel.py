"""Calibration by several processes: blocks of samples go out, what observers saw of them comes back, in order.

This process reads the data; the others run the float graph. A few blocks are under way at a time, so memory does not
grow with the number of samples. A block whose process was lost is sent out again.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from itertools import islice
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol, cast

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
Answer = Statistics | Exception
_POLITE = (signal.SIGINT, signal.SIGTERM)
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


def see_block(executor: Callable[[], FloatExecutor], plan: Plan, block: Block) -> Answer:
    """What observers see of a block; faults are returned, for the process that waits to raise them."""
    first, samples = block
    try:
        statistics = Statistics(plan)
        for number, sample in enumerate(samples, first):
            statistics.see(number, executor().run(sample))
    except BpucError as e:
        e.__cause__ = None
        return e
    except Exception:
        return RuntimeError(f"in another process: {traceback.format_exc()}")
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
        workers: list[_Worker] = []
        order: deque[int] = deque()  # first samples of the blocks that are out, or answered and not yet their turn
        done: dict[int, tuple[int, Answer]] = {}
        try:
            while True:
                for i in range(self._workers):
                    if len(order) < 2 * self._workers and (i == len(workers) or workers[i].block is None):
                        block = next(blocks, None)
                        if block is None:
                            break
                        if i == len(workers):
                            workers.append(_Worker(graph, plan, self._threads))
                        order.append(block[0])
                        workers[i].give(block)
                if not order:
                    return
                while order and order[0] in done:
                    end, answer = done.pop(order.popleft())
                    if isinstance(answer, Exception):
                        raise answer
                    yield end, answer
                busy = {w.connection: w for w in workers if w.block is not None}
                for connection in wait([*busy]) if busy else ():
                    (first, samples), seen = busy[cast(Any, connection)].take()
                    if seen is not None:
                        done[first] = first + len(samples), seen
        finally:
            for worker in workers:
                worker.end()


class _Worker:
    """A process and what it is doing; a new one in its place where it ends before it answers."""

    def __init__(self, graph: Graph, plan: Plan, threads: int):
        self._job = (graph, plan, threads)
        self._attempts = 0
        self.block: Block | None = None
        self._start()

    def _start(self) -> None:
        # a copy of this process would hold its locks for ever
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        # the job goes through the connection: what a process starts with must not be cut off where this one is ended
        self._process = context.Process(target=_work, args=(theirs,), daemon=True)
        with _held():
            self._process.start()
        theirs.close()
        with suppress(OSError):
            self.connection.send(self._job)

    def give(self, block: Block) -> None:
        """Let it begin with a block."""
        self.block = block
        # where it has ended, `take` sees it
        with suppress(OSError):
            self.connection.send(block)

    def take(self) -> tuple[Block, Answer | None]:
        """The block and the answer; no answer where the process was lost, and another one began the block again."""
        block = self.block
        assert block is not None
        try:
            answer = self.connection.recv()
        except (EOFError, OSError):
            self._attempts += 1
            if self._attempts == ATTEMPTS:
                raise lost(block[0]) from None
            self.end()
            self._start()
            self.give(block)
            return block, None
        self.block, self._attempts = None, 0
        return block, answer

    def end(self) -> None:
        self.connection.close()
        self._process.kill()
        self._process.join()


@contextmanager
def _held() -> Iterator[None]:
    """Interrupts and polite kills wait until a process has been started, which begins with both of them held too."""
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # which lets signals through again, where it has to be started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _POLITE)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that reads the data ends this one
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _POLITE)
    # gone with the process at the other end, in the middle of a message as well
    with suppress(EOFError, OSError):
        graph, plan, threads = connection.recv()
        executor = cache(lambda: FloatExecutor(graph, plan.taps, threads))
        while True:
            connection.send(see_block(executor, plan, connection.recv()))


def lost(first: int) -> BpucError:
    """The error where a block costs its process again and again."""
    return BpucError(
        f"the processes that run samples from number {first} on end before they answer ({ATTEMPTS} times)",
        hint="memory may be short: use fewer --workers, or --resume with one",
    )
