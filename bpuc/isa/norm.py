"""Layer and instance normalization in integers."""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.isa.core import Engine, Instruction, Ref, Work


@dataclass(frozen=True, kw_only=True)
class Norm(Instruction):
    """Normalize x over `axes`, then scale and shift.

    With n the number of elements over the axes, all int64 unless said otherwise:
    ``d = (n*x - sum(x)) >> pre_shift``; ``v = sum(d*d)``;
    ``r = max(1, floor(sqrt(v / n + eps) * 256))`` in float64 (v rounded to float64, correctly rounded division, sum and
    root, so every machine agrees); ``z = (d << 20) // r`` (floor), which is the normalized value times 4096;
    ``y = clamp((z*gain + bias + 2**(shift-1)) >> shift, lo, hi)``.
    eps is in the units of v/n. gain int32, bias int64, both of x's rank and broadcast to x.
    """

    opcode = 11
    x: Ref
    gain: Ref
    bias: Ref
    y: Ref
    axes: tuple[int, ...]
    eps: float
    pre_shift: int
    shift: int
    lo: int
    hi: int

    def work(self) -> Work:
        # mean, difference, square and sum, multiply by the root, scale and shift: five visits of an element
        return Work(Engine.VECTOR, elements=5 * self.x.elements)
