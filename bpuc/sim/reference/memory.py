"""The memories of the machine, and operands as numpy views of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bpuc.isa import Ref, Space
from bpuc.program.schedule import Chip, OnChip, Window, stored_bytes
from bpuc.sim.engine import Array

# What stands in a memory before it is written: no value that a correct program may rely on.
GARBAGE = 0xA5


class Memory:
    """Arena, constants and on-chip memory as real bytes, so that a mistake in a plan shows as a wrong result.

    read_bytes, written_bytes: what transfers and streamed operands have moved from and to DDR, in the machine's layout.
    """

    def __init__(
        self, arena_bytes: int, constants: bytes, windows: Sequence[Window] = (), chip: Chip | None = None
    ) -> None:
        self._arena = bytearray(arena_bytes)
        self._constants = constants
        self._layout = chip or Chip(0, 0)
        self._chip = bytearray(self._layout.activations + self._layout.constants)
        self._on_chip = OnChip(windows)
        self.read_bytes = self.written_bytes = 0

    def reset(self) -> None:
        """Fill what is writable with garbage: values of an earlier run or a lucky zero must not help a program."""
        for memory in (self._arena, self._chip):
            np.frombuffer(memory, np.uint8)[:] = GARBAGE
        self._on_chip.held.clear()
        self.read_bytes = self.written_bytes = 0

    def view(self, ref: Ref) -> Array:
        """The operand as a strided view, on chip where a held window has it (read-only for constants in DDR).

        Raises:
            ValueError: it lies outside of the memory, or only in part on chip.
        """
        if 0 in ref.shape:
            return np.empty(ref.shape, ref.dtype.numpy)
        window = self._on_chip.find(ref)
        if window is not None:
            return _array(self._chip, self._on_chip.view(window, ref))
        return _array(self._arena if ref.space is Space.ARENA else self._constants, ref)

    def stream(self, ref: Ref, write: bool) -> None:
        """Count an operand that an instruction of the BPU reads from or writes to DDR itself."""
        if 0 not in ref.shape and self._on_chip.find(ref) is None:
            nbytes = ref.nbytes if ref.space is Space.CONST else stored_bytes(ref, self._layout)
            if write:
                self.written_bytes += nbytes
            else:
                self.read_bytes += nbytes

    def hold(self, window: int, first: int, last: int) -> None:
        """Let a window stand for other rows; those that it already holds are kept."""
        w = self._on_chip.windows[window]
        before = self._on_chip.held.get(window)
        kept = None
        if before is not None and (lo := max(before[0], first)) < (hi := min(before[1], last)):
            kept = lo, hi, self._rows(window, lo, hi).copy()
        np.frombuffer(self._chip, np.uint8)[w.at : w.at + w.room] = GARBAGE
        self._on_chip.held[window] = first, last
        if kept is not None:
            self._rows(window, *kept[:2])[...] = kept[2]

    def load(self, window: int, first: int, last: int) -> None:
        """Rows of a window from arena or constants."""
        self._rows(window, first, last)[...] = self._behind(window, first, last)
        self.read_bytes += (last - first) * self._on_chip.windows[window].row_stored

    def store(self, window: int, first: int, last: int) -> None:
        """Rows of a window to the arena."""
        self._behind(window, first, last)[...] = self._rows(window, first, last)
        self.written_bytes += (last - first) * self._on_chip.windows[window].row_stored

    def drop(self, window: int) -> None:
        """End a window."""
        self._on_chip.held.pop(window, None)

    def _rows(self, window: int, first: int, last: int) -> Array:
        """Bytes [planes, (last - first) * row] on chip."""
        w = self._on_chip.windows[window]
        low, high = self._on_chip.held[window]
        if first < low or last > high:
            raise ValueError(f"rows {first}..{last} of a window that holds {low}..{high}")
        pitch = (high - low) * w.row
        return np.ndarray(
            (w.planes, (last - first) * w.row), np.uint8, self._chip, w.at + (first - low) * w.row, (pitch, 1)
        )

    def _behind(self, window: int, first: int, last: int) -> Array:
        """The same bytes in the memory that the window stands for."""
        w = self._on_chip.windows[window]
        memory = self._arena if w.space is Space.ARENA else self._constants
        n = (last - first) * w.row
        if w.lo + first * w.row + (w.planes - 1) * w.pitch + n > len(memory):
            raise ValueError(f"window of bytes {w.lo}..{w.hi} of {len(memory)}")
        return np.ndarray((w.planes, n), np.uint8, memory, w.lo + first * w.row, (w.pitch, 1))

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


def _array(memory: bytearray | bytes, ref: Ref) -> Array:
    lo, hi = ref.span
    if lo < 0 or hi > len(memory):
        raise ValueError(f"operand at bytes {lo}..{hi} of {len(memory)}")
    return np.ndarray(ref.shape, ref.dtype.numpy, memory, ref.address, ref.strides)
