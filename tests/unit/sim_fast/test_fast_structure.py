"""How values meet in memory: reuse, joins, overlaps, edits of the decoded program, and what is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from bpuc.base.dtypes import DType
from bpuc.base.errors import FileError
from bpuc.isa import Conv, Eltwise, EltwiseKind, Lut, Move, Ref
from bpuc.program import Program
from bpuc.sim.fast import FastEngine
from bpuc.sim.fast.storage import resolve
from bpuc.sim.reference import ReferenceEngine
from tests.unit.sim_fast.fast_build import Builder, packed, part
from tests.unit.sim_fast.fast_check import feeds_of, same


def residual_net(seed: int = 0) -> Program:
    """Conv stack, a block with a residual, a Concat of two branches, a table, a pool, a Linear."""
    b = Builder(seed)
    image = b.input("image", (1, 3, 24, 24), DType.FLOAT32)
    x = b.conv(b.quantize(image, 0.03), 16, (3, 3), strides=(2, 2), lo=0)
    x = b.max_pool(x, (3, 3), (2, 2), (1, 1, 1, 1), (6, 6))
    y = b.conv(b.conv(x, 16, (3, 3), lo=0), 16, (3, 3), res=x, lo=0)
    z = b.lut(b.conv(y, 8, (1, 1)))
    c = b.concat([y, z], 1)
    d = b.conv(c, 24, (3, 3), group=24, lo=0, hi=100)
    e = b.average_pool(d, (6, 6), (1, 1), (0, 0, 0, 0), (1, 1))
    out = b.matmul(dataclasses.replace(e, shape=(1, 24), strides=(24, 1)), 10)
    b.output("logits", b.dequantize(out, 0.05))
    return b.program()


def test_a_small_network() -> None:
    same(residual_net(), samples=3, threads=(1, 2, 3))


def test_a_reused_address_is_two_buffers() -> None:
    b = Builder(1)
    x = b.input("x", (1, 4, 8, 8))
    first = b.alloc((1, 4, 8, 8))
    second = b.alloc((1, 4, 8, 8))
    b.conv(x, 4, (3, 3), y=first)
    b.conv(first, 4, (3, 3), y=second)
    b.conv(second, 4, (3, 3), y=first)
    b.output("y", first)
    program = b.program()
    same(program)
    buffers = {id(o.buffer) for a in resolve(program).accesses for o in a.writes}
    assert len(buffers) == 3


def test_a_concat_written_in_place_is_one_buffer() -> None:
    b = Builder(2)
    x = b.input("x", (1, 4, 8, 8))
    whole = b.alloc((1, 10, 8, 8))
    b.conv(x, 4, (3, 3), y=part(whole, 1, 0, 4))
    b.conv(x, 6, (3, 3), y=part(whole, 1, 4, 6))
    b.output("y", b.conv(whole, 4, (1, 1)))
    program = b.program()
    same(program)
    one, two, _ = resolve(program).accesses
    assert one["y"].buffer is two["y"].buffer


def test_a_concat_along_the_last_axis_written_in_place() -> None:
    b = Builder(3)
    x = b.input("x", (1, 4, 8, 8))
    whole = b.alloc((1, 4, 8, 16))
    b.conv(x, 4, (3, 3), y=part(whole, 3, 0, 8))
    b.conv(x, 4, (1, 1), y=part(whole, 3, 8, 8))
    b.output("y", b.conv(whole, 4, (1, 1)))
    same(b.program())


def test_parts_of_a_tensor_are_read_where_they_lie() -> None:
    b = Builder(4)
    x = b.conv(b.input("x", (1, 4, 8, 8)), 8, (3, 3))
    b.output("a", b.conv(part(x, 1, 0, 4), 4, (3, 3)))
    b.output("b", b.conv(part(x, 1, 4, 4), 4, (3, 3)))
    b.output("c", b.conv(part(x, 2, 3, 4), 4, (3, 3)))
    same(b.program())


def test_a_write_over_half_of_a_tensor_that_is_still_read() -> None:
    b = Builder(5)
    x = b.input("x", (1, 4, 8, 8))
    y = b.conv(x, 8, (3, 3))
    before = b.conv(y, 8, (1, 1))
    b.conv(x, 4, (3, 3), y=part(y, 1, 2, 4))
    after = b.conv(y, 8, (1, 1))
    b.output("before", before)
    b.output("after", after)
    same(b.program())


def test_an_address_a_few_bytes_off_reads_across_two_tensors() -> None:
    b = Builder(6)
    x = b.input("x", (1, 4, 8, 8))
    one, two = b.conv(x, 4, (3, 3)), b.conv(x, 4, (3, 3))
    assert two.address == one.address + 256
    b.output("y", b.conv(packed(one.address + 100, (1, 4, 8, 8)), 4, (3, 3)))
    same(b.program())


def test_memory_that_nothing_wrote() -> None:
    b = Builder(7)
    x = b.input("x", (1, 4, 8, 8))
    ghost = b.alloc((1, 4, 8, 8))
    b.output("y", b.conv(ghost, 4, (3, 3)))
    b.output("z", b.eltwise(EltwiseKind.ADD, x, ghost))
    b.conv(x, 4, (3, 3), y=ghost)  # must not be seen by the next run
    same(b.program())


def test_bytes_of_one_type_read_as_another() -> None:
    b = Builder(8)
    x = b.input("x", (1, 4, 8, 8))
    y = b.conv(x, 4, (3, 3))
    b.output("wide", b.lut(packed(y.address, (1, 2, 8, 8), DType.INT16)))
    b.output("again", b.conv(y, 4, (3, 3)))
    same(b.program())


def test_an_instruction_in_place() -> None:
    b = Builder(9)
    x = b.input("x", (1, 8, 16, 16))
    y = b.conv(x, 8, (3, 3))
    b.lut(y)
    b.instructions[-1] = dataclasses.replace(b.instructions[-1], y=y)
    b.conv(y, 8, (3, 3), res=y, y=y)
    b.output("y", y)
    same(b.program())


def test_an_instruction_that_overlaps_its_own_input() -> None:
    b = Builder(10)
    x = b.input("x", (1, 8, 8, 8))
    y = b.conv(x, 8, (3, 3))
    b.conv(part(y, 1, 0, 6), 6, (3, 3), y=part(y, 1, 2, 6))
    b.output("y", y)
    same(b.program())


def test_a_tap_sees_the_value_before_it_is_written_over() -> None:
    b = Builder(11)
    x = b.input("x", (1, 4, 8, 8))
    y = b.conv(x, 4, (3, 3))
    z = b.conv(x, 4, (3, 3), y=y)
    b.output("y", b.conv(z, 4, (1, 1)))
    same(b.program())


def test_weights_in_the_arena() -> None:
    b = Builder(12)
    x = b.input("x", (1, 4, 8, 8))
    b.output("y", b.conv(x, 4, (3, 3)))
    conv: Conv = b.instructions[-1]
    w = b.input("w", conv.w.shape)
    b.instructions[-1] = dataclasses.replace(conv, w=w)
    same(b.program())


def test_tables_and_other_constants_in_the_arena() -> None:
    b = Builder(13)
    x = b.input("x", (1, 4, 8, 8))
    y = b.lut(x)
    table = b.input("table", (256,))
    b.instructions[-1] = dataclasses.replace(b.instructions[-1], table=table)
    b.output("y", y)
    same(b.program())


def edited(program: Program, at: int, **fields: object) -> Program:
    instructions = list(program.instructions)
    instructions[at] = dataclasses.replace(instructions[at], **fields)
    return dataclasses.replace(program, instructions=instructions)


def first(program: Program, kind: type) -> int:
    return next(i for i, ins in enumerate(program.instructions) if isinstance(ins, kind))


def test_both_engines_follow_an_edited_multiplier() -> None:
    program = residual_net()
    at = first(program, Conv)
    mult: Ref = program.instructions[at].mult
    raw = bytearray(program.constants)
    view = np.frombuffer(raw, "<i4", mult.shape[0], mult.address)
    view[:] = view // 2
    changed = dataclasses.replace(program, constants=bytes(raw))
    assert_same_and_different(program, changed)


def test_both_engines_follow_an_edited_address() -> None:
    program = residual_net()
    at = first(program, Lut)
    x = program.instructions[at].x
    changed = edited(program, at, x=dataclasses.replace(x, address=x.address - 64))
    assert_same_and_different(program, changed)


def test_both_engines_follow_an_edited_size() -> None:
    program = residual_net()
    at = max(i for i, ins in enumerate(program.instructions) if isinstance(ins, Move))
    move = program.instructions[at]
    shorter = (*move.x.shape[:-1], move.x.shape[-1] - 1)
    changed = edited(
        program, at, x=dataclasses.replace(move.x, shape=shorter), y=dataclasses.replace(move.y, shape=shorter)
    )
    assert_same_and_different(program, changed)


def test_both_engines_follow_an_edited_output_size() -> None:
    """The border of a window follows from y's shape, not from the pads alone."""
    b = Builder(14)
    y = b.conv(b.input("x", (1, 4, 9, 9)), 4, (3, 3), strides=(2, 2), pads=(1, 1, 0, 0))
    b.output("y", y)
    program = b.program()
    for size in (3, 5, 6):
        smaller = packed(y.address, (1, 4, size, size))
        changed = dataclasses.replace(edited(program, 0, y=smaller), arena_bytes=program.arena_bytes + 256, tensors=[])
        changed.outputs = [dataclasses.replace(program.outputs[0], shape=smaller.shape, ref=smaller)]
        feeds = feeds_of(changed, np.random.default_rng(0))
        want = ReferenceEngine(changed).run(feeds)["y"]
        np.testing.assert_array_equal(FastEngine(changed).run(feeds)["y"], want)


def assert_same_and_different(program: Program, changed: Program) -> None:
    same(changed)
    feeds = feeds_of(program, np.random.default_rng(0))
    before, after = (FastEngine(p).run(feeds) for p in (program, changed))
    assert any(not np.array_equal(before[n], after[n]) for n in before)


def test_an_operand_outside_of_memory_is_refused() -> None:
    program = residual_net()
    at = first(program, Conv)
    x = program.instructions[at].x
    changed = edited(program, at, x=dataclasses.replace(x, address=program.arena_bytes))
    with pytest.raises(FileError, match=rf"instruction {at} \(Conv\) operand x"):
        FastEngine(changed)


def test_an_accumulator_that_leaves_int32_is_an_error_in_both() -> None:
    b = Builder(15)
    x = b.input("x", (1, 4, 8, 8))
    y = b.conv(x, 4, (3, 3))
    conv: Conv = b.instructions[-1]
    b.instructions[-1] = dataclasses.replace(conv, bias=b.const(np.full(4, 2**31 - 1), DType.INT32))
    b.output("y", y)
    program = b.program()
    feeds = {"x": np.full((1, 4, 8, 8), 127, np.int8)}
    feeds["x"][:, :, ::2] = -128
    for engine in (ReferenceEngine, FastEngine):
        with pytest.raises(FileError, match="does not fit int32"):
            engine(program).run(feeds)


def test_a_residual_whose_product_leaves_int64_is_an_error_in_both() -> None:
    b = Builder(18)
    x = b.input("x", (1, 4, 8, 8))
    y = b.conv(x, 4, (3, 3), res=x)
    b.instructions[-1] = dataclasses.replace(b.instructions[-1], res_mult=b.const(np.full(4, 1 << 56), DType.INT64))
    b.output("y", y)
    feeds = {"x": np.full(x.shape, -128, np.int8)}
    for engine in (ReferenceEngine, FastEngine):
        with pytest.raises(FileError, match="leaves int64"):
            engine(b.program()).run(feeds)


def test_an_impossible_instruction_names_itself() -> None:
    b = Builder(16)
    x = b.input("x", (1, 4, 8, 8))
    y = b.alloc((1, 4, 8, 7))
    b.emit(Move(op=0, x=x, y=y))
    b.output("y", y)
    with pytest.raises(FileError, match=r"instruction 0 \(Move\)"):
        FastEngine(b.program()).run({"x": np.zeros(x.shape, np.int8)})


def test_a_result_that_does_not_fit_is_an_error_in_both() -> None:
    b = Builder(17)
    x = b.input("x", (1, 4, 8, 8))
    y = b.eltwise(EltwiseKind.ADD, x, x)
    wide: Eltwise = b.instructions[-1]
    b.instructions[-1] = dataclasses.replace(wide, mult_a=wide.mult_a * 3, hi=1000)
    b.output("y", y)
    feeds = {"x": np.full(x.shape, 127, np.int8)}
    for engine in (ReferenceEngine, FastEngine):
        with pytest.raises(FileError, match="does not fit int8"):
            engine(b.program()).run(feeds)


def test_an_unknown_tensor() -> None:
    with pytest.raises(KeyError):
        FastEngine(residual_net(), 1, ["nothing"])
