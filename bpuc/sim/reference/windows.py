"""Windows of convolutions and pools, tap by tap."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from bpuc.sim.engine import Array


def taps(
    x: Array,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
    out: tuple[int, ...],
    fill: float,
) -> Iterator[Array]:
    """What every kernel position sees, in row-major order of the kernel: arrays [N, C, *out].

    Output o and tap k along an axis meet ``x[o*stride + k*dilation - pad_begin]``; outside of x stands `fill`. The
    end of the border follows from `out`, which is y's shape.
    """
    border = [(0, 0), (0, 0)]
    for i, (size, k, s, d, o) in enumerate(zip(x.shape[2:], kernel, strides, dilations, out, strict=True)):
        begin = pads[i]
        if begin < 0:
            raise ValueError(f"negative padding {begin}")
        border.append((begin, max(0, (o - 1) * s + (k - 1) * d + 1 - begin - size)))
    padded = np.pad(x, border, constant_values=fill)
    for tap in product(*map(range, kernel)):
        where = tuple(
            slice(k * d, k * d + (o - 1) * s + 1, s) for k, d, o, s in zip(tap, dilations, out, strides, strict=True)
        )
        yield padded[(slice(None), slice(None), *where)]
