"""The time line: rows in program order on engines that run side by side, one DDR bus, calls and the host CPU.

A row is what one op of the program does on one engine. Engines take their rows in order. A row may start when its
engine is free and each producer has handed on its first tile, and ends no earlier than its own work, its DDR loads and
the last tile of its producers allow. The bus carries, in order, what each row loads and stores; constants and spilled
operands are fetched `prefetch_ops` rows ahead. All of it is sums and maxima of the rows' times, so a longer row
never ends the frame earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bpuc.target.hardware import Hardware

CALL = "call"


@dataclass
class Row:
    """Work of one op; times in microseconds, traffic in bytes. `start` and `end` are filled by `schedule`."""

    op: int  # index of the program's op, -1 for the overhead of a call
    segment: int
    bpu: bool
    engine: str
    compute: float = 0.0
    overhead: float = 0.0
    loads: float = 0.0
    stores: float = 0.0
    macs: int = 0
    producers: list[int] = field(default_factory=list)  # rows
    start: float = 0.0
    end: float = 0.0

    def transfer_us(self, hw: Hardware) -> float:
        """Time of this row's traffic on the DDR bus."""
        return hw.ddr_us(self.loads + self.stores)


def schedule(rows: Sequence[Row], hw: Hardware) -> float:
    """Place all rows in time, in place; returns the end of the frame for one thread.

    Devices take turns: the host waits for a call to end before it goes on.
    """
    now = 0.0
    at = 0
    while at < len(rows):
        stop = at
        while stop < len(rows) and (rows[stop].segment, rows[stop].bpu) == (rows[at].segment, rows[at].bpu):
            stop += 1
        now = _segment(rows, at, stop, now, hw)
        at = stop
    return now


def _segment(rows: Sequence[Row], first: int, stop: int, now: float, hw: Hardware) -> float:
    while first < stop and (not rows[first].bpu or rows[first].engine == CALL):
        row = rows[first]
        row.start, now = now, now + row.compute + row.overhead
        row.end = now
        first += 1
    if first == stop:
        return now
    ahead = int(hw.prefetch_ops)
    free: dict[str, float] = {}
    bus = end = now
    loaded: dict[int, float] = {}
    next_load = first
    for i in range(first, stop):
        row = rows[i]
        begun = [rows[p] for p in row.producers if first <= p < i]
        ready = max((p.start + (p.end - p.start) / hw.tiles for p in begun), default=now)
        row.start = max(free.get(row.engine, now), ready)
        while next_load < min(i + ahead + 1, stop):
            bus = max(bus, row.start) + hw.ddr_us(rows[next_load].loads)
            loaded[next_load] = bus
            next_load += 1
        work = row.compute + row.overhead
        tail = max((p.end for p in begun), default=now) + row.compute / hw.tiles
        row.end = max(row.start + work, loaded[i], tail if begun else now)
        free[row.engine] = row.end
        bus = max(bus, row.start + work / hw.tiles) + hw.ddr_us(row.stores)
        end = max(end, row.end, bus)
    rows[stop - 1].end = max(rows[stop - 1].end, end)
    return end
