"""Buffers seen as rows of planes, and which rows of its operands an instruction touches stripe by stripe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bpuc.isa import Conv, Instruction, MatMul, Move, Pool, Ref, Space
from bpuc.isa.tiling import rows_seen, stripe_axis
from bpuc.lower.memory import VirtualMemory


@dataclass(frozen=True)
class Rows:
    """A buffer as planes of `pitch` bytes, each with rows of `row` bytes."""

    pitch: int
    row: int

    @property
    def count(self) -> int:
        return self.pitch // self.row


@dataclass(frozen=True)
class Access:
    """Rows of a buffer that indices first..last of an instruction touch: offset + step * index, and `extent` of them.

    window: the convolution or pool through whose windows they are seen.
    """

    home: int
    ref: Ref
    write: bool
    offset: int
    step: int
    extent: int
    window: Conv | Pool | None = None

    def rows(self, first: int, last: int) -> tuple[int, int]:
        if self.window is not None:
            begin, end = rows_seen(self.window, first, last)
            return self.offset + max(begin, 0), self.offset + min(end, self.window.x.shape[2])
        return self.offset + self.step * first, self.offset + self.step * (last - 1) + self.extent

    def index(self, rows: int, total: int) -> int:
        """How many indices must be done for the buffer's rows below `rows` to be written."""
        if self.step == 0:
            return total
        return min(total, max(0, -(-(rows - self.offset) // self.step)))


@dataclass(frozen=True)
class Cut:
    """An instruction in a group of stripes: its axis, the extent of that, and its accesses to the arena."""

    ins: int
    axis: int
    total: int
    accesses: tuple[Access, ...]


def cuts(
    instructions: Sequence[Instruction], first: int, stop: int, memory: VirtualMemory
) -> tuple[list[Cut], Mapping[int, Rows]] | None:
    """How instructions first..stop are cut together, and the rows of the buffers; None where they cannot be."""
    geometry = _geometry(instructions, first, stop, memory)
    if geometry is None:
        return None
    found = []
    for i in range(first, stop):
        cut = _cut(i, instructions[i], memory, geometry)
        if cut is None:
            return None
        found.append(cut)
    return found, geometry


def _geometry(
    instructions: Sequence[Instruction], first: int, stop: int, memory: VirtualMemory
) -> dict[int, Rows] | None:
    """Rows of each buffer, from the instructions that are cut along a known axis; None where two disagree."""
    found: dict[int, Rows] = {}
    for ins in instructions[first:stop]:
        if isinstance(ins, Move):
            continue
        axis = stripe_axis(ins)
        if axis is None:
            return None
        for at, ref in _along(ins, axis):
            rows = _rows(ref, at)
            home = memory.buffer(ref.address).start
            if rows is None or found.setdefault(home, rows) != rows:
                return None
    return found


def _along(ins: Instruction, axis: int) -> list[tuple[int, Ref]]:
    """The operands in the arena that are cut, each with its own number of the axis."""
    rank = len(ins.writes()[0].shape)
    cut = []
    for name, ref in ins.operands():
        at = axis - rank + len(ref.shape)
        whole = isinstance(ins, MatMul) and name == "b"
        if ref.space is Space.ARENA and not whole and at >= 0 and ref.shape[at] > 1:
            cut.append((at, ref))
    return cut


def _rows(ref: Ref, at: int) -> Rows | None:
    """Rows along axis `at`: an axis of smaller steps must lie within a row, one of larger steps go by whole planes."""
    row = ref.strides[at]
    others = [(d, s) for a, (d, s) in enumerate(zip(ref.shape, ref.strides)) if a != at and d > 1]
    inner = sum((d - 1) * s for d, s in others if s < row) + ref.dtype.itemsize
    outer = [s for _, s in others if s >= row]
    pitch = min(outer, default=ref.shape[at] * row)
    if row < inner or pitch < ref.shape[at] * row or pitch % row or any(s % pitch for s in outer):
        return None
    return Rows(pitch, row)


def _cut(i: int, ins: Instruction, memory: VirtualMemory, geometry: Mapping[int, Rows]) -> Cut | None:
    axis = stripe_axis(ins)
    if isinstance(ins, Move):
        rows = geometry.get(memory.buffer(ins.y.address).start)
        fit = [
            a
            for a, (d, s) in enumerate(zip(ins.y.shape, ins.y.strides))
            if rows and d > 1 and not s % rows.row and s < rows.pitch
        ]
        axis = max(fit, key=lambda a: ins.y.strides[a], default=None)
    if axis is None:
        return None
    y = ins.writes()[0]
    accesses = []
    for name, ref in ins.operands():
        if ref.space is not Space.ARENA:
            continue
        access = _access(ins, name, ref, axis - len(y.shape) + len(ref.shape), memory, geometry)
        if access is None:
            return None
        accesses.append(access)
    return Cut(i, axis, y.shape[axis], tuple(accesses))


def _access(
    ins: Instruction, name: str, ref: Ref, at: int, memory: VirtualMemory, geometry: Mapping[int, Rows]
) -> Access | None:
    home, write = memory.buffer(ref.address).start, name in ins.outputs
    rows = geometry.get(home)
    whole = at < 0 or ref.shape[at] == 1 or (isinstance(ins, MatMul) and name == "b")
    if rows is None:  # no instruction cuts it: it is one row
        return Access(home, ref, write, 0, 0, 1) if whole or isinstance(ins, Move) else None
    if not whole and isinstance(ins, (Conv, Pool)) and name == "x":
        return Access(home, ref, write, (ref.address - home) % rows.pitch // rows.row, 0, 0, ins)
    offset = (ref.address - home) % rows.pitch
    step = 0 if whole else ref.strides[at]
    extent = ref.dtype.itemsize
    for a, (d, s) in enumerate(zip(ref.shape, ref.strides)):
        if d > 1 and s % rows.pitch and not (a == at and not whole):
            if s < 0:
                return None
            extent += (d - 1) * s
    reach = offset + extent + (0 if whole else (ref.shape[at] - 1) * step)
    if step % rows.row or step < 0 or reach > rows.pitch:
        return None
    return Access(home, ref, write, offset // rows.row, step // rows.row, -(-(offset % rows.row + extent) // rows.row))
