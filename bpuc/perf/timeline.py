"""The time line: rows in program order on engines that run side by side, one DDR bus, calls and the host CPU.

A row is what one op of the program does on one engine. Engines take their rows in order. A row may start when its
engine is free and each producer has handed on its first tile. It ends no earlier than its own work allows, and its last
tile comes after the last ones of its producers and of its DDR loads, as does the last stored tile after it. The bus
carries, in order, what each row loads and stores. A row's loads begin up to `prefetch_ops` rows ahead, as soon as its
constants fit into the constant buffer beside those of the rows between: a row frees its constants when it ends. All of
it is sums and maxima of the rows' times, so a longer row never ends the frame earlier.
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
    constants: float = 0.0
    loads: float = 0.0
    stores: float = 0.0
    macs: int = 0
    sram: float = 0.0  # bytes held on chip and in DDR while it runs
    ddr: float = 0.0
    producers: list[int] = field(default_factory=list)  # rows
    start: float = 0.0
    end: float = 0.0
    # when the bus carries what it loads and stores; None where that is nothing, and on the host
    load: tuple[float, float] | None = None
    store: tuple[float, float] | None = None
    waits: int = -1  # the row that ended before this one's loads could begin, as it held the room for them

    def first_tile(self, hw: Hardware) -> float:
        """When the first part of the result is there: the start-up of the op's instructions comes before all of it."""
        return self.start + self.overhead + (self.end - self.start - self.overhead) / hw.tiles

    def transfer_us(self, hw: Hardware) -> float:
        """Time of this row's traffic on the DDR bus."""
        return hw.ddr_us(self.constants + self.loads + self.stores)


def schedule(rows: Sequence[Row], hw: Hardware) -> float:
    """Place all rows and their traffic in time, in place; returns the end of the frame for one thread.

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
    free: dict[str, float] = {}
    loaded: list[float] = []
    carried: list[tuple[Row, float]] = []  # in the order of the bus; when the last tile of a store is through
    bus = end = now
    for i in range(first, stop):
        row = rows[i]
        begun = [rows[p] for p in row.producers if first <= p < i]
        ready = max((p.first_tile(hw) for p in begun), default=now)
        row.start = max(free.get(row.engine, now), ready)
        while len(loaded) < stop - first and (j := first + len(loaded)) <= i + hw.prefetch_ops:
            freed = frees(rows, first, j, hw.constant_buffer_bytes)
            if freed > i:
                break
            nbytes = rows[j].constants + rows[j].loads
            if nbytes:
                window = rows[max(first, j - int(hw.prefetch_ops))].start
                begin = max(bus, window, rows[freed - 1].end if freed > first else now)
                bus = begin + hw.ddr_us(nbytes)
                rows[j].load = begin, bus
                carried.append((rows[j], 0.0))
                rows[j].waits = freed - 1 if freed > first else -1
            loaded.append(bus if nbytes else now)
        work, tail = row.compute + row.overhead, row.compute / hw.tiles
        row.end = max(row.start + work, *(p.end + tail for p in begun), loaded[i - first] + row.compute / hw.load_tiles)
        free[row.engine] = row.end
        if row.stores:
            store = hw.ddr_us(row.stores)
            begin = max(bus, row.start)
            bus = begin + store
            row.store = begin, bus
            carried.append((row, row.end + store / hw.tiles))
            end = max(end, carried[-1][1])
        end = max(end, row.end, bus)
    rows[stop - 1].end = max(rows[stop - 1].end, end)
    _as_late_as_possible(carried)
    return end


def _as_late_as_possible(carried: Sequence[tuple[Row, float]]) -> None:
    """Show each store where its last tile is, as far as the next transfer leaves room: tiles wait for the work."""
    room = float("inf")
    for row, last in reversed(carried):
        if last and row.store is not None:
            begin, end = row.store
            late = max(0.0, min(last, room) - end)
            row.store = begin + late, end + late
            room = row.store[0]
        elif row.load is not None:
            room = row.load[0]


def frees(rows: Sequence[Row], first: int, row: int, buffer: float) -> int:
    """The rows before this one must have ended for the constants of `row` to fit beside those of the rows between."""
    room = buffer - rows[row].constants
    at = row
    while at > first and room >= rows[at - 1].constants:
        at -= 1
        room -= rows[at].constants
    return at
