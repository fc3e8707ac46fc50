"""ConvTranspose as one stride-1 convolution with a set of channels for every phase of the stride."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod

import numpy as np

from bpuc.isa import ConvTranspose
from bpuc.sim.engine import Array
from bpuc.sim.fast.graph import Graph
from bpuc.sim.fast.plans.accumulate import convolution
from bpuc.sim.fast.plans.finish import Tail
from bpuc.sim.fast.plans.geometry import Geometry
from bpuc.sim.fast.storage import Access


def conv_transpose(ins: ConvTranspose, a: Access) -> Callable[[Graph], None] | None:
    """Output ``q*stride + r`` takes x at ``q + offset`` for the taps that meet phase r: each phase is a Conv."""
    if len(ins.x.shape) != 4 or not a["w"].constant or a.get("res") is not None:
        return None
    n, c, *size = ins.x.shape
    w = a["w"].load().astype(np.int64)
    group, per, out = ins.group, w.shape[1], ins.y.shape[2:]
    if w.shape[0] != c or c % group or ins.y.shape[:2] != (n, per * group) or min(ins.pads) < 0:
        return None
    for i in range(2):
        full = (size[i] - 1) * ins.strides[i] + (w.shape[2 + i] - 1) * ins.dilations[i] + 1
        if ins.pads[i + 2] and out[i] > full - ins.pads[i] - ins.pads[i + 2]:
            return None  # results behind the cut are bias alone, not what the cut took away
    axes = [_phases(ins, w.shape[2 + i], i) for i in range(2)]
    first = [min(0, *(o for row in rows for _, o in row)) for rows in axes]
    last = [max(0, *(o for row in rows for _, o in row)) for rows in axes]
    kernel = tuple(b - f + 1 for f, b in zip(first, last))
    # [group, *phases, per, C/group, *kernel]: channels of one group stay together, those of one phase too
    strides = ins.strides
    spread = np.zeros((group, *strides, per, c // group, *kernel), np.int64)
    taps = w.reshape(group, c // group, per, *w.shape[2:]).swapaxes(1, 2)
    for (r, row), (s, column) in product(*(enumerate(rows) for rows in axes)):
        for (k, o), (j, p) in product(row, column):
            spread[:, r, s, :, :, o - first[0], p - first[1]] = taps[:, :, :, k, j]
    phases = prod(strides)
    flat: Array = spread.reshape(group * per * phases, c // group, *kernel)
    count = [-(-o // s) for o, s in zip(out, strides)]
    begin = tuple(-f for f in first)
    ends = tuple(max(0, q + b - n) for q, b, n in zip(count, last, size))
    found = tuple(n + p + e - k + 1 for n, p, e, k in zip(size, begin, ends, kernel))
    shape = Geometry((n, c, *size), (n, len(flat), *found), kernel, (1, 1), (*begin, *ends), (1, 1), group)
    bound = np.abs(w).reshape(group, c // group, per, -1).sum((1, 3)).reshape(-1) * -ins.x.dtype.qmin
    tail = Tail.of(ins, a, bound, (n, len(flat), *found), 1)
    if tail is None:
        return None
    for name in ("bias", "mult", "shift", "bound"):
        value = getattr(tail, name)
        if value is not None:
            setattr(tail, name, np.repeat(value.reshape(group, 1, per), phases, axis=1).reshape(-1))
    sums = convolution(shape, flat, ins.x.dtype, ins.w.dtype, tail)
    if sums is None:
        return None

    def emit(g: Graph) -> None:
        # phases move between pixels with their channels as one piece
        value = g.channels_last(sums(g, g.read(a["x"])))
        value = g.reshape(value, (n, *found, group, *strides, per))
        value = g.node("Transpose", value, perm=(0, 1, 4, 2, 5, 3, 6))
        whole = tuple(f * s for f, s in zip(found, strides))
        value = g.reshape(value, (n, *whole, group * per))
        if whole != out:
            starts, axes = g.constant([0, 0], np.int64), g.constant([1, 2], np.int64)
            value = g.node("Slice", value, starts, g.constant(out, np.int64), axes)
        g.write(a["y"], g.channels_first(value))

    return emit


def _phases(ins: ConvTranspose, kernel: int, axis: int) -> list[list[tuple[int, int]]]:
    """For each phase, the kernel taps that reach it and the offset of the input that each takes."""
    s, d, begin = ins.strides[axis], ins.dilations[axis], ins.pads[axis]
    return [[(k, (r + begin - k * d) // s) for k in range(kernel) if (r + begin - k * d) % s == 0] for r in range(s)]
