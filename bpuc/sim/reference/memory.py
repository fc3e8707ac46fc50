"""The two memories of the machine, and operands as numpy views of them."""

from __future__ import annotations

import numpy as np

from bpuc.isa import Ref, Space
from bpuc.sim.engine import Array

# What stands in the arena before a run: no value that a correct program may rely on.
GARBAGE = 0xA5


class Memory:
    """Arena and constants as real bytes, so that a mistake in the memory plan shows as a wrong result."""

    def __init__(self, arena_bytes: int, constants: bytes):
        self._arena = bytearray(arena_bytes)
        self._constants = constants

    def reset(self) -> None:
        """Fill the arena with garbage: values of an earlier run or a lucky zero must not help a program."""
        np.frombuffer(self._arena, np.uint8)[:] = GARBAGE

    def view(self, ref: Ref) -> Array:
        """The operand as a strided view (read-only for constants); raises ValueError outside the memory."""
        if 0 in ref.shape:
            return np.empty(ref.shape, ref.dtype.numpy)
        lo, hi = ref.span
        buffer = self._arena if ref.space is Space.ARENA else self._constants
        if lo < 0 or hi > len(buffer):
            raise ValueError(f"operand at bytes {lo}..{hi} of {len(buffer)}")
        return np.ndarray(ref.shape, ref.dtype.numpy, buffer, ref.address, ref.strides)

    def write(self, ref: Ref, value: Array) -> None:
        """Store a result computed beforehand, so that an instruction reads all it needs before it writes.

        Raises:
            ValueError: the shape differs, or an integer does not fit the operand's type.
        """
        view = self.view(ref)
        if value.shape != view.shape:
            raise ValueError(f"result of shape {value.shape} for an operand of shape {view.shape}")
        if view.dtype.kind in "iu" and value.dtype.kind in "iu" and value.dtype != view.dtype and value.size:
            info = np.iinfo(view.dtype)
            if value.min() < info.min or value.max() > info.max:
                raise ValueError(f"result {value.min()}..{value.max()} does not fit {ref.dtype}")
        view[...] = value
