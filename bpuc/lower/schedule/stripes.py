"""A group of consecutive instructions carried out stripe by stripe: who computes which rows when, and what is held.

All results of the group grow at one pace; what only the group reads is computed just in time for its readers, with the
rows that the next stripe needs again kept on chip. So no row is computed twice, and rows from DDR arrive one stripe
ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bpuc.lower.schedule.rows import Access, Cut, Rows
from bpuc.lower.schedule.uses import Use


@dataclass(frozen=True)
class Run:
    """Indices first..last of an instruction's axis."""

    cut: Cut
    first: int
    last: int


# by stripe: accesses to a buffer, with first and last (excluded) row
Touched = list[list[tuple[Access, int, int]]]


@dataclass(frozen=True)
class Held:
    """A buffer's window in a group: its geometry, and by stripe the rows held, loaded before and stored after it."""

    home: int
    lo: int
    planes: int
    rows: Rows
    row_stored: int
    held: tuple[tuple[int, int], ...]
    loads: tuple[tuple[int, int], ...]
    stores: tuple[tuple[int, int], ...]

    @property
    def room(self) -> int:
        """Bytes on chip."""
        return max(b - a for a, b in self.held) * self.row_stored

    @property
    def traffic(self) -> int:
        """Bytes to and from DDR."""
        return sum(b - a for a, b in (*self.loads, *self.stores)) * self.row_stored


def runs_of(group: Sequence[Cut], uses: Mapping[int, Use], stripes: int) -> list[list[Run]]:
    """By stripe what each instruction computes; every index of every instruction exactly once."""
    inside = {c.ins for c in group}
    sinks = {
        c.ins
        for c in group
        for a in c.accesses
        if a.write and (uses[a.home].leaves or any(t.ins not in inside and t.ins > c.ins for t in uses[a.home].touches))
    }
    readers: dict[int, list[tuple[Cut, Access]]] = {}
    for c in group:
        for a in c.accesses:
            if not a.write:
                readers.setdefault(a.home, []).append((c, a))
    done = dict.fromkeys(inside, 0)
    plan = []
    for t in range(stripes):
        goal: dict[int, int] = {}
        for c in reversed(group):
            need = -(-c.total * (t + 1) // stripes) if c.ins in sinks or t == stripes - 1 else 0
            for a in c.accesses:
                for reader, access in readers.get(a.home, ()) if a.write else ():
                    first, last = done[reader.ins], goal.get(reader.ins, 0)
                    if reader.ins > c.ins and last > first:
                        need = max(need, a.index(access.rows(first, last)[1], c.total))
            goal[c.ins] = max(need, done[c.ins])
        plan.append([Run(c, done[c.ins], goal[c.ins]) for c in group if goal[c.ins] > done[c.ins]])
        done = goal
    return plan


def accesses_of(plan: Sequence[Sequence[Run]]) -> dict[int, Touched]:
    """By buffer and stripe the accesses to it with the rows that they touch."""
    found: dict[int, Touched] = {}
    for t, runs in enumerate(plan):
        for r in runs:
            for a in r.cut.accesses:
                if a.home not in found:
                    found[a.home] = [[] for _ in plan]
                found[a.home][t].append((a, *a.rows(r.first, r.last)))
    return found


def held_rows(accesses: Touched, rows: Rows, use: Use, inside: tuple[int, int]) -> Held | None:
    """The window of a buffer that is not on chip as a whole, for instructions inside[0]..inside[1] (excluded).

    None where rows would have to be loaded or stored of which the group writes only a part.
    """
    home = use.start
    seen = {id(a): a for row in accesses for a, _, _ in row}
    touched = {key: (a.write, *_planes(a, rows)) for key, a in seen.items()}
    written = {(p, q) for write, p, q in touched.values() if write}
    low = min(p for _, p, _ in touched.values())
    planes = max(q for _, _, q in touched.values()) - low
    from_ddr = any(t.write and t.ins < inside[0] for t in use.touches) or use.enters
    to_ddr = use.leaves or any(t.ins >= inside[1] for t in use.touches)
    reads = [[(lo, hi) for a, lo, hi in row if not a.write] for row in accesses]
    writes = [[(lo, hi) for a, lo, hi in row if a.write] for row in accesses]
    if written and (from_ddr or (to_ddr and sum(q - p for p, q in written) < planes)):
        return None
    n = len(accesses)
    ends = _running([max((hi for _, hi in row), default=0) for row in reads])
    arrive = [ends[min(t + 1, n - 1)] for t in range(n)] if from_ddr else [0] * n
    made = _running([max((hi for _, hi in row), default=0) for row in writes])
    begins = [min((lo for lo, _ in (*r, *w)), default=rows.count) for r, w in zip(reads, writes)]
    lowest = _lowest(begins, rows.count)
    # rows that nothing writes any more: where several instructions fill a buffer, some may be ahead of others
    later = _lowest([min((lo for lo, _ in row), default=rows.count) for row in writes], rows.count)
    done = [min(a, b) for a, b in zip(made, [*later[1:], rows.count])]
    bottom_row = min((lo for row in writes for lo, _ in row), default=0)
    held, loads, stores = [], [], []
    for t in range(n):
        top = max(arrive[t], made[t])
        bottom = lowest[t]
        loaded = (arrive[t - 1] if t else bottom, arrive[t]) if from_ddr else (0, 0)
        bottom = min(bottom, *loaded) if loaded[1] > loaded[0] else bottom
        held.append((min(bottom, top), top))
        loads.append(loaded if loaded[1] > loaded[0] else (0, 0))
        stored = (done[t - 1] if t else bottom_row, done[t])
        stores.append(stored if to_ddr and stored[1] > stored[0] else (0, 0))
    stored_size = max(t.stored for t in use.touches if inside[0] <= t.ins < inside[1])
    return Held(
        home,
        home + low * rows.pitch,
        planes,
        rows,
        max(planes * rows.row, -(-stored_size // rows.count)),
        tuple(held),
        tuple(loads),
        tuple(stores),
    )


def _running(values: Sequence[int], least: int = 0) -> list[int]:
    """Largest value so far, at each place."""
    out: list[int] = []
    for v in values:
        out.append(max(v, out[-1] if out else least))
    return out


def _lowest(values: Sequence[int], most: int) -> list[int]:
    """Smallest value from each place on."""
    return [-v for v in _running([-b for b in reversed(values)], -most)][::-1]


def _planes(access: Access, rows: Rows) -> tuple[int, int]:
    """First and last (excluded) plane that an access touches."""
    lo, hi = access.ref.span
    return (lo - access.home) // rows.pitch, (hi - 1 - access.home) // rows.pitch + 1
