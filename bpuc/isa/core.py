"""Operands, the instruction base class, and the encoding that follows from an instruction's declared fields.

An instruction is a frozen dataclass. Its fields are ints, floats, tuples of ints, `Ref` operands, optional
`Ref`s or tuples of `Ref`s; encoder, decoder and the table in FORMAT.md come from that one declaration.
"""

from __future__ import annotations

import dataclasses
import math
import struct
import types
import typing
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import cache
from typing import Any, ClassVar

from bpuc.base.dtypes import DType
from bpuc.base.errors import FileError

WORD = 64
MAX_RANK = 6
_DTYPES = tuple(d for d in DType if d is not DType.HOST)


class Space(IntEnum):
    """Where an operand lives."""

    ARENA = 0  # activations, inputs and outputs: read and written
    CONST = 1  # weights, tables, multipliers: read only


class Device(str, Enum):
    """Who carries out an instruction."""

    BPU = "BPU"
    CPU = "CPU"


class Engine(str, Enum):
    """Unit of the simulated machine; instructions of one engine never overlap in time."""

    MAC = "mac"
    VECTOR = "vector"
    DMA = "dma"
    CPU = "cpu"


@dataclass(frozen=True)
class Ref:
    """A strided view of memory: up to six dimensions, strides in bytes (0 repeats an element)."""

    space: Space
    dtype: DType
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements that the view names, repeats by stride 0 counted once."""
        n = self.dtype.itemsize
        for d, s in zip(self.shape, self.strides):
            n *= d if s else 1
        return n

    @property
    def span(self) -> tuple[int, int]:
        """First byte and the byte behind the last one that the view touches."""
        if 0 in self.shape:
            return self.address, self.address
        lo = sum((d - 1) * s for d, s in zip(self.shape, self.strides) if s < 0)
        hi = sum((d - 1) * s for d, s in zip(self.shape, self.strides) if s > 0)
        return self.address + lo, self.address + hi + self.dtype.itemsize

    def encode(self) -> bytes:
        """One 64-byte word."""
        pad = (0,) * (MAX_RANK - len(self.shape))
        return struct.pack(
            "<BBBxxxxxQ6I6i",
            self.space,
            _DTYPES.index(self.dtype),
            len(self.shape),
            self.address,
            *self.shape,
            *pad,
            *self.strides,
            *pad,
        )

    @classmethod
    def decode(cls, word: bytes) -> Ref:
        """Inverse of `encode`; raises ValueError or IndexError on an impossible word."""
        space, dtype, rank, address, *rest = struct.unpack("<BBBxxxxxQ6I6i", word)
        if rank > MAX_RANK:
            raise ValueError(f"operand of rank {rank}")
        return cls(Space(space), _DTYPES[dtype], address, tuple(rest[:rank]), tuple(rest[6 : 6 + rank]))


def contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Row-major strides in bytes; those of no elements at all are small, however long the other axes."""
    if 0 in shape:
        shape = (1,) * len(shape)
    strides = [0] * len(shape)
    step = itemsize
    for i in range(len(shape) - 1, -1, -1):
        strides[i] = step
        step *= max(shape[i], 1)
    return tuple(strides)


@dataclass(frozen=True)
class Work:
    """What an instruction asks of the machine; the latency model turns it into time.

    macs: multiply-accumulates as the contract counts them (taps on a zero border count).
    elements: results computed one by one outside the MAC array.
    """

    engine: Engine
    macs: int = 0
    elements: int = 0


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """Base of all instructions; `op` is the index of the program's op that it carries out."""

    opcode: ClassVar[int]
    device: ClassVar[Device] = Device.BPU
    outputs: ClassVar[tuple[str, ...]] = ("y",)
    op: int

    def work(self) -> Work:
        """Amount of work, from the fields alone."""
        raise NotImplementedError

    def operands(self) -> list[tuple[str, Ref]]:
        """All operands as (field name, view), in the order of declaration."""
        found: list[tuple[str, Ref]] = []
        for name, kind in layout(type(self)):
            value = getattr(self, name)
            if kind == "ref" and value is not None:
                found.append((name, value))
            elif kind == "refs":
                found.extend((name, v) for v in value)
        return found

    def reads(self) -> list[Ref]:
        """Operands that are read."""
        return [ref for name, ref in self.operands() if name not in self.outputs]

    def writes(self) -> list[Ref]:
        """Operands that are written."""
        return [ref for name, ref in self.operands() if name in self.outputs]


_LAYOUTS: dict[int, tuple[tuple[str, str], ...]] = {}


def layout(cls: type[Instruction]) -> tuple[tuple[str, str], ...]:
    """(field name, kind) in stored order, kind one of int, float, ints, ref, refs; `op` is part of the header."""
    if cls.opcode in _LAYOUTS:
        return _LAYOUTS[cls.opcode]
    hints = typing.get_type_hints(cls)
    rows = []
    for f in dataclasses.fields(cls):
        if f.name == "op":
            continue
        hint = hints[f.name]
        if typing.get_origin(hint) in (types.UnionType, typing.Union):
            hint = next(a for a in typing.get_args(hint) if a is not type(None))
        if hint is Ref:
            kind = "ref"
        elif hint is float:
            kind = "float"
        elif isinstance(hint, type) and issubclass(hint, int):
            kind = "int"
        else:
            kind = "refs" if typing.get_args(hint)[0] is Ref else "ints"
        rows.append((f.name, kind))
    return _LAYOUTS.setdefault(cls.opcode, tuple(rows))


@cache
def opcodes() -> dict[int, type[Instruction]]:
    """All instructions by opcode."""
    return {cls.opcode: cls for cls in Instruction.__subclasses__()}


def _required(cls: type[Instruction], name: str) -> bool:
    """Whether a field cannot be absent."""
    return bool(cls.__dataclass_fields__[name].default is dataclasses.MISSING)


def encode(ins: Instruction) -> bytes:
    """Header and scalar fields, padded to whole 64-byte words, then one word per operand.

    Header: opcode u16, words u16 of the scalar part, op u32, number of operands u32, reserved u32.
    Scalars follow as 8-byte little-endian values; a tuple is its length and its members, an operand the count
    of words it takes (0 where an optional one is absent).
    """
    scalars = b""
    refs: list[Ref] = []
    for name, kind in layout(type(ins)):
        value: Any = getattr(ins, name)
        if kind == "int":
            scalars += struct.pack("<q", value)
        elif kind == "float":
            scalars += struct.pack("<d", value)
        elif kind == "ints":
            scalars += struct.pack(f"<q{len(value)}q", len(value), *value)
        else:
            some = value if kind == "refs" else () if value is None else (value,)
            scalars += struct.pack("<q", len(some))
            refs += some
    words = -(-(16 + len(scalars)) // WORD)
    head = struct.pack("<HHIII", ins.opcode, words, ins.op, len(refs), 0) + scalars
    return head.ljust(words * WORD, b"\0") + b"".join(r.encode() for r in refs)


def decode(data: bytes) -> list[Instruction]:
    """All instructions of a program part.

    Raises:
        FileError: unknown opcode, impossible operand, or the stream ends inside an instruction.
    """
    out: list[Instruction] = []
    at = 0
    while at < len(data):
        try:
            opcode, words, op, n_refs, _ = struct.unpack_from("<HHIII", data, at)
            if opcode not in opcodes():
                raise ValueError(f"unknown opcode {opcode}")
            cls = opcodes()[opcode]
            pos, end = at + 16, at + words * WORD
            refs = [Ref.decode(data[p : p + WORD]) for p in range(end, end + n_refs * WORD, WORD)]
            values: dict[str, Any] = {"op": op}
            for name, kind in layout(cls):
                if kind == "float":
                    values[name] = struct.unpack_from("<d", data, pos)[0]
                else:
                    values[name] = struct.unpack_from("<q", data, pos)[0]
                pos += 8
                if kind == "ints":
                    n = values[name]
                    if not 0 <= n <= 64:
                        raise ValueError(f"tuple of {n} members")
                    values[name] = struct.unpack_from(f"<{n}q", data, pos)
                    pos += 8 * n
                elif kind == "refs":
                    n = values[name]
                    if not 0 <= n <= len(refs):
                        raise ValueError(f"{n} operands of {len(refs)}")
                    values[name], refs = tuple(refs[:n]), refs[n:]
                elif kind == "ref":
                    values[name] = refs.pop(0) if values[name] else None
                    if values[name] is None and _required(cls, name):
                        raise ValueError(f"operand {name} is absent")
                if pos > end:
                    raise ValueError("fields beyond the instruction")
            if refs:
                raise ValueError(f"{len(refs)} operands too many")
            out.append(cls(**values))
        except (struct.error, ValueError, IndexError) as e:
            raise FileError(f"program.bin is damaged at byte {at}: {e}") from e
        at = end + n_refs * WORD
    return out
