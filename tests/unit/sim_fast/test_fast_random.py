"""Random networks in random memory: addresses are reused as soon as a tensor is dead, joins are written in place."""

from __future__ import annotations

import numpy as np
import pytest

from bpuc.base.dtypes import DType
from bpuc.isa import EltwiseKind, Ref
from tests.unit.sim_fast.fast_build import Builder, packed, part
from tests.unit.sim_fast.fast_check import same


class Recycler(Builder):
    """A builder whose memory is small: first fit among what is free."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.taken: list[tuple[int, int]] = []

    def alloc(self, shape: tuple[int, ...], dtype: DType = DType.INT8) -> Ref:
        n = int(np.prod(shape)) * dtype.itemsize
        at = 0
        for lo, hi in sorted(self.taken):
            if at + n <= lo:
                break
            at = max(at, -(-hi // 64) * 64)
        self.taken.append((at, at + n))
        self.top = max(self.top, at + n)
        return packed(at, shape, dtype)

    def free(self, ref: Ref) -> None:
        self.taken.remove(ref.span)


def network(seed: int) -> Recycler:
    """Twenty layers on maps of two sizes; a tensor is dropped at random once it was read."""
    b = Recycler(seed)
    rng = b.rng
    live = [b.input("x", (1, 8, 8, 8)), b.input("z", (1, 4, 8, 8))]
    for _ in range(20):
        x = live[int(rng.integers(len(live)))]
        same_shape = [t for t in live if t.shape == x.shape]
        other = same_shape[int(rng.integers(len(same_shape)))]
        c = x.shape[1]
        kind = rng.choice(["conv", "residual", "depthwise", "pointwise", "lut", "add", "mul", "pool", "join", "moved"])
        lo = int(rng.choice([-128, 0, -20]))
        if kind == "conv":
            live.append(b.conv(x, int(rng.integers(1, 5)) * 4, (3, 3), lo=lo))
        elif kind == "residual":
            live.append(b.conv(x, c, (3, 3), res=other, lo=lo))
        elif kind == "depthwise":
            live.append(b.conv(x, c, (3, 3), group=c, lo=lo))
        elif kind == "pointwise":
            live.append(b.conv(x, int(rng.integers(1, 20)), (1, 1), lo=lo))
        elif kind == "lut":
            live.append(b.lut(x))
        elif kind in ("add", "mul"):
            live.append(b.eltwise(EltwiseKind[kind.upper()], x, other))
        elif kind == "pool":
            live.append(b.max_pool(x, (3, 3), (1, 1), (1, 1, 1, 1), (8, 8)))
        elif kind == "join":
            whole = b.alloc((1, 12, 8, 8))
            b.conv(x, 4, (1, 1), y=part(whole, 1, 0, 4))
            b.conv(other, 8, (3, 3), y=part(whole, 1, 4, 8))
            live.append(whole)
        else:
            y = b.alloc((1, c, 8, 16))
            b.move(x, part(y, 3, 8, 8))
            b.move(other, part(y, 3, 0, 8))
            live.append(b.conv(part(y, 3, int(rng.integers(9)), 8), 4, (3, 3)))
            b.free(y)
        while len(live) > 4:
            b.free(live.pop(int(rng.integers(len(live) - 1))))
    for i, t in enumerate(live):
        b.output(f"out{i}", t)
    return b


@pytest.mark.parametrize("seed", range(25))
def test_a_random_network(seed: int) -> None:
    b = network(seed)
    assert b.top < sum(t.ref.nbytes for t in b.tensors)  # memory was reused
    same(b.program(), seed, samples=1)


@pytest.mark.parametrize("seed", range(25, 35))
def test_a_random_network_with_one_address_astray(seed: int) -> None:
    """Whatever a wrong address makes of the values, both engines see the same."""
    import dataclasses

    b = network(seed)
    program = b.program()
    for _ in range(3):
        at = int(b.rng.integers(len(program.instructions)))
        ins = program.instructions[at]
        field = str(b.rng.choice([n for n, r in ins.operands() if r.space == 0]))
        ref = getattr(ins, field)
        room = program.arena_bytes - (ref.span[1] - ref.span[0])
        moved = dataclasses.replace(ref, address=int(b.rng.integers(0, room + 1)))
        program.instructions[at] = dataclasses.replace(ins, **{field: moved})
    same(program, seed, samples=1)
