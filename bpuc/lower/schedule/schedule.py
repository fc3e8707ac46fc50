"""From instructions on virtual addresses to a schedule on virtual addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bpuc.isa import Device, Instruction, Ref, Space
from bpuc.lower.memory import VirtualMemory
from bpuc.lower.schedule.emit import SegmentSteps, Steps
from bpuc.lower.schedule.plan import SegmentPlanner
from bpuc.lower.schedule.uses import uses_of
from bpuc.program import Segment
from bpuc.program.schedule import Chip, Schedule, operands_digest


@dataclass
class Draft:
    """What lowering has before the arena is planned."""

    instructions: Sequence[Instruction]
    memory: VirtualMemory
    inputs: Sequence[Ref]
    outputs: Sequence[Ref]
    segments: Sequence[Segment]


@dataclass(frozen=True)
class Scheduled:
    """A schedule whose windows have virtual addresses. together: instructions first..stop that overlap in time."""

    schedule: Schedule
    together: list[tuple[int, int]]
    traffic: int

    def real(self, memory: VirtualMemory, instructions: Sequence[Instruction]) -> Schedule:
        """The schedule on planned addresses, for these instructions on planned addresses."""
        windows = tuple(
            w
            if w.space is not Space.ARENA
            else replace(w, lo=w.lo - memory.buffer(w.lo).start + memory.buffer(w.lo).address)
            for w in self.schedule.windows
        )
        return replace(self.schedule, windows=windows, digest=operands_digest(instructions))


@dataclass(frozen=True)
class Scheduling:
    """What a schedule is made for, and how.

    level: 0 to 3. cores: BPU cores that share a frame. narrow: order ops for few bytes alive (`order.ordered`).
    reach: how many ops ahead operands of a Concat may be written in place (`views.share_buffers`).
    """

    chip: Chip
    level: int = 3
    cores: int = 1
    narrow: bool = False
    reach: int = 16


def schedule(draft: Draft, how: Scheduling) -> Scheduled:
    """Plan each BPU segment; what the CPU does stays whole and in order."""
    spans = [(s.start, s.stop) for s in draft.segments if s.device is Device.BPU]
    uses = iter(uses_of(draft.instructions, draft.memory, draft.inputs, draft.outputs, spans, how.chip))
    steps, together, traffic = Steps(), list[tuple[int, int]](), 0
    for s in draft.segments:
        if s.device is not Device.BPU or s.start == s.stop:
            for i in range(s.start, s.stop):
                steps.run(i)
            if s.device is Device.BPU:
                next(uses)
            continue
        planner = SegmentPlanner(draft.instructions, draft.memory, next(uses), s.start, s.stop, how.chip)
        layout = planner.plan(how.level)
        SegmentSteps(planner, layout, steps).write()
        together += [u for u in layout.units if u[1] - u[0] > 1]
        traffic += layout.traffic
    return Scheduled(
        Schedule(how.chip, how.level, how.cores, 0, tuple(steps.windows), tuple(steps.steps)), together, traffic
    )
