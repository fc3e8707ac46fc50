"""A bench for single instructions: operands from arrays, and the result after one step of an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bpuc.base.dtypes import DType
from bpuc.isa import Instruction, Ref, Space, contiguous_strides
from bpuc.sim.reference.engine import EXECUTE
from bpuc.sim.reference.memory import Memory

GUARD = 64


class Bench:
    """Collects operands in both memories; `run` executes one instruction and returns what stands in y."""

    def __init__(self) -> None:
        self.constants = bytearray()
        self.arena = bytearray()

    def const(self, array: Any, dtype: Any = None) -> Ref:
        return self._place(Space.CONST, self.constants, np.asarray(array, dtype))

    def put(self, array: Any, dtype: Any = None) -> Ref:
        return self._place(Space.ARENA, self.arena, np.asarray(array, dtype))

    def out(self, shape: tuple[int, ...], dtype: DType = DType.INT8) -> Ref:
        return self._place(Space.ARENA, self.arena, np.full(shape, 99, dtype.numpy))

    def _place(self, space: Space, memory: bytearray, a: np.ndarray) -> Ref:
        address = len(memory)
        memory.extend(np.ascontiguousarray(a).tobytes() + bytes([0x77]) * GUARD)
        return Ref(space, DType.of(a), address, a.shape, contiguous_strides(a.shape, a.itemsize))

    def run(self, ins: Instruction) -> np.ndarray:
        memory = Memory(len(self.arena), bytes(self.constants))
        memory._arena[:] = self.arena
        EXECUTE[type(ins)](ins, memory)
        before = np.frombuffer(bytes(self.arena), np.uint8).copy()
        after = np.frombuffer(bytes(memory._arena), np.uint8).copy()
        lo, hi = ins.writes()[0].span
        before[lo:hi] = after[lo:hi] = 0
        assert np.array_equal(before, after), "wrote outside of its result"
        return np.array(memory.view(ins.writes()[0]))


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240229)


def shift_right(value: int, shift: int, lo: int, hi: int) -> int:
    """The rule in Python's unbounded integers: add half, floor, clamp."""
    return max(lo, min(hi, (value + 2 ** (shift - 1)) // 2**shift))


@pytest.fixture
def requant() -> Callable[..., np.ndarray]:
    """Elementwise `shift_right` of an array of Python-sized integers."""

    def f(value: Any, shift: Any, lo: int, hi: int) -> np.ndarray:
        value, shift = np.broadcast_arrays(np.asarray(value, object), np.asarray(shift, object))
        flat = [shift_right(int(v), int(s), lo, hi) for v, s in zip(value.flat, shift.flat)]
        return np.array(flat, np.int64).reshape(value.shape)

    return f
