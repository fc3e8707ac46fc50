"""Calibration on a Dask cluster (extra `bpuc[dask]`); needs bpuc on every worker, but no common file system."""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, cast

from bpuc.base.errors import ConfigError
from bpuc.calibrate.parallel import ATTEMPTS, Answer, Block, Blocks, lost, see_block
from bpuc.calibrate.plan import Plan
from bpuc.calibrate.statistics import Statistics
from bpuc.execute.ort import FloatExecutor
from bpuc.ir import Graph


class DaskPool:
    """The workers of a cluster.

    Args:
        address: of its scheduler, as in tcp://host:8786.
        threads: of onnxruntime in each task.

    Raises:
        ConfigError: Dask is not installed, or nothing answers at the address.
    """

    def __init__(self, address: str, threads: int | None = None):
        try:
            import dask
            from distributed import Client
            from distributed.comm import get_address_host_port
        except ImportError as e:
            raise ConfigError("--scheduler needs Dask", hint="pip install 'bpuc[dask]'") from e
        # blocks of samples travel inside tasks, so that none is lost with a worker; that is what the warning is about
        dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GB"})
        self._threads = threads or 1
        self._client: Any
        try:
            cast(Any, get_address_host_port)(address)  # a client with an address that is none waits at exit
            self._client = cast(Any, Client)(address, timeout=10, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as e:
            raise ConfigError(
                f"there is no Dask scheduler at {address}: {e}", want="the address of a running one: tcp://HOST:PORT"
            ) from e

    def run(self, graph: Graph, plan: Plan, blocks: Blocks) -> Iterator[tuple[int, Statistics]]:
        """As `Pool.run`.

        Raises:
            BpucError: of the first sample at fault; or a block is lost every time.
        """
        waiting: deque[Block] = deque()
        futures: deque[Any] = deque()
        job: Any = None
        attempts = 0
        try:
            while True:
                size = 2 * max(1, sum(self._client.nthreads().values()))
                if job is None:
                    job = self._client.scatter((uuid.uuid4().hex, graph, plan, self._threads), hash=False)
                    futures = deque(self._submit(job, block) for block in waiting)
                for block in islice(blocks, max(0, size - len(waiting))):
                    waiting.append(block)
                    futures.append(self._submit(job, block))
                if not waiting:
                    return
                try:
                    answer = futures[0].result()
                except Exception as e:  # workers that were killed, data that went with them: Dask has many names
                    attempts += 1
                    if attempts == ATTEMPTS:
                        raise lost(waiting[0][0]) from e
                    job = None
                    continue
                if isinstance(answer, Exception):
                    raise answer
                futures.popleft()
                first, samples = waiting.popleft()
                attempts = 0
                yield first + len(samples), answer
        finally:
            self._client.cancel(list(futures), force=True)
            self._client.close()

    def _submit(self, job: Any, block: Block) -> Any:
        return self._client.submit(_see, job, block, pure=False)


_lock = threading.Lock()
_executors: dict[str, FloatExecutor] = {}


def _see(job: tuple[str, Graph, Plan, int], block: Block) -> Answer:
    """On a worker: one session serves all blocks of a calibration."""
    token, graph, plan, threads = job

    def executor() -> FloatExecutor:
        with _lock:
            if token not in _executors:
                _executors.clear()
                _executors[token] = FloatExecutor(graph, plan.taps, threads)
            return _executors[token]

    return see_block(executor, plan, block)
