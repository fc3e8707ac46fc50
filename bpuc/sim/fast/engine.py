"""The fast engine: a program turned into a list of steps once, then run sample after sample."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NoReturn

import numpy as np

from bpuc.base.errors import FileError
from bpuc.isa import CallOnnx
from bpuc.program import Program
from bpuc.program.check import check_bounds
from bpuc.sim.cpu import PartRunner
from bpuc.sim.engine import Array
from bpuc.sim.fast.graph import Graph
from bpuc.sim.fast.kernels import MAKERS
from bpuc.sim.fast.plans import Plan, plan
from bpuc.sim.fast.storage import Access, Late, resolve

_FAULTS = (ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError, KeyError)
Step = Callable[[], None]


class FastEngine:
    """What `ReferenceEngine` computes, sooner; see `bpuc.sim.engine.Engine`.

    Args:
        program: decoded; instructions may have been edited since.
        threads: within one operation; None for all cores. The integers do not depend on it.
        tensors: names of tensor symbols whose values `run` returns too.

    Raises:
        KeyError: a name in `tensors` is no tensor symbol.
        FileError: an operand lies outside its memory.
    """

    def __init__(self, program: Program, threads: int | None = None, tensors: Collection[str] = ()):
        check_bounds(program, "the program")
        self._program = program
        self._parts = PartRunner(program.parts, threads)
        self._storage = resolve(program, tensors)
        self._dirty = [b for b in self._storage.buffers if b.dirty]
        self._threads = threads or os.cpu_count() or 1
        self._readers = self._count_readers()
        self._steps = list(self._plan())

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """One inference; see `Engine.run`."""
        storage = self._storage
        for buffer in self._dirty:
            buffer.reset()
        for name, operand in storage.feeds.items():
            operand.store(np.asarray(feeds[name]).reshape(operand.ref.shape))
        seen = self._tap(-1)
        for start, stop, step in self._steps:
            try:
                step()
            except _FAULTS as e:
                self._fail(start, e)
            for at in range(start, stop) if storage.taps else ():
                seen |= self._tap(at)
        shapes = {p.name: p.shape for p in self._program.outputs}
        outputs = {n: np.array(o.load(), order="C").reshape(shapes[n]) for n, o in storage.outputs.items()}
        return outputs | seen

    def _tap(self, at: int) -> dict[str, Array]:
        return {name: np.array(o.load(), order="C") for name, o in self._storage.taps.get(at, ())}

    def _count_readers(self) -> dict[int, set[int]]:
        """By number of a write, the instructions that read it; -1 stands for outputs and taps."""
        readers: dict[int, set[int]] = {}
        for a in self._storage.accesses:
            for o in a.reads:
                for s in o.sources:
                    readers.setdefault(s, set()).add(a.at)
        taps = [o for row in self._storage.taps.values() for _, o in row]
        for o in (*self._storage.outputs.values(), *taps):
            for s in o.sources:
                readers.setdefault(s, set()).add(-1)
        return readers

    def _plan(self) -> Iterator[tuple[int, int, Step]]:
        """Steps with the range of instructions that each carries out, runs of planned ones in one session."""
        graph, start = Graph(), 0
        for a in self._storage.accesses:
            emit = self._try_plan(a)
            if not graph.empty and (emit is None or not graph.takes(a.reads, a.writes)):
                yield start, a.at, self._session(graph, start, a.at)
                graph = Graph()
            if emit is None:
                yield a.at, a.at + 1, self._step(a)
                continue
            if graph.empty:
                start = a.at
            emit(graph)
            graph.watch([o for _, o in self._storage.taps.get(a.at, ())])
        if not graph.empty:
            end = len(self._storage.accesses)
            yield start, end, self._session(graph, start, end)

    def _try_plan(self, a: Access) -> Plan | None:
        try:
            return plan(a)
        except (ValueError, IndexError):  # operands that do not fit together: the kernel says so when it runs
            return None

    def _session(self, graph: Graph, start: int, stop: int) -> Step:
        inside = set(range(start, stop))
        wanted = {n for n in graph.made() if self._readers.get(n, set()) - inside}
        return graph.session(self._threads, wanted)

    def _step(self, a: Access) -> Step:
        if isinstance(a.ins, CallOnnx):
            return self._call(a.ins, a)
        make = MAKERS[type(a.ins)]
        try:
            return make(a.ins, a)
        except Late:
            now = Access(a.at, a.ins, a.operands, running=True)
            return lambda: make(now.ins, now)()
        except _FAULTS as e:
            fault = e  # as in the reference, an impossible instruction is an error when it is reached
            return lambda: self._fail(a.at, fault)

    def _call(self, ins: CallOnnx, a: Access) -> Step:
        inputs, results = a.operands.get("inputs", []), a.operands.get("results", [])

        def run() -> None:
            values = self._parts.run(ins.part, [np.array(o.load(), order="C") for o in inputs])
            for operand, value in zip(results, values, strict=True):
                operand.store(value)

        return run

    def _fail(self, at: int, e: Exception) -> NoReturn:
        op = self._program.ops[self._program.instructions[at].op]
        raise FileError(
            f"instruction {at} ({type(self._program.instructions[at]).__name__}) cannot be carried out: {e}",
            where=f"{op.op} '{op.name}'",
            hint="if the file comes from `bpuc compile`, this is a bug of bpuc: please report it",
        ) from e
