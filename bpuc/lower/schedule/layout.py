"""Where the buffers of a segment are: whole on chip, in windows of the groups that touch them, or in DDR.

First come amounts, then addresses. Windows of groups have to fit. Buffers then stay whole, in the order of the traffic
that they save for the bytes and the time that they take, while the sum of what is held at any moment stays within the
memory. At last the largest get their addresses first; what then meets no gap goes through DDR.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bpuc.lower.schedule.room import ALIGN, Room
from bpuc.lower.schedule.stripes import Held, Run
from bpuc.lower.schedule.uses import Use


@dataclass(frozen=True)
class Group:
    """Instructions first..stop in stripes; held: windows of all buffers that they touch, by buffer."""

    first: int
    stop: int
    plan: Sequence[Sequence[Run]]
    held: Mapping[int, Held]

    @property
    def stripes(self) -> int:
        return len(self.plan)


@dataclass
class Layout:
    """One way to carry out a segment. resident, windows: address on chip; units: instructions first..stop in order."""

    units: list[tuple[int, int]]
    groups: Mapping[int, Group]  # by unit
    room: Room
    resident: dict[int, int] = field(default_factory=dict)
    windows: dict[tuple[int, int], int] = field(default_factory=dict)  # by unit and buffer
    traffic: int = 0


class Placement:
    """Lays out units of which some are groups; moments are units. size: bytes of the memory."""

    def __init__(
        self, units: list[tuple[int, int]], groups: Mapping[int, Group], uses: Mapping[int, Use], size: int
    ) -> None:
        self.units, self.groups, self.uses, self.size = units, groups, uses, size
        self._unit = {i: u for u, (a, b) in enumerate(units) for i in range(a, b)}
        self._streams = {h: self._streamed(h) for h in uses}
        inner = {h for g in groups.values() for h in g.held if self._inside(h, g)}
        saved = {h: self._streams[h] - uses[h].passing for h in uses if h not in inner}
        worth = {h: saved[h] / (self._span(h) * uses[h].stored) for h in saved if saved[h] > 0}
        self._wanted = sorted(worth, key=lambda h: (-worth[h], h))

    def layout(self, keep: bool) -> Layout | None:
        """The layout; keep: let buffers stay whole. None where the windows of a group do not fit."""
        kept: set[int] = set()
        if keep:
            for _ in range(2 if self.groups else 1):  # again, without windows for what turned out to fit
                more = self._choose(kept)
                if more is None:
                    return None
                kept = more
        return self._assign(kept)

    def _choose(self, kept: set[int]) -> set[int] | None:
        """Buffers that stay whole, among them those already known to."""
        free = [self.size] * len(self.units)
        for u, g in self.groups.items():
            free[u] -= sum(_aligned(h.room) for h in g.held.values() if h.home not in kept)
        chosen = set[int]()
        for home in [h for h in self._wanted if h in kept] + [h for h in self._wanted if h not in kept]:
            use, n = self.uses[home], _aligned(self.uses[home].stored)
            when = range(self._unit[use.first], self._unit[use.last] + 1)
            if all(free[u] >= n for u in when):
                chosen.add(home)
                for u in when:
                    free[u] -= n
        return chosen if min(free, default=0) >= 0 else None

    def _assign(self, kept: set[int]) -> Layout | None:
        layout = Layout(self.units, self.groups, Room(self.size))
        items = [(self.uses[h].stored, self._unit[self.uses[h].first], self._unit[self.uses[h].last], h) for h in kept]
        items += [(h.room, u, u, h.home) for u, g in self.groups.items() for h in g.held.values() if h.home not in kept]
        for size, first, last, home in sorted(items, key=lambda i: (-i[0], i[1:])):
            at = layout.room.place(size, first, last)
            if at is not None and home in kept:
                layout.resident[home] = at
            elif at is not None:
                layout.windows[first, home] = at
            elif home not in kept or any(
                home in self.groups[u].held for u in range(first, last + 1) if u in self.groups
            ):
                return None
        layout.traffic = sum(u.passing if h in layout.resident else self._streams[h] for h, u in self.uses.items())
        return layout

    def _inside(self, home: int, group: Group) -> bool:
        use = self.uses[home]
        return group.first <= use.first and use.last < group.stop and not use.passing

    def _span(self, home: int) -> int:
        return self._unit[self.uses[home].last] - self._unit[self.uses[home].first] + 1

    def _streamed(self, home: int) -> int:
        """DDR traffic of a buffer that is not kept whole."""
        total, seen = 0, set()
        for t in self.uses[home].touches:
            unit = self._unit[t.ins]
            group = self.groups.get(unit)
            if group is None:
                total += t.stored
            elif unit not in seen:
                seen.add(unit)
                total += group.held[home].traffic
        return total


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGN) * ALIGN
