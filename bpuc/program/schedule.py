"""What the machine does step by step: which bytes are on chip, when, and where; FORMAT.md has the encoding.

The instructions say what is computed, the schedule how: in which pieces and from which memory. A window is a stretch of
on-chip memory that stands for part of the arena or of the constants: for `planes` times `pitch` bytes from `lo`, of
which it holds a range of rows of each plane, one plane after another. An operand that lies in a held window is read or
written there; any other one is streamed between DDR and the engine while the instruction runs.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields, replace
from enum import IntEnum

from bpuc.isa import Instruction, Move, Ref, Space
from bpuc.isa.core import MAX_RANK
from bpuc.isa.tiling import stripe_axis

_MAX_CHIP = 1 << 28  # bytes, some dozen times what the largest of these machines has
_MAX_CORES = 64
END = 2**31 - 1  # as the last row of a stripe: all that are left


@dataclass(frozen=True)
class Chip:
    """On-chip memory in bytes, and how the machine stores channels (see `stored_bytes`).

    activations, constants: the two parts of the on-chip memory; constants lie behind activations.
    """

    activations: int
    constants: int
    channel_align: int = 1
    channel_block: int = 256


@dataclass(frozen=True)
class Window:
    """On-chip memory that holds rows of a memory; sizes and addresses in bytes.

    row: bytes of a row in one plane. row_stored: bytes of a row over all planes as the machine stores them, which is
    what a transfer moves. at, room: its place on chip.
    """

    space: Space
    lo: int
    planes: int
    pitch: int
    row: int
    row_stored: int
    at: int
    room: int

    @property
    def hi(self) -> int:
        """The byte behind the last plane."""
        return self.lo + self.planes * self.pitch


class Do(IntEnum):
    """Kinds of steps."""

    HOLD = 0  # a window now stands for rows first..last; rows that it held before stay
    LOAD = 1  # rows first..last from memory
    RUN = 2  # indices first..last of an axis of an instruction's result; the whole instruction where the axis is -1
    STORE = 3  # rows first..last to memory
    DROP = 4  # the window is free


@dataclass(frozen=True)
class Step:
    """One step. what: window, or axis of a RUN. ins: the instruction that the step serves."""

    do: Do
    what: int
    ins: int
    first: int = 0
    last: int = 0


@dataclass(frozen=True)
class Schedule:
    """All steps of a program, in order.

    level: -O; cores: BPU cores that share a frame. digest: of the operands that it was made for (`operands_digest`); a
    program whose operands are others runs without it.
    """

    chip: Chip
    level: int
    cores: int
    digest: int
    windows: tuple[Window, ...]
    steps: tuple[Step, ...]


_HEAD = struct.Struct("<9q")
_WINDOW = struct.Struct("<8q")
_STEP = struct.Struct("<5i")


def encode_schedule(s: Schedule) -> bytes:
    """The bytes of schedule.bin."""
    head = _HEAD.pack(*astuple(s.chip), s.level, s.cores, s.digest, len(s.windows), len(s.steps))
    return (
        head
        + b"".join(_WINDOW.pack(*astuple(w)) for w in s.windows)
        + b"".join(_STEP.pack(*astuple(x)) for x in s.steps)
    )


def decode_schedule(data: bytes) -> Schedule:
    """Inverse of `encode_schedule`; raises ValueError or struct.error on impossible bytes."""
    *chip, level, cores, digest, n_windows, n_steps = _HEAD.unpack_from(data)
    middle = _HEAD.size + n_windows * _WINDOW.size
    if len(data) != middle + n_steps * _STEP.size:
        raise ValueError(f"a schedule of {len(data)} bytes for {n_windows} windows and {n_steps} steps")
    windows = tuple(Window(Space(s), *rest) for s, *rest in _WINDOW.iter_unpack(data[_HEAD.size : middle]))
    steps = tuple(Step(Do(d), *rest) for d, *rest in _STEP.iter_unpack(data[middle:]))
    return Schedule(Chip(*chip), level, cores, digest, windows, steps)


def check_schedule(s: Schedule, instructions: Sequence[Instruction]) -> str | None:
    """What is wrong with the numbers of a schedule for a program's instructions; None where nothing is."""
    c = s.chip
    if min(c.activations, c.constants) < 0 or c.activations + c.constants > _MAX_CHIP:
        return f"the schedule is for {c.activations} + {c.constants} bytes on chip"
    if not (1 <= c.channel_align <= _MAX_CHIP and 1 <= c.channel_block <= _MAX_CHIP and 1 <= s.cores <= _MAX_CORES):
        return f"the schedule is for channels of {c.channel_align} and {c.channel_block} bytes and {s.cores} cores"
    size = s.chip.activations + s.chip.constants
    for i, w in enumerate(s.windows):
        if min(w.lo, w.at, w.room) < 0 or min(w.planes, w.pitch, w.row, w.row_stored) < 1 or w.pitch % w.row:
            return f"window {i} of the schedule is impossible"
        if w.at + w.room > size:
            return f"window {i} of the schedule ends at byte {w.at + w.room} of {size} on chip"
    for i, x in enumerate(s.steps):
        if not 0 <= x.ins < len(instructions):
            return f"step {i} of the schedule serves instruction {x.ins} of {len(instructions)}"
        if x.do is Do.RUN and x.what >= 0 and (why := _bad_stripe(x, instructions[x.ins])):
            return f"step {i} of the schedule: {why}"
        if x.do is not Do.RUN and not 0 <= x.what < len(s.windows):
            return f"step {i} of the schedule uses window {x.what} of {len(s.windows)}"
        if x.do in (Do.HOLD, Do.LOAD, Do.STORE):
            w = s.windows[x.what]
            if not 0 <= x.first <= x.last <= w.pitch // w.row:
                return f"step {i} of the schedule asks for rows {x.first}..{x.last} of {w.pitch // w.row}"
            if x.do is Do.HOLD and (x.last - x.first) * w.row * w.planes > w.room:
                return f"step {i} of the schedule holds more rows than its window has room for"
    ended = {x.ins for x in s.steps if x.do is Do.RUN and (x.what < 0 or x.last == END)}
    if missing := set(range(len(instructions))) - ended:
        return f"the schedule never ends instruction {min(missing)}"
    return None


def _bad_stripe(step: Step, ins: Instruction) -> str | None:
    """Why a stripe of an instruction cannot be."""
    if not isinstance(ins, Move) and step.what != stripe_axis(ins):
        return f"instruction {step.ins} ({type(ins).__name__}) cannot be cut along axis {step.what}"
    if step.what >= len(ins.writes()[0].shape) or not 0 <= step.first <= step.last:
        return f"indices {step.first}..{step.last} of axis {step.what} of instruction {step.ins}"
    return None


def operands_digest(instructions: Iterable[Instruction]) -> int:
    """First eight bytes of the SHA-256 of all operand words in order, as a little-endian signed integer."""
    refs = [ref for ins in instructions for _, ref in ins.operands()]
    # more axes than a word has room for: such a program runs in memory, and is refused where it is written
    words = b"".join(r.encode() if len(r.shape) <= MAX_RANK else repr(r).encode() for r in refs)
    return int.from_bytes(hashlib.sha256(words).digest()[:8], "little", signed=True)


class OnChip:
    """The windows held at a moment, and the on-chip view of an operand."""

    def __init__(self, windows: Iterable[Window]) -> None:
        self.windows = tuple(windows)
        self.held: dict[int, tuple[int, int]] = {}

    def find(self, ref: Ref) -> int | None:
        """Number of the held window that an operand lies in."""
        lo, hi = ref.span
        for index in self.held:
            w = self.windows[index]
            if w.space == ref.space and w.lo <= lo and hi <= w.hi:
                return index
        return None

    def view(self, index: int, ref: Ref) -> Ref:
        """The operand as a view of on-chip memory (its space is then meaningless).

        Raises:
            ValueError: it needs rows that the window does not hold, or steps across planes unevenly.
        """
        w, (first, last) = self.windows[index], self.held[index]
        pitch, held = w.pitch, (last - first) * w.row
        plane, offset = divmod(ref.address - w.lo, pitch)
        low = high = offset
        strides = []
        for d, s in zip(ref.shape, ref.strides):
            if d > 1 and s and s % pitch == 0:
                strides.append(s // pitch * held)
            else:
                strides.append(s)
                low, high = low + min(0, (d - 1) * s), high + max(0, (d - 1) * s)
        if low < first * w.row or high >= last * w.row:
            raise ValueError(
                f"operand at bytes {low}..{high} of a plane, of which {first * w.row}..{last * w.row} is on chip"
            )
        return replace(ref, address=w.at + plane * held + offset - first * w.row, strides=tuple(strides))


def stored_bytes(ref: Ref, chip: Chip) -> int:
    """Bytes of a view as the machine stores it: its innermost axis padded to ``256 n + {0, 16, 32, 64, 128}`` bytes.

    The ladder is that of the X5's documents; ``channel_align`` is its first rung and ``channel_block`` its period. The
    innermost axis is the channels (axis 1 of rank 4 and above) or the last axis, whichever needs less. Views of one or
    two axes are copies whose axes were joined; they are taken as they are.
    """
    counted = [d if s else 1 for d, s in zip(ref.shape, ref.strides)]
    dense = math.prod(counted)
    if len(counted) < 3 or not dense:
        return ref.nbytes if dense else 0
    axes = (1, -1) if len(counted) > 3 else (-1,)
    return min(dense // counted[a] * _rung(counted[a] * ref.dtype.itemsize, chip) for a in axes)


def _rung(nbytes: int, chip: Chip) -> int:
    whole, rest = divmod(nbytes, chip.channel_block)
    if rest == 0:
        return nbytes
    rung = chip.channel_align if nbytes > 4 else 4
    while rung < rest:
        rung *= 2
    return whole * chip.channel_block + min(rung, chip.channel_block)


assert len(fields(Window)) == 8
