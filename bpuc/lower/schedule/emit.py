"""The steps of a planned segment: hold, load, run, store, drop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bpuc.isa import Instruction, Ref, Space
from bpuc.lower.schedule.layout import Group, Layout
from bpuc.lower.schedule.plan import SegmentPlanner
from bpuc.lower.schedule.room import Room
from bpuc.lower.schedule.rows import Rows
from bpuc.program.schedule import END, Do, Step, Window, stored_bytes


@dataclass
class Steps:
    """Collects windows and steps of the whole program; addresses are still virtual."""

    windows: list[Window] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def window(self, space: Space, lo: int, planes: int, rows: Rows, row_stored: int, at: int, room: int) -> int:
        self.windows.append(Window(space, lo, planes, rows.pitch, rows.row, row_stored, at, room))
        return len(self.windows) - 1

    def add(self, do: Do, what: int, ins: int, first: int = 0, last: int = 0) -> None:
        self.steps.append(Step(do, what, ins, first, last))

    def run(self, ins: int) -> None:
        """A whole instruction."""
        self.add(Do.RUN, -1, ins)


class SegmentSteps:
    """Writes the steps of one segment that a planner has laid out."""

    def __init__(self, planner: SegmentPlanner, layout: Layout, steps: Steps) -> None:
        self._planner, self._layout, self._steps = planner, layout, steps
        self._kept: dict[int, int] = {}  # window of each resident buffer
        self._constants = self._fetches()
        self._fetched: dict[int, list[int]] = {}  # windows of constants that are held, by unit

    def write(self) -> None:
        """All steps, in order."""
        units = self._layout.units
        for u, (first, stop) in enumerate(units):
            self._open(first, stop)
            self._fetch(u, now=u)
            if u + 1 < len(units):
                self._fetch(u + 1, now=u)
            group = self._layout.groups.get(u)
            if group is not None:
                self._stripes(u, group)
            else:
                self._single(u, first)
            self._close(u, first, stop)

    def _open(self, first: int, stop: int) -> None:
        for home in sorted(self._layout.resident):
            use = self._planner.uses[home]
            if first <= use.first < stop:
                whole = Rows(use.size, use.size)
                at = self._layout.resident[home]
                w = self._steps.window(Space.ARENA, home, 1, whole, use.stored, at, use.stored)
                self._kept[home] = w
                self._steps.add(Do.HOLD, w, use.first, 0, 1)
                if use.enters:
                    self._steps.add(Do.LOAD, w, use.first, 0, 1)

    def _close(self, u: int, first: int, stop: int) -> None:
        for home, w in list(self._kept.items()):
            use = self._planner.uses[home]
            written = max((t.ins for t in use.touches if t.write), default=-1)
            if use.leaves and first <= written < stop:
                self._steps.add(Do.STORE, w, written, 0, 1)
            if use.last < stop:
                self._steps.add(Do.DROP, w, use.last)
                del self._kept[home]
        for w in self._fetched.pop(u, ()):
            self._steps.add(Do.DROP, w, stop - 1)

    def _fetches(self) -> dict[int, list[tuple[int, int, Ref, int]]]:
        """By unit its constants that fit on chip: unit in which they are loaded, instruction, operand, address.

        Those of a group must fit, and come with its first stripe. Others come one unit ahead if there is room.
        """
        room = Room(self._planner.chip.constants, self._planner.chip.activations)
        found: dict[int, list[tuple[int, int, Ref, int]]] = {}
        units = self._layout.units
        for u in sorted(range(len(units)), key=lambda u: (u not in self._layout.groups, u)):
            grouped = u in self._layout.groups
            found[u] = []
            for ref, ins in constants(self._planner.instructions, *units[u]).items():
                lo, hi = ref.span
                for when in (u,) if grouped or not u else (u - 1, u):
                    at = room.place(hi - lo, when, u)
                    if at is not None:
                        found[u].append((when, ins, ref, at))
                        break
        return found

    def _fetch(self, u: int, now: int) -> None:
        """Load the constants of unit u that are due in unit `now`."""
        for when, ins, ref, at in self._constants[u]:
            if when == now:
                lo, hi = ref.span
                w = self._steps.window(Space.CONST, lo, 1, Rows(hi - lo, hi - lo), ref.nbytes, at, hi - lo)
                self._fetched.setdefault(u, []).append(w)
                self._steps.add(Do.HOLD, w, ins, 0, 1)
                self._steps.add(Do.LOAD, w, ins, 0, 1)

    def _stripes(self, u: int, group: Group) -> None:
        opened: dict[int, int] = {}
        for home, h in group.held.items():
            if home not in self._kept:
                at = self._layout.windows[u, home]
                opened[home] = self._steps.window(Space.ARENA, h.lo, h.planes, h.rows, h.row_stored, at, h.room)
        by_ins = {r.cut.ins: r.cut for row in group.plan for r in row}
        cuts = [by_ins[i] for i in sorted(by_ins)]
        reader = {a.home: c.ins for c in reversed(cuts) for a in c.accesses}
        writer = {a.home: c.ins for c in cuts for a in c.accesses if a.write}
        for t, runs in enumerate(group.plan):
            for home, w in opened.items():
                h = group.held[home]
                self._steps.add(Do.HOLD, w, reader[home], *h.held[t])
                if h.loads[t][1] > h.loads[t][0]:
                    self._steps.add(Do.LOAD, w, reader[home], *h.loads[t])
            for r in runs:
                self._steps.add(Do.RUN, r.cut.axis, r.cut.ins, r.first, END if r.last == r.cut.total else r.last)
            for home, w in opened.items():
                h = group.held[home]
                if h.stores[t][1] > h.stores[t][0]:
                    self._steps.add(Do.STORE, w, writer[home], *h.stores[t])
        for w in opened.values():
            self._steps.add(Do.DROP, w, group.stop - 1)

    def _single(self, u: int, i: int) -> None:
        ins = self._planner.instructions[i]
        loose = {
            n: r
            for n, r in ins.operands()
            if r.space is Space.ARENA and self._home(r) not in self._kept and 0 not in r.shape
        }
        reads = list(dict.fromkeys(r for n, r in loose.items() if n not in ins.outputs))
        writes = [r for n, r in loose.items() if n in ins.outputs]
        opened = self._whole(u, reads, writes) if _separate(reads, writes) else None
        if opened is None:
            fetched = len(self._constants[u]) == len(constants(self._planner.instructions, i, i + 1))
            group = self._planner.group(i, i + 1) if loose and fetched else None
            if group is not None and self._place(u, group):
                self._stripes(u, group)
            else:
                self._steps.run(i)
            return
        for n, w in enumerate(opened):
            self._steps.add(Do.HOLD, w, i, 0, 1)
            if n < len(reads):
                self._steps.add(Do.LOAD, w, i, 0, 1)
        self._steps.run(i)
        for w in opened[len(reads) :]:
            self._steps.add(Do.STORE, w, i, 0, 1)
        for w in opened:
            self._steps.add(Do.DROP, w, i)

    def _whole(self, u: int, reads: Sequence[Ref], writes: Sequence[Ref]) -> list[int] | None:
        """Windows for whole operands, None where they do not all fit."""
        placed = []
        for ref in (*reads, *writes):
            lo, hi = ref.span
            stored = stored_bytes(ref, self._planner.chip)
            at = self._layout.room.place(max(hi - lo, stored), u, u)
            if at is None:
                return None
            placed.append((lo, hi, stored, at))
        return [
            self._steps.window(Space.ARENA, lo, 1, Rows(hi - lo, hi - lo), stored, at, max(hi - lo, stored))
            for lo, hi, stored, at in placed
        ]

    def _place(self, u: int, group: Group) -> bool:
        for held in group.held.values():
            if held.home not in self._kept:
                at = self._layout.room.place(held.room, u, u)
                if at is None:
                    return False
                self._layout.windows[u, held.home] = at
        return True

    def _home(self, ref: Ref) -> int:
        return self._planner.memory.buffer(ref.address).start


def constants(instructions: Sequence[Instruction], first: int, stop: int) -> dict[Ref, int]:
    """Constant operands of instructions first..stop (excluded), each with the first that reads it."""
    found: dict[Ref, int] = {}
    for i in range(first, stop):
        for ref in instructions[i].reads():
            if ref.space is Space.CONST and 0 not in ref.shape:
                found.setdefault(ref, i)
    return found


def _separate(reads: Sequence[Ref], writes: Sequence[Ref]) -> bool:
    """Whether every result is dense and overlaps no operand, so that storing its window writes nothing else."""
    for y in writes:
        lo, hi = y.span
        if hi - lo != y.nbytes or any(a < hi and lo < b for a, b in (r.span for r in reads)):
            return False
    return True
