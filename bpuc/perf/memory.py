"""Which activations stay on chip, and the DDR traffic that is left: read off the decoded instructions.

A value is what one instruction writes at one place of the arena. While the values that live at the same moment fit into
the on-chip memory, none of them costs DDR traffic. Where they need P bytes at the tightest moment of a value's life and
the memory holds S, the share 1 - S/P of that value goes through DDR. So traffic never falls when anything grows,
which a choice of whole tensors to evict would not guarantee. What crosses the border of a BPU segment is stored and
loaded whole, and constants are always loaded. What the CPU reads and writes is part of its own time, no BPU traffic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from bpuc.isa import Device, Ref, Space
from bpuc.perf.hardware import Hardware
from bpuc.program import Program


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
    """Traffic of every instruction, the instructions whose results each one reads, and both peaks in bytes."""

    traffic: list[Traffic]
    producers: list[list[int]]
    sram_peak: float
    ddr_peak: float


@dataclass(frozen=True)
class _Stay:
    """A value in one BPU segment, from its first to its last touch there."""

    value: Value
    first: int
    last: int
    size: float
    enters: bool  # from DDR
    leaves: bool  # to DDR


def plan_memory(program: Program, hw: Hardware) -> MemoryPlan:
    """Count the DDR traffic of every instruction of a program."""
    n = len(program.instructions)
    values, producers = find_values(program)
    segment = _bpu_segments(program)
    stays = [s for v in values for s in _stays(v, segment, hw)]
    edges = np.zeros(n + 2)
    for s in stays:
        if s.last > s.first:
            edges[s.first] += s.size
            edges[s.last + 1] -= s.size
    live = np.cumsum(edges)
    traffic = [Traffic() for _ in range(n)]
    spilled = np.zeros(n + 2)
    for s in stays:
        share = _share(float(live[s.first : s.last + 1].max()), hw.sram_bytes) if s.last > s.first else 0.0
        if s.first == s.value.born:
            traffic[s.first].stores += s.size * (1.0 if s.leaves else share)
        for r in s.value.readers:
            if s.first <= r <= s.last and r != s.value.born and r < n:
                part = min(
                    s.size, sum(stored_bytes(x, hw) for x in program.instructions[r].reads() if _meet(x, s.value))
                )
                traffic[r].loads += part * (1.0 if s.enters and r == s.first else share)
        spilled[s.first] += s.size * (1.0 if s.enters or s.leaves else share)
        spilled[s.last + 1] -= s.size * (1.0 if s.enters or s.leaves else share)
    for i, ins in enumerate(program.instructions):
        if segment[i] >= 0:
            traffic[i].constants = sum(constant_bytes(r, hw) for r in ins.reads() if r.space is Space.CONST)
    return MemoryPlan(
        traffic,
        producers,
        min(hw.sram_bytes, float(live.max(initial=0.0))),
        len(program.constants) + float(np.cumsum(spilled).max(initial=0.0)),
    )


def find_values(program: Program) -> tuple[list[Value], list[list[int]]]:
    """All values of a program, and for each instruction the earlier ones whose results it reads."""
    current = [Value(port.ref, -1) for port in program.inputs]
    values = list(current)
    producers: list[list[int]] = []
    for i, ins in enumerate(program.instructions):
        used = [v for v in current if any(_meet(r, v) for r in ins.reads())]
        for v in used:
            v.readers.append(i)
        producers.append(sorted({v.born for v in used if v.born >= 0}))
        for ref in ins.writes():
            new = Value(ref, i)
            current = [v for v in current if not _ends(v, new)] + [new]
            values.append(new)
    for port in program.outputs:
        for v in current:
            if _meet(port.ref, v):
                v.readers.append(len(program.instructions))
    return values, producers


def stored_bytes(ref: Ref, hw: Hardware) -> float:
    """Bytes of a view in DDR or on chip, its channels padded to the alignment of the machine.

    Channels are axis 1 of a rank above 3, else the last axis; up to four of them are stored as four.
    """
    counted = [d if s else 1 for d, s in zip(ref.shape, ref.strides)]
    if not counted:
        return float(ref.dtype.itemsize)
    channels = counted.pop(1 if len(counted) > 3 else -1) * ref.dtype.itemsize
    block = 4 if channels <= 4 else hw.channel_align
    return math.prod(counted) * math.ceil(channels / block) * block


def constant_bytes(ref: Ref, hw: Hardware) -> float:
    """Bytes of a constant in DDR; the output channels of weights are padded to the array's block."""
    if len(ref.shape) < 2 or ref.dtype.itemsize > 2:
        return float(ref.nbytes)
    rest = ref.nbytes / max(ref.shape[0] if ref.strides[0] else 1, 1)
    return rest * math.ceil(ref.shape[0] / hw.mac_out_block) * hw.mac_out_block if ref.strides[0] else rest


def _share(peak: float, sram_bytes: float) -> float:
    return max(0.0, 1.0 - sram_bytes / peak) if peak > 0 else 0.0


def _bpu_segments(program: Program) -> list[int]:
    """For each instruction the number of its BPU segment, -1 on the CPU."""
    owner = [-1] * len(program.instructions)
    for s in program.segments:
        if s.device is Device.BPU:
            owner[s.start : s.stop] = [s.id] * (s.stop - s.start)
    return owner


def _stays(value: Value, segment: list[int], hw: Hardware) -> list[_Stay]:
    places: dict[int, list[int]] = {}
    for i in [value.born, *value.readers]:
        if 0 <= i < len(segment) and segment[i] >= 0:
            places.setdefault(segment[i], []).append(i)
    outside = any(i >= len(segment) or segment[i] < 0 for i in value.readers) or len(places) > 1
    size = stored_bytes(value.ref, hw)
    return [
        _Stay(value, at[0], at[-1], size, enters=at[0] != value.born, leaves=at[0] == value.born and outside)
        for at in places.values()
    ]


def _meet(ref: Ref, value: Value) -> bool:
    if ref.space is not Space.ARENA:
        return False
    lo, hi = ref.span
    return lo < value.hi and value.lo < hi


def _ends(old: Value, new: Value) -> bool:
    """Whether a write ends the life of what stood there. Interleaved parts of one tensor share a span and live on."""
    if old.hi <= new.lo or new.hi <= old.lo:
        return False
    siblings = not old.dense and not new.dense and old.ref.strides == new.ref.strides and old.lo != new.lo
    return not siblings
