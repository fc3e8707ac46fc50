"""Who touches which buffer of the arena in a BPU segment, and what that costs when the buffer stays in DDR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bpuc.isa import Instruction, Ref, Space
from bpuc.lower.memory import VirtualMemory
from bpuc.program.schedule import Chip, stored_bytes


@dataclass(frozen=True)
class Touch:
    """An operand of instruction `ins` in a buffer; stored: its bytes as the machine stores them."""

    ins: int
    ref: Ref
    write: bool
    stored: int


@dataclass
class Use:
    """A buffer in one BPU segment. enters, leaves: whether its content comes from, or is wanted, outside of it."""

    start: int
    touches: list[Touch] = field(default_factory=list)
    enters: bool = False
    leaves: bool = False
    size: int = 0  # dense bytes

    @property
    def first(self) -> int:
        return self.touches[0].ins

    @property
    def last(self) -> int:
        return self.touches[-1].ins

    @property
    def stored(self) -> int:
        """Bytes of the whole buffer as the machine stores it."""
        return max(self.size, *(t.stored for t in self.touches))

    @property
    def passing(self) -> int:
        """DDR traffic that is left when the buffer is on chip all the time."""
        return self.stored * (self.enters + self.leaves)


def uses_of(
    instructions: Sequence[Instruction],
    memory: VirtualMemory,
    inputs: Sequence[Ref],
    outputs: Sequence[Ref],
    segments: Sequence[tuple[int, int]],
    chip: Chip,
) -> list[dict[int, Use]]:
    """For each segment (instructions start to stop) its buffers by virtual address."""
    touched: dict[int, list[Touch]] = {}
    for i, ins in enumerate(instructions):
        for name, ref in ins.operands():
            if ref.space is Space.ARENA:
                home = memory.buffer(ref.address).start
                touched.setdefault(home, []).append(Touch(i, ref, name in ins.outputs, stored_bytes(ref, chip)))
    given = {memory.buffer(r.address).start for r in inputs if r.space is Space.ARENA}
    wanted = {memory.buffer(r.address).start for r in outputs if r.space is Space.ARENA}
    found: list[dict[int, Use]] = [{} for _ in segments]
    for home, touches in touched.items():
        for (start, stop), uses in zip(segments, found):
            inside = [t for t in touches if start <= t.ins < stop]
            if inside:
                uses[home] = Use(
                    home,
                    inside,
                    home in given or any(t.write and t.ins < start for t in touches),
                    any(t.write for t in inside)
                    and (home in wanted or any(not t.write and t.ins >= stop for t in touches)),
                    memory.buffer(home).size,
                )
    return found
