"""Which activations stay on chip, and the DDR traffic that is left.

That of a scheduled program is what its schedule moves. A program without a valid schedule has its traffic estimated
from the decoded instructions. A value is what one instruction writes at one place of the arena. While the values that
live at the same moment fit into the on-chip memory, none of them costs DDR traffic. Where they need P bytes at the
tightest moment of a value's life and the memory holds S, the share 1 - S/P of that value goes through DDR. What crosses
the border of a BPU segment is stored and loaded whole, and constants are always loaded. What the CPU reads and writes
is part of its own time, no BPU traffic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from bpuc.isa import Device, Eltwise, Lut, Ref, Rescale, Space
from bpuc.perf.steps import Moved, follow
from bpuc.program import Program
from bpuc.target.hardware import Hardware

_POINTWISE = (Eltwise, Lut, Rescale)


@dataclass
class Value:
    """One life of an arena region: written by instruction `born` (-1: an input of the model), read by `readers`."""

    ref: Ref
    born: int
    readers: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lo, self.hi = self.ref.span
        self.dense = self.hi - self.lo == self.ref.nbytes


@dataclass
class Traffic:
    """DDR bytes of one instruction: constants, activations that it loads, results that it stores."""

    constants: float = 0.0
    loads: float = 0.0
    stores: float = 0.0


@dataclass(frozen=True)
class MemoryPlan:
    """Traffic of every instruction, the instructions whose results each one reads, and the bytes held while it runs:
    on chip, and in DDR with the constants."""

    traffic: list[Traffic]
    producers: list[list[int]]
    sram: list[float]
    ddr: list[float]

    @property
    def sram_peak(self) -> float:
        """Most bytes held on chip at a time."""
        return max(self.sram, default=0.0)

    @property
    def ddr_peak(self) -> float:
        """Most bytes held in DDR at a time."""
        return max(self.ddr, default=0.0)


@dataclass(frozen=True)
class _Stay:
    """A value in one BPU segment, from its first to its last touch there."""

    value: Value
    first: int
    last: int
    size: float
    enters: bool  # from DDR
    leaves: bool  # to DDR
    streams: bool  # never whole: handed on piece by piece to the one instruction behind its writer


def plan_memory(program: Program, hw: Hardware) -> MemoryPlan:
    """Count the DDR traffic of every instruction of a program."""
    values, producers = find_values(program)
    if (steps := program.valid_schedule()) is not None:
        return _scheduled(program, follow(program, steps), values, producers)
    return place_values(program, values, producers, hw)


def _scheduled(program: Program, moved: list[Moved], values: list[Value], producers: list[list[int]]) -> MemoryPlan:
    """The traffic of the schedule; a value takes DDR while it lives, if any of it is ever loaded or stored."""
    n = len(moved)
    _deal_out(program, moved, values)
    edges = np.zeros(n + 2)
    for v in values:
        places = [i for i in (v.born, *v.readers) if 0 <= i < n]
        if any(lo < v.hi and v.lo < hi for i in places for lo, hi in moved[i].in_ddr) or any(
            program.instructions[i].device is Device.CPU for i in places
        ):
            edges[max(v.born, 0)] += v.ref.nbytes
            edges[min(max(places, default=0), n) + 1] -= v.ref.nbytes
    return MemoryPlan(
        [Traffic(m.constants, m.loads, m.stores) for m in moved],
        producers,
        [m.held for m in moved],
        (len(program.constants) + np.cumsum(edges)[:n]).tolist(),
    )


def _deal_out(program: Program, moved: list[Moved], values: list[Value]) -> None:
    """Let each writer of a joined tensor store its own part, not the last one the whole: the bus need not wait."""
    segment = _bpu_segments(program)
    for i, m in enumerate(moved):
        for (lo, hi), nbytes in m.kept.items():
            parts = {
                v.born: v.ref.nbytes
                for v in values
                if 0 <= v.born <= i < max(v.readers, default=i + 1) and lo <= v.lo and v.hi <= hi
            }
            for writer, size in parts.items():
                if writer != i and segment[writer] == segment[i]:
                    share = nbytes * size // sum(parts.values())
                    moved[writer].stores += share
                    m.stores -= share


def place_values(program: Program, values: list[Value], producers: list[list[int]], hw: Hardware) -> MemoryPlan:
    """`plan_memory` with the values already found: they do not depend on the hardware."""
    n = len(program.instructions)
    segment = _bpu_segments(program)
    stays = [s for v in values for s in _stays(v, program, segment, hw)]
    edges = np.zeros(n + 2)
    for s in stays:
        if s.last > s.first and not s.streams:
            edges[s.first] += s.size
            edges[s.last + 1] -= s.size
    live = np.cumsum(edges)
    operands = [
        [(*x.span, stored_bytes(x, hw)) for x in i.reads() if x.space is Space.ARENA] for i in program.instructions
    ]
    traffic = [Traffic() for _ in range(n)]
    spilled = np.zeros(n + 2)
    for s in stays:
        at_home = s.streams or s.last == s.first
        share = 0.0 if at_home else _share(float(live[s.first : s.last + 1].max()), hw)
        if s.first == s.value.born:
            traffic[s.first].stores += s.size * (1.0 if s.leaves else share)
        for r in s.value.readers:
            if s.first <= r <= s.last and r != s.value.born and r < n:
                part = min(s.size, sum(size for lo, hi, size in operands[r] if lo < s.value.hi and s.value.lo < hi))
                traffic[r].loads += part * (1.0 if s.enters and r == s.first else share)
        spilled[s.first] += s.size * (1.0 if s.enters or s.leaves else share)
        spilled[s.last + 1] -= s.size * (1.0 if s.enters or s.leaves else share)
    for i, ins in enumerate(program.instructions):
        if segment[i] >= 0:
            traffic[i].constants = sum(r.nbytes for r in ins.reads() if r.space is Space.CONST)
    return MemoryPlan(
        traffic,
        producers,
        np.minimum(live[:n], hw.sram_bytes).tolist(),
        (len(program.constants) + np.maximum(np.cumsum(spilled)[:n], 0.0)).tolist(),
    )


def find_values(program: Program) -> tuple[list[Value], list[list[int]]]:
    """All values of a program, and for each instruction the earlier ones whose results it reads."""
    current = [Value(port.ref, -1) for port in program.inputs]
    values = list(current)
    producers: list[list[int]] = []
    for i, ins in enumerate(program.instructions):
        spans = [r.span for r in ins.reads() if r.space is Space.ARENA]
        used = [v for v in current if any(lo < v.hi and v.lo < hi for lo, hi in spans)]
        for v in used:
            v.readers.append(i)
        producers.append(sorted({v.born for v in used if v.born >= 0}))
        for ref in ins.writes():
            new = Value(ref, i)
            current = [v for v in current if v.hi <= new.lo or new.hi <= v.lo or _siblings(v, new)]
            current.append(new)
            values.append(new)
    for port in program.outputs:
        lo, hi = port.ref.span
        for v in current:
            if lo < v.hi and v.lo < hi:
                v.readers.append(len(program.instructions))
    return values, producers


def stored_bytes(ref: Ref, hw: Hardware) -> float:
    """Bytes of a view as the machine stores it: its innermost axis padded to ``256 n + {0, 16, 32, 64, 128}`` bytes.

    The ladder is that of the X5's documents; ``channel_align`` is its first rung and ``channel_block`` its period. The
    innermost axis is the channels (axis 1 of rank 4 and above) or the last axis, whichever needs less. Views of one or
    two axes are copies whose axes were joined; they are taken as they are.
    """
    counted = [d if s else 1 for d, s in zip(ref.shape, ref.strides)]
    if len(counted) < 3:
        return float(ref.nbytes)
    dense = math.prod(counted)
    axes = (1, -1) if len(counted) > 3 else (-1,)
    return min(dense / counted[a] * _rung(counted[a] * ref.dtype.itemsize, hw) for a in axes) if dense else 0.0


def _rung(nbytes: int, hw: Hardware) -> float:
    whole, rest = divmod(nbytes, hw.channel_block)
    if rest == 0:
        return nbytes
    rung = hw.channel_align if nbytes > 4 else 4.0
    while rung < rest:
        rung *= 2
    return whole * hw.channel_block + min(rung, hw.channel_block)


def _share(peak: float, hw: Hardware) -> float:
    return min(1.0, max(0.0, peak / hw.sram_bytes - 1.0) / hw.spill_slope) if hw.sram_bytes else 1.0


def _bpu_segments(program: Program) -> list[int]:
    """For each instruction the number of its BPU segment, -1 on the CPU."""
    owner = [-1] * len(program.instructions)
    for s in program.segments:
        if s.device is Device.BPU:
            owner[s.start : s.stop] = [s.id] * (s.stop - s.start)
    return owner


def _stays(value: Value, program: Program, segment: list[int], hw: Hardware) -> list[_Stay]:
    places: dict[int, list[int]] = {}
    for i in [value.born, *value.readers]:
        if 0 <= i < len(segment) and segment[i] >= 0:
            places.setdefault(segment[i], []).append(i)
    outside = any(i >= len(segment) or segment[i] < 0 for i in value.readers) or len(places) > 1
    size = stored_bytes(value.ref, hw)
    alone = len(value.readers) == 1 and value.readers[0] == value.born + 1 and not outside
    streams = alone and isinstance(program.instructions[value.readers[0]], _POINTWISE)
    return [
        _Stay(value, at[0], at[-1], size, at[0] != value.born, at[0] == value.born and outside, streams)
        for at in places.values()
    ]


def _siblings(a: Value, b: Value) -> bool:
    """Interleaved parts of one tensor share a span; writing one does not end the life of the other."""
    return not a.dense and not b.dense and a.ref.strides == b.ref.strides and a.lo != b.lo
