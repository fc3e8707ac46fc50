"""Every instruction survives encoding; damaged streams are refused, never misread in silence."""

import dataclasses
import struct
import types
import typing
from enum import IntEnum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpuc.base.dtypes import DType
from bpuc.base.errors import FileError
from bpuc.isa import Fill, Instruction, Move, Ref, Space, Work, contiguous_strides, decode, encode
from bpuc.isa.core import MAX_RANK, WORD, opcodes

int64 = st.integers(-(2**63), 2**63 - 1)


@st.composite
def refs(draw: st.DrawFn) -> Ref:
    rank = draw(st.integers(0, MAX_RANK))
    shape = tuple(draw(st.integers(0, 2**32 - 1)) for _ in range(rank))
    strides = tuple(draw(st.integers(-(2**31), 2**31 - 1)) for _ in range(rank))
    return Ref(
        draw(st.sampled_from(Space)),
        draw(st.sampled_from([d for d in DType if d is not DType.HOST])),
        draw(st.integers(0, 2**64 - 1)),
        shape,
        strides,
    )


def values(hint: object) -> st.SearchStrategy:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        inner = next(a for a in typing.get_args(hint) if a is not type(None))
        return st.none() | values(inner)
    if hint is Ref:
        return refs()
    if hint is float:
        return st.floats(allow_nan=False)
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return st.sampled_from(hint)
    if hint is int:
        return int64
    assert typing.get_origin(hint) is tuple, hint
    member = typing.get_args(hint)[0]
    return st.lists(values(member), max_size=6).map(tuple)


def instructions(cls: type[Instruction]) -> st.SearchStrategy[Instruction]:
    hints = typing.get_type_hints(cls)
    fields = {f.name: values(hints[f.name]) for f in dataclasses.fields(cls)}
    fields["op"] = st.integers(0, 2**32 - 1)
    return st.builds(cls, **fields)


ALL = sorted(opcodes().values(), key=lambda c: c.opcode)


def test_opcodes_are_unique_and_nonzero() -> None:
    assert len({c.opcode for c in Instruction.__subclasses__()}) == len(Instruction.__subclasses__()) == 19
    assert all(0 < c.opcode < 2**16 for c in ALL)


@pytest.mark.parametrize("cls", ALL, ids=lambda c: c.__name__)
def test_round_trip(cls: type[Instruction]) -> None:
    @settings(max_examples=30, deadline=None)
    @given(st.lists(instructions(cls), min_size=1, max_size=3))
    def check(stream: list[Instruction]) -> None:
        raw = b"".join(encode(i) for i in stream)
        assert len(raw) % WORD == 0
        assert decode(raw) == stream

    check()


@settings(max_examples=60, deadline=None)
@given(refs())
def test_operand_round_trip(ref: Ref) -> None:
    assert len(ref.encode()) == WORD
    assert Ref.decode(ref.encode()) == ref


def _ref(shape: tuple[int, ...], strides: tuple[int, ...], address: int = 100, dtype: DType = DType.INT16) -> Ref:
    return Ref(Space.ARENA, dtype, address, shape, strides)


def test_a_move_has_the_documented_bytes() -> None:
    x, y = _ref((2, 3), (6, 2)), _ref((2, 3), (6, 2), 200)
    raw = encode(Move(op=7, x=x, y=y))
    assert len(raw) == 3 * WORD
    assert raw[:16] == struct.pack("<HHIII", 12, 1, 7, 2, 0)  # opcode, words, op, operands, reserved
    assert raw[16:32] == struct.pack("<qq", 1, 1)  # one word each for x and y
    assert raw[32:64] == bytes(32)
    operand = struct.pack("<BBBxxxxxQ6I6i", 0, 1, 2, 200, 2, 3, 0, 0, 0, 0, 6, 2, 0, 0, 0, 0)
    assert raw[128:192] == operand


@pytest.mark.parametrize(
    ("ref", "span", "nbytes"),
    [
        (_ref((2, 3), (6, 2)), (100, 112), 12),
        (_ref((2, 3), (-6, 2)), (94, 106), 12),
        (_ref((4, 3), (0, 2)), (100, 106), 6),  # a row repeated four times
        (_ref((), ()), (100, 102), 2),
        (_ref((0, 3), (6, 2)), (100, 100), 0),
    ],
)
def test_span_and_size(ref: Ref, span: tuple[int, int], nbytes: int) -> None:
    assert ref.span == span
    assert ref.nbytes == nbytes


def test_contiguous_strides_are_row_major() -> None:
    assert contiguous_strides((2, 3, 4), 2) == (24, 8, 2)
    assert contiguous_strides((), 4) == ()


def test_reads_and_writes_follow_the_declaration() -> None:
    x, y = _ref((1,), (2,)), _ref((1,), (2,), 0)
    ins = Move(op=0, x=x, y=y)
    assert (ins.reads(), ins.writes()) == ([x], [y])


def test_work_of_a_base_instruction_is_not_defined() -> None:
    with pytest.raises(NotImplementedError):
        Instruction(op=0).work()
    assert Fill(op=0, y=_ref((2, 3), (6, 2)), value=0).work() == Work(
        Fill(op=0, y=_ref((), ()), value=0).work().engine, 0, 6
    )


STREAM = encode(Move(op=0, x=_ref((2, 3), (6, 2)), y=_ref((2, 3), (6, 2), 200)))


@pytest.mark.parametrize("size", [1, 15, 31, 64, 100, len(STREAM) - 1])
def test_a_stream_that_ends_early_is_refused(size: int) -> None:
    with pytest.raises(FileError, match="damaged at byte 0"):
        decode(STREAM[:size])


@pytest.mark.parametrize(
    ("at", "value", "what"),
    [
        (0, 0xFF, "unknown opcode"),
        (2, 0, "fields beyond the instruction"),
        (64, 9, "unknown space"),
        (65, 77, "unknown dtype"),
        (66, 7, "rank above six"),
        (8, 1, "fewer operands than fields"),
        (16, 0, "more operands than fields"),
    ],
)
def test_impossible_values_are_refused(at: int, value: int, what: str) -> None:
    raw = bytearray(STREAM)
    raw[at] = value
    with pytest.raises(FileError, match="damaged"):
        decode(bytes(raw))
