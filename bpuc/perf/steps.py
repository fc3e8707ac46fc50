"""What a schedule moves and holds: DDR traffic and on-chip memory of every instruction, read off the steps."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from bpuc.isa import Device, Ref, Space
from bpuc.isa.tiling import stripe
from bpuc.program import Program
from bpuc.program.schedule import Do, OnChip, Schedule, Step, stored_bytes


@dataclass
class Moved:
    """Bytes of one instruction: constants and activations that it loads, results that it stores; on chip meanwhile.

    in_ddr: byte ranges of the arena that it loads from or stores to.
    kept: of those the ones that it stores from on-chip memory, each with the bytes stored; what earlier
    instructions wrote there is among them.
    """

    constants: int = 0
    loads: int = 0
    stores: int = 0
    held: int = 0
    in_ddr: list[tuple[int, int]] = field(default_factory=list)
    kept: Counter[tuple[int, int]] = field(default_factory=Counter)


def follow(program: Program, schedule: Schedule) -> list[Moved]:
    """Go through the steps as the machine does, counting instead of computing."""
    moved = [Moved() for _ in program.instructions]
    chip = OnChip(schedule.windows)
    last_touch: dict[int, int] = {}  # window -> step
    touched: dict[int, list[int]] = {}  # RUN step -> windows
    for at, step in enumerate(schedule.steps):
        m = moved[step.ins]
        if step.do is Do.RUN:
            touched[at] = _run(program, schedule, step, chip, m)
            last_touch.update(dict.fromkeys(touched[at], at))
        elif step.do is Do.HOLD:
            chip.held[step.what] = step.first, step.last
        elif step.do is Do.DROP:
            chip.held.pop(step.what, None)
        else:
            w = schedule.windows[step.what]
            nbytes = (step.last - step.first) * w.row_stored
            if w.space is Space.CONST:
                m.constants += nbytes
            else:
                m.in_ddr.append((w.lo, w.hi))
                if step.do is Do.LOAD:
                    m.loads += nbytes
                else:
                    m.stores += nbytes
                    m.kept[w.lo, w.hi] += nbytes
    _hold(schedule, moved, last_touch)
    return moved


def _run(program: Program, schedule: Schedule, step: Step, chip: OnChip, m: Moved) -> list[int]:
    """Windows that an instruction or a stripe of it touches; what lies in none is streamed, and counted."""
    ins = program.instructions[step.ins]
    if ins.device is not Device.BPU:
        return []
    found, streamed = [], list[tuple[Ref, bool]]()
    for name, ref in ins.operands():
        if 0 not in ref.shape:
            window = chip.find(ref)
            if window is None:
                streamed.append((ref, name in ins.outputs))
            else:
                found.append(window)
    if streamed and step.what >= 0:
        last = min(step.last, ins.writes()[0].shape[step.what])
        part = stripe(ins, step.what, min(step.first, last), last)
        streamed = [(r, n in ins.outputs) for n, r in part.operands() if 0 not in r.shape and chip.find(r) is None]
    for ref, write in streamed:
        if ref.space is Space.CONST:
            m.constants += ref.nbytes
            continue
        m.in_ddr.append(ref.span)
        if write:
            m.stores += stored_bytes(ref, schedule.chip)
        else:
            m.loads += stored_bytes(ref, schedule.chip)
    return found


def _hold(schedule: Schedule, moved: list[Moved], last_touch: dict[int, int]) -> None:
    """Most bytes on chip while each instruction runs; a window counts until the last instruction that touches it."""
    ends: dict[int, list[int]] = defaultdict(list)
    for window, at in last_touch.items():
        ends[at].append(window)
    held: set[int] = set()
    now = 0
    for at, step in enumerate(schedule.steps):
        if step.do is Do.HOLD and step.what in last_touch and step.what not in held:
            if schedule.windows[step.what].space is Space.ARENA:
                held.add(step.what)
                now += schedule.windows[step.what].room
        elif step.do is Do.RUN:
            moved[step.ins].held = max(moved[step.ins].held, now)
            for window in ends[at]:
                if window in held:
                    held.discard(window)
                    now -= schedule.windows[window].room
