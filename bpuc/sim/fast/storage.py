"""From addresses to data flow: which write does each operand read, and which operands must share memory.

The arena is replayed once, byte by byte, with the number of the last write in every byte. Writes that one operand
reads together belong to one buffer, in which they keep their distances; everything else gets a buffer of its own. A
Concat made of several writes is thus one buffer that its readers see as a whole, a reused address is two buffers,
and a program whose operands overlap in any odd way ends, in the limit, in one buffer: the arena as it is.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.isa import Instruction, Ref, Space
from bpuc.program import Program
from bpuc.sim.engine import Array

GARBAGE = 0  # the number of the "write" that left what stands in the arena before a run
GARBAGE_BYTE = 0xA5  # the reference engine fills the arena with it, so reading it is defined after all
BIAS = 0x80


class Late(Exception):  # noqa: N818
    """A signal: an operand that is normally constant lies in the arena, the kernel can only be made at run time."""


@dataclass(eq=False)
class Buffer:
    """A piece of arena that stands by itself.

    start, stop: its bytes in the arena. biased: every operand in it is int8, and the bytes hold value + 128, as
    onnxruntime's kernels for uint8 want it. dirty: some bytes are read before anything wrote them.
    """

    start: int
    stop: int
    biased: bool = True
    dirty: bool = False

    @cached_property
    def data(self) -> bytearray:
        """The bytes themselves, made when first needed."""
        return bytearray(self.stop - self.start)

    def reset(self) -> None:
        """What the arena holds before a run."""
        if self.dirty:
            np.frombuffer(self.data, np.uint8)[:] = GARBAGE_BYTE ^ (BIAS if self.biased else 0)


@dataclass(eq=False)
class Operand:
    """A view that an instruction reads or writes.

    sources: numbers of the writes whose bytes it reads. number: its own number if it is written, else None.
    """

    ref: Ref
    sources: tuple[int, ...] = ()
    number: int | None = None
    buffer: Buffer | None = None
    constants: bytes = b""

    @property
    def constant(self) -> bool:
        return self.ref.space is Space.CONST

    @property
    def biased(self) -> bool:
        return self.buffer is not None and self.buffer.biased

    @cached_property
    def array(self) -> Array:
        """The stored bytes as a strided view: uint8 in a biased buffer, else the operand's own type."""
        if 0 in self.ref.shape:
            return np.empty(self.ref.shape, np.uint8 if self.biased else self.ref.dtype.numpy)
        if self.buffer is None:
            return np.ndarray(self.ref.shape, self.ref.dtype.numpy, self.constants, self.ref.address, self.ref.strides)
        kind = np.dtype(np.uint8) if self.biased else self.ref.dtype.numpy
        offset = self.ref.address - self.buffer.start
        return np.ndarray(self.ref.shape, kind, self.buffer.data, offset, self.ref.strides)

    @property
    def direct(self) -> bool:
        """Whether the view is plain packed memory that another library may use in place."""
        return bool(self.array.flags.c_contiguous and self.array.flags.aligned)

    def load(self) -> Array:
        """The values in the operand's own type; may be the memory itself, so not to be written to."""
        return self.get(self.array)

    def store(self, value: Array, checked: bool = True) -> None:
        """Write values of any integer or float type; they must fit the operand's type.

        Args:
            checked: see to it; False where a clamp already did.

        Raises:
            ValueError: the shape differs, or an integer does not fit.
        """
        if value.shape != self.ref.shape:
            raise ValueError(f"result of shape {value.shape} for an operand of shape {self.ref.shape}")
        want: np.dtype[Any] = self.ref.dtype.numpy
        if checked and value.dtype != want and want.kind in "iu" and value.dtype.kind in "iuf" and value.size:
            info = np.iinfo(want)
            if value.min() < info.min or value.max() > info.max:
                raise ValueError(f"result {value.min()}..{value.max()} does not fit {self.ref.dtype}")
        self.put(self.array, value)

    def put(self, target: Array, value: Array) -> None:
        """Write values that fit to `target`, the whole of `array` or a part of it."""
        if self.biased:
            np.bitwise_xor(value.astype(np.int8, copy=False).view(np.uint8), np.uint8(BIAS), out=target)
        else:
            np.copyto(target, value, casting="unsafe")

    def get(self, source: Array) -> Array:
        """The values in `source`, the whole of `array` or a part of it."""
        return (source ^ np.uint8(BIAS)).view(np.int8) if self.biased else source

    def overlaps(self, other: Operand) -> bool:
        """Whether the two may touch the same bytes (by their spans)."""
        if self.buffer is None or self.buffer is not other.buffer:
            return False
        (a, b), (c, d) = self.ref.span, other.ref.span
        return a < d and c < b


@dataclass(eq=False)
class Access:
    """An instruction with its operands resolved: field name -> operands (one, but for tuples of operands)."""

    at: int
    ins: Instruction
    operands: dict[str, list[Operand]] = field(default_factory=dict)
    running: bool = False

    def constant(self, name: str) -> Array:
        """The value of an operand that a kernel wants to know when it is made.

        Raises:
            Late: the operand lies in the arena, so its value is known only when the instruction runs.
        """
        operand = self[name]
        if not operand.constant and not self.running:
            raise Late
        return operand.load()

    def __getitem__(self, name: str) -> Operand:
        return self.operands[name][0]

    def get(self, name: str) -> Operand | None:
        """The operand, or None where an optional one is absent."""
        return self.operands[name][0] if name in self.operands else None

    @property
    def reads(self) -> list[Operand]:
        return [o for name, row in self.operands.items() if name not in self.ins.outputs for o in row]

    @property
    def writes(self) -> list[Operand]:
        return [o for name, row in self.operands.items() if name in self.ins.outputs for o in row]


@dataclass
class Storage:
    """Everything a program touches, resolved.

    taps: by instruction index (-1: before the first), the wanted tensors that are complete after it.
    """

    accesses: list[Access]
    feeds: dict[str, Operand]
    outputs: dict[str, Operand]
    taps: dict[int, list[tuple[str, Operand]]]
    buffers: list[Buffer]


def resolve(program: Program, tensors: Collection[str] = ()) -> Storage:
    """Replay the program's memory traffic and give every operand its buffer.

    Args:
        program: operands inside their memories (`check_bounds`).
        tensors: names of tensor symbols to be read after their instruction.
    """
    replay = _Replay(program)
    symbols = {t.name: t for t in program.tensors}
    taps: dict[int, list[tuple[str, Operand]]] = {}

    def tap(at: int) -> None:
        for name in wanted.get(at, ()):
            taps.setdefault(at, []).append((name, replay.read(symbols[name].ref)))

    wanted: dict[int, list[str]] = {}
    for name in dict.fromkeys(tensors):
        wanted.setdefault(symbols[name].at, []).append(name)
    feeds = {p.name: replay.write(p.ref) for p in program.inputs}
    tap(-1)
    accesses = []
    for at, ins in enumerate(program.instructions):
        access = Access(at, ins)
        rows = ins.operands()
        for name, ref in rows:
            if name not in ins.outputs:
                access.operands.setdefault(name, []).append(replay.read(ref))
        for name, ref in rows:
            if name in ins.outputs:
                access.operands.setdefault(name, []).append(replay.write(ref))
        accesses.append(access)
        tap(at)
    outputs = {p.name: replay.read(p.ref) for p in program.outputs}
    return Storage(accesses, feeds, outputs, taps, replay.assign())


class _Replay:
    """The arena as a map from byte to the number of its last write, and the union of what is read together."""

    def __init__(self, program: Program):
        self._constants = program.constants
        self._last = np.full(program.arena_bytes, GARBAGE, np.int32)
        self._operands: list[Operand] = []
        self._parent = [GARBAGE]

    def _bytes(self, ref: Ref) -> Array:
        """The map's entries of a view's bytes; a flat slice where the view is packed."""
        size = step = ref.dtype.itemsize
        for s, d in sorted((s, d) for d, s in zip(ref.shape, ref.strides) if d > 1):
            if s != step:
                break
            step *= d
        else:  # without gaps, in whatever order of axes
            return self._last[ref.address : ref.address + step]
        return np.ndarray((*ref.shape, size), np.int32, self._last, 4 * ref.address, (*(4 * s for s in ref.strides), 4))

    def read(self, ref: Ref) -> Operand:
        sources: tuple[int, ...] = ()
        if ref.space is Space.ARENA and 0 not in ref.shape:
            seen = self._bytes(ref).reshape(-1)
            first = seen[0]
            if (seen == first).all():
                sources = (int(first),)
            else:
                starts = np.flatnonzero(seen[1:] != seen[:-1]) + 1
                sources = tuple(int(v) for v in np.unique(np.append(seen[starts], first)))
            for s in sources[1:]:
                self._parent[self._find(s)] = self._find(sources[0])
        return self._keep(Operand(ref, sources))

    def write(self, ref: Ref) -> Operand:
        if ref.space is Space.CONST:
            raise ValueError("an instruction writes to read-only memory")
        number = len(self._parent)
        self._parent.append(number)
        if 0 not in ref.shape:
            self._bytes(ref)[...] = number
        return self._keep(Operand(ref, number=number))

    def _keep(self, operand: Operand) -> Operand:
        self._operands.append(operand)
        return operand

    def _find(self, number: int) -> int:
        while self._parent[number] != number:
            self._parent[number] = self._parent[self._parent[number]]
            number = self._parent[number]
        return number

    def assign(self) -> list[Buffer]:
        """Buffers for all operands, large enough for each of their views."""
        buffers: dict[int, Buffer] = {}
        for o in self._operands:
            if o.ref.space is Space.CONST:
                o.constants = self._constants
                continue
            lo, hi = o.ref.span
            # an empty operand reads nothing and belongs nowhere: a buffer under a number that no write has
            member = o.number if o.number is not None else o.sources[0] if o.sources else -1
            root = self._find(member) if member >= 0 else -1
            b = buffers.setdefault(root, Buffer(lo, hi))
            b.start, b.stop = min(b.start, lo), max(b.stop, hi)
            b.biased &= o.ref.dtype is DType.INT8
            b.dirty |= GARBAGE in o.sources
            o.buffer = b
        return list(buffers.values())
