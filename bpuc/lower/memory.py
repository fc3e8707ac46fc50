"""The arena's plan: buffers whose lifetimes do not meet may share bytes.

Lowering gives every buffer a virtual address of its own; here they get real ones. Lifetimes come from the instructions
themselves, so the plan cannot forget a reader.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bpuc.isa import Instruction, Ref, Space

ALIGN = 64


def aligned(n: int) -> int:
    """`n` rounded up to the alignment of a buffer."""
    return -(-n // ALIGN) * ALIGN


@dataclass
class Buffer:
    """A stretch of virtual memory, and once planned of the arena. first, last: instruction indices of its life."""

    start: int
    size: int
    first: int = -1
    last: int = -1
    address: int = 0


class VirtualMemory:
    """Hands out virtual addresses, then maps them to planned ones."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self._starts: list[int] = []
        self._end = 0

    def allocate(self, size: int) -> int:
        """Virtual address of a new buffer of `size` bytes."""
        start = self._end
        self.buffers.append(Buffer(start, aligned(max(size, 1))))
        self._starts.append(start)
        self._end += self.buffers[-1].size
        return start

    def buffer(self, address: int) -> Buffer:
        """The buffer that a virtual address lies in."""
        return self.buffers[bisect.bisect_right(self._starts, address) - 1]

    def plan(
        self,
        instructions: Sequence[Instruction],
        inputs: Sequence[Ref],
        outputs: Sequence[Ref],
        together: Sequence[tuple[int, int]] = (),
    ) -> int:
        """Give every buffer its address; inputs live from the start, outputs to the end.

        Args:
            together: groups of instructions, first to stop (excluded), that overlap in time: what one of a group
                touches lives through all of it.

        Returns:
            bytes of the arena.
        """
        for index, ins in enumerate(instructions):
            for _, ref in ins.operands():
                if ref.space is Space.ARENA:
                    b = self.buffer(ref.address)
                    b.first = index if b.first < 0 else b.first
                    b.last = index
        for first, stop in together:
            for b in self.buffers:
                b.first = first if first <= b.first < stop else b.first
                b.last = stop - 1 if first <= b.last < stop else b.last
        for ref in inputs:
            b = self.buffer(ref.address)
            b.first, b.last = 0, max(b.last, 0)
        for ref in outputs:
            self.buffer(ref.address).last = len(instructions)
        return place([b for b in self.buffers if b.first >= 0 or b.last >= 0])

    def real(self, ref: Ref) -> Ref:
        """The same view at its planned address."""
        if ref.space is not Space.ARENA:
            return ref
        b = self.buffer(ref.address)
        return replace(ref, address=b.address + ref.address - b.start)

    def relocate(self, ins: Instruction) -> Instruction:
        """The same instruction on planned addresses."""
        changed: dict[str, Any] = {}
        for name, _ in ins.operands():
            value = getattr(ins, name)
            changed[name] = tuple(map(self.real, value)) if isinstance(value, tuple) else self.real(value)
        return replace(ins, **changed)


def place(buffers: list[Buffer]) -> int:
    """Greedy by size: each buffer takes the lowest gap among those whose lifetimes meet its own.

    Returns:
        end of the highest buffer.
    """
    placed: list[Buffer] = []
    end = 0
    for b in sorted(buffers, key=lambda b: (-b.size, b.first, b.start)):
        at = 0
        for other in placed:  # kept sorted by address
            if other.first <= b.last and b.first <= other.last:
                if other.address - at >= b.size:
                    break
                at = max(at, other.address + other.size)
        b.address = at
        bisect.insort(placed, b, key=lambda p: p.address)
        end = max(end, at + b.size)
    return end
