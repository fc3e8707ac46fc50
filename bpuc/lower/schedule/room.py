"""On-chip memory over time: places for stretches of bytes, each held for a range of moments."""

from __future__ import annotations

ALIGN = 64


class Room:
    """First fit in a memory of `size` bytes from address `base`; moments are numbered from 0."""

    def __init__(self, size: int, base: int = 0) -> None:
        self.size, self.base = size, base
        self._taken: dict[int, list[tuple[int, int]]] = {}  # moment -> (start, end) of what is held then

    def place(self, nbytes: int, first: int, last: int) -> int | None:
        """Address of `nbytes` free bytes from moment `first` to `last`, which are taken then; None without."""
        nbytes = -(-nbytes // ALIGN) * ALIGN
        at = 0
        for start, end in sorted({s for m in range(first, last + 1) for s in self._taken.get(m, ())}):
            if start - at >= nbytes:
                break
            at = max(at, end)
        if at + nbytes > self.size:
            return None
        for m in range(first, last + 1):
            self._taken.setdefault(m, []).append((at, at + nbytes))
        return self.base + at
