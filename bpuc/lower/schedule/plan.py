"""What of a BPU segment stays on chip, and which of its instructions go stripe by stripe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bpuc.isa import Instruction, Space
from bpuc.lower.memory import VirtualMemory
from bpuc.lower.schedule.layout import Group, Layout, Placement
from bpuc.lower.schedule.rows import Rows, cuts
from bpuc.lower.schedule.stripes import Held, accesses_of, held_rows, runs_of
from bpuc.lower.schedule.uses import Use
from bpuc.program.schedule import Chip

STRIPES = (2, 4, 8, 16, 32, 64)
LONGEST = 24  # instructions of a group at most
TRIES = 48  # groups tried in a segment at most
# ranges around a buffer: whether groups that it touches join it, and instructions more before and behind it
WIDER = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 2, 0), (0, 2, 2), (1, 4, 4))


class SegmentPlanner:
    """Plans instructions start..stop of one segment; uses: its buffers."""

    def __init__(
        self,
        instructions: Sequence[Instruction],
        memory: VirtualMemory,
        uses: Mapping[int, Use],
        start: int,
        stop: int,
        chip: Chip,
    ) -> None:
        self.instructions, self.memory, self.uses, self.chip = instructions, memory, uses, chip
        self.start, self.stop = start, stop
        self._groups: dict[tuple[int, int], Group | None] = {}

    def plan(self, level: int) -> Layout:
        """The layout with least traffic that a level finds: -O0 keeps nothing, -O1 whole tensors, -O2 groups too."""
        layout = self.lay_out([], keep=level > 0)
        assert layout is not None, "without groups nothing has to fit"
        if level < 2:
            return layout
        ranges: list[tuple[int, int]] = []
        tried: set[tuple[int, int]] = set()
        for wider, tries in ((WIDER[:2], TRIES), (WIDER, TRIES // 2)):
            for _ in range(tries):
                span = next((s for s in self._proposals(layout, ranges, wider) if s not in tried), None)
                if span is None:
                    break
                tried.add(span)
                kept = [r for r in ranges if r[1] <= span[0] or span[1] <= r[0]]
                other = self.lay_out([*kept, span], keep=True) if self.group(*span) else None
                if other is not None and other.traffic < layout.traffic:
                    layout, ranges = other, [*kept, span]
        return layout

    def _proposals(
        self, layout: Layout, ranges: Sequence[tuple[int, int]], wider: Sequence[tuple[int, int, int]]
    ) -> list[tuple[int, int]]:
        """Ranges that would keep a buffer which now goes through DDR between its writer and readers, largest first."""
        found: dict[tuple[int, int], int] = {}
        for use in self.uses.values():
            if use.start in layout.resident or use.first == use.last:
                continue
            for touching, before, behind in wider:
                first, stop = max(use.first - before, self.start), min(use.last + 1 + behind, self.stop)
                for a, b in sorted(ranges):
                    if a < stop + touching and first < b + touching:
                        first, stop = min(a, first), max(b, stop)
                if stop - first <= LONGEST and (first, stop) not in ranges:
                    found[first, stop] = max(found.get((first, stop), 0), use.stored)
        return sorted(found, key=lambda s: (-found[s], s))

    def group(self, first: int, stop: int) -> Group | None:
        """A group with the fewest stripes that leave most of the memory to others; None where there can be none."""
        if (first, stop) not in self._groups:
            self._groups[first, stop] = self._make_group(first, stop)
        return self._groups[first, stop]

    def _make_group(self, first: int, stop: int) -> Group | None:
        constants = {r for i in self.instructions[first:stop] for r in i.reads() if r.space is Space.CONST}
        if sum(r.nbytes + 64 for r in constants) > self.chip.constants:
            return None
        cut = cuts(self.instructions, first, stop, self.memory)
        if cut is None:
            return None
        group, rows = cut
        best: tuple[int, Group] | None = None
        most = max(c.total for c in group)
        sizes: dict[int, int] = {}
        for a in (a for c in group for a in c.accesses):
            sizes[a.home] = max(sizes.get(a.home, 0), a.ref.nbytes)
        # a window is at least the mean of a buffer's parts: with fewer stripes than this they cannot fit
        least = -(-sum(sizes.values()) // max(self.chip.activations, 1))
        for stripes in (s for s in STRIPES if least <= s <= most):
            plan = runs_of(group, self.uses, stripes)
            held: dict[int, Held] = {}
            for home, accesses in sorted(accesses_of(plan).items()):
                use = self.uses[home]
                one = held_rows(accesses, rows.get(home, Rows(use.size, use.size)), use, (first, stop))
                if one is None:
                    return None
                held[home] = one
            need = sum(h.room for h in held.values())
            if best is None or need < best[0]:
                best = need, Group(first, stop, plan, held)
            if need <= self.chip.activations // 4:
                break
        return best[1] if best is not None and best[0] <= self.chip.activations else None

    def lay_out(self, ranges: Sequence[tuple[int, int]], keep: bool) -> Layout | None:
        """The segment with these ranges as groups; keep: let buffers stay on chip. None where windows do not fit."""
        starts = dict(ranges)
        units = list[tuple[int, int]]()
        groups = dict[int, Group]()
        at = self.start
        while at < self.stop:
            stop = starts.get(at, at + 1)
            if at in starts:
                group = self.group(at, stop)
                assert group is not None
                groups[len(units)] = group
            units.append((at, stop))
            at = stop
        return Placement(units, groups, self.uses, self.chip.activations).layout(keep)
