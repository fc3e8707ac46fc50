"""The plan of the arena: no two buffers that live at the same time share a byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bpuc.base.dtypes import DType
from bpuc.isa import Fill, Move, Ref, Space, contiguous_strides
from bpuc.lower.memory import ALIGN, Buffer, VirtualMemory, aligned, place


@st.composite
def lifetimes(draw: st.DrawFn) -> list[Buffer]:
    buffers = []
    for start in range(draw(st.integers(1, 30))):
        first = draw(st.integers(0, 20))
        buffers.append(Buffer(start, aligned(draw(st.integers(1, 5000))), first, first + draw(st.integers(0, 8))))
    return buffers


@given(lifetimes())
def test_live_buffers_never_overlap(buffers: list[Buffer]) -> None:
    end = place(buffers)
    for i, a in enumerate(buffers):
        assert a.address % ALIGN == 0
        assert a.address >= 0
        assert a.address + a.size <= end
        for b in buffers[i + 1 :]:
            alive_together = a.first <= b.last and b.first <= a.last
            apart = a.address + a.size <= b.address or b.address + b.size <= a.address
            assert apart or not alive_together
    assert end == max(b.address + b.size for b in buffers)


@given(lifetimes())
def test_the_plan_is_no_larger_than_no_plan_and_no_smaller_than_the_peak(buffers: list[Buffer]) -> None:
    end = place(buffers)
    assert end <= sum(b.size for b in buffers)
    for moment in range(30):
        assert end >= sum(b.size for b in buffers if b.first <= moment <= b.last)


@given(st.integers(1, 10**7))
def test_sizes_are_aligned(n: int) -> None:
    assert aligned(n) % ALIGN == 0
    assert n <= aligned(n) < n + ALIGN


def ref(memory: VirtualMemory, n: int) -> Ref:
    return Ref(Space.ARENA, DType.INT8, memory.allocate(n), (n,), contiguous_strides((n,), 1))


def test_a_chain_reuses_two_places() -> None:
    memory = VirtualMemory()
    a, b, c, d = (ref(memory, 64) for _ in range(4))
    chain = [Move(op=0, x=x, y=y) for x, y in ((a, b), (b, c), (c, d))]
    assert memory.plan(chain, [a], [d]) == 128
    planned = [memory.relocate(i) for i in chain]
    assert all(i.x.address != i.y.address for i in planned)
    assert planned[0].y.address == planned[1].x.address


def test_inputs_live_from_the_start_and_outputs_to_the_end() -> None:
    memory = VirtualMemory()
    late, early, scratch, other = (ref(memory, 64) for _ in range(4))
    # `late` is an input that only the last instruction reads; `early` an output that the first one writes
    program = [Fill(op=0, y=early, value=1), Fill(op=0, y=scratch, value=2), Move(op=0, x=late, y=other)]
    memory.plan(program, [late], [early, other])
    first, second, last = (memory.relocate(i) for i in program)
    assert second.y.address not in (last.x.address, first.y.address)
    assert first.y.address not in (last.x.address, last.y.address)


def test_a_view_into_a_buffer_moves_with_it() -> None:
    memory = VirtualMemory()
    ref(memory, 200)
    whole = ref(memory, 100)
    part = Ref(Space.ARENA, DType.INT8, whole.address + 40, (10,), (1,))
    memory.plan([Fill(op=0, y=whole, value=0)], [], [whole])
    assert memory.real(part).address == memory.real(whole).address + 40
    constant = Ref(Space.CONST, DType.INT8, 7, (1,), (1,))
    assert memory.real(constant) is constant


def test_what_no_instruction_touches_takes_no_place() -> None:
    memory = VirtualMemory()
    used, _ = ref(memory, 64), ref(memory, 1 << 20)
    assert memory.plan([Fill(op=0, y=used, value=0)], [], [used]) == 64
