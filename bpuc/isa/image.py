"""Pixels from a camera or the host, as the network takes them."""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.isa.core import Engine, Instruction, Ref, Work


@dataclass(frozen=True, kw_only=True)
class Image(Instruction):
    """``y[n, c, top + i, left + j] = p[n, c, i, j] - 128``, and ``y = border[c]`` around that.

    y int8 [N, C, H + top + bottom, W + left + right] (any strides); border: int8 values, one a channel; pads: top,
    left, bottom, right. Without nv12, x is uint8 [N, C, H, W] (any strides, so channels may be last or reversed) and
    p = x. With nv12, x is uint8 [N, 3 H / 2, W], C is 3, and p is Y, U, V: ``p[n, 0, i, j] = x[n, i, j]``,
    ``p[n, 1 + k, i, j] = x[n, H + i // 2, 2 (j // 2) + k]``. With pyramid, the camera's image unit writes y and no
    engine is busy.
    """

    opcode = 19
    x: Ref
    y: Ref
    nv12: int
    pyramid: int
    pads: tuple[int, ...]
    border: tuple[int, ...]

    def work(self) -> Work:
        return Work(Engine.DMA, elements=0 if self.pyramid else self.y.elements)
