"""Values of named tensors, wherever they were when they were computed."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from bpuc.isa import Instruction
from bpuc.program import Program, TensorSymbol
from bpuc.sim.engine import Array
from bpuc.sim.reference.memory import Memory


class Probe:
    """Follows all that is written, in an arena of its own, and keeps the tensors that are asked for.

    On chip a tensor may never stand as a whole. The plan of the arena lets every tensor of a group of stripes live
    through all of it, so that a copy of each written stripe at its arena address shows the tensor when it is complete.

    Raises:
        KeyError: a name is no tensor symbol of the program.
    """

    def __init__(self, program: Program, names: Collection[str]) -> None:
        symbols = {t.name: t for t in program.tensors}
        self._wanted: dict[int, list[TensorSymbol]] = {}
        for name in names:
            self._wanted.setdefault(symbols[name].at, []).append(symbols[name])
        self._program = program
        self._shadow = Memory(program.arena_bytes if names else 0, b"")
        self._done: set[int] = set()
        self._complete = 0
        self.seen: dict[str, Array] = {}

    def start(self, memory: Memory) -> None:
        """The inputs are in place."""
        self.seen = {}
        self._done.clear()
        self._complete = 0
        if self._wanted:
            self._shadow.reset()
            for port in self._program.inputs:
                self._shadow.view(port.ref)[...] = memory.view(port.ref)
            self._take(-1)

    def ran(self, memory: Memory, index: int, ins: Instruction, last: bool) -> None:
        """Instruction `index`, or the stripe `ins` of it, was carried out; `last`: nothing of it is left."""
        if not self._wanted:
            return
        for ref in ins.writes():
            self._shadow.view(ref)[...] = memory.view(ref)
        if last:
            self._done.add(index)
        while self._complete in self._done:
            self._take(self._complete)
            self._complete += 1

    def _take(self, at: int) -> None:
        for t in self._wanted.get(at, ()):
            self.seen[t.name] = np.array(self._shadow.view(t.ref), order="C")
