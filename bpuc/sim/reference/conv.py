"""Conv and ConvTranspose: one exact matrix product a kernel tap."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from bpuc.isa import Conv, ConvTranspose
from bpuc.sim.reference.arithmetic import accumulator_type, finish
from bpuc.sim.reference.memory import Memory
from bpuc.sim.reference.windows import taps


def conv(ins: Conv, m: Memory) -> None:
    """See `bpuc.isa.Conv`."""
    kind = accumulator_type(ins.x.dtype, ins.w.dtype, prod(ins.w.shape[1:]))
    x, w = m.view(ins.x).astype(kind), m.view(ins.w).astype(kind)
    n, c = x.shape[:2]
    o, group, out = w.shape[0], ins.group, ins.y.shape[2:]
    acc = np.zeros((n, group, o // group, prod(out)), kind)
    flat = w.reshape(group, o // group, c // group, -1)
    for k, seen in enumerate(taps(x, w.shape[2:], ins.strides, ins.pads, ins.dilations, out, 0)):
        acc += flat[..., k] @ seen.reshape(n, group, c // group, prod(out))
    finish(acc.reshape(ins.y.shape), ins, (ins.x, ins.w), 1, m)


def conv_transpose(ins: ConvTranspose, m: Memory) -> None:
    """See `bpuc.isa.ConvTranspose`: every input element adds its kernel to the full result, which is then cut."""
    kind = accumulator_type(ins.x.dtype, ins.w.dtype, ins.w.shape[0] // ins.group * prod(ins.w.shape[2:]))
    x, w = m.view(ins.x).astype(kind), m.view(ins.w).astype(kind)
    n, c, *size = x.shape
    kernel, group = w.shape[2:], ins.group
    o = w.shape[1] * group
    axes = list(zip(size, kernel, ins.strides, ins.dilations, strict=True))
    full = np.zeros((n, o, *((i - 1) * s + (k - 1) * d + 1 for i, k, s, d in axes)), kind)
    xs = x.reshape(n, group, c // group, prod(size))
    ws = w.reshape(group, c // group, o // group, -1)
    for k, tap in enumerate(product(*map(range, kernel))):
        part = (ws[..., k].transpose(0, 2, 1) @ xs).reshape(n, o, *size)
        where = (slice(t * d, t * d + (i - 1) * s + 1, s) for t, (i, _, s, d) in zip(tap, axes))
        full[(slice(None), slice(None), *where)] += part

    rank = len(size)
    begin, end = ins.pads[:rank], ins.pads[rank:]
    if min(begin) < 0:
        raise ValueError(f"negative padding {min(begin)}")
    cut = full[(slice(None), slice(None), *(slice(b, full.shape[i + 2] - end[i]) for i, b in enumerate(begin)))]
    acc = np.zeros(ins.y.shape, kind)
    both = tuple(slice(min(a, b)) for a, b in zip(cut.shape, acc.shape))
    acc[both] = cut[both]
    finish(acc, ins, (ins.x, ins.w), 1, m)
