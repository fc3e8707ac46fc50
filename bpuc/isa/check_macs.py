"""Checks of the instructions that accumulate or look through windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bpuc.isa.check_words import MAX_ELEMENTS, integers, need, same
from bpuc.isa.conv import Conv, ConvTranspose
from bpuc.isa.core import Ref
from bpuc.isa.matmul import MatMul
from bpuc.isa.pool import Pool, PoolKind


def _requantize(ins: Any, channels: int) -> None:
    """The fields behind an accumulator; a vector has a value a channel, or one for all."""
    for name in ("bias", "mult", "shift", "res_mult"):
        ref: Ref | None = getattr(ins, name)
        if ref is not None:
            need(ref.shape in ((channels,), (1,)), f"{name} has shape {list(ref.shape)} for {channels} channels")
    need((ins.mult is None) == (ins.shift is None), "mult and shift go together")
    need((ins.res is None) == (ins.res_mult is None), "res and res_mult go together")
    need(ins.res is None or ins.mult is not None, "res needs mult")
    if ins.res is not None:
        same(ins, "res", "y")
    integers(ins, "bias", "mult", "shift", "res", "res_mult", "y")


def _window(ins: Any, kernel: tuple[int, ...]) -> list[tuple[int, int, int, int, int, int, int]]:
    """Axis by axis: size, kernel, stride, dilation, pads, size of the result."""
    rank = len(ins.x.shape) - 2
    need(1 <= rank <= 3 and len(ins.y.shape) == rank + 2, f"x has {rank + 2} axes, y {len(ins.y.shape)}")
    counts = {len(ins.strides), len(ins.dilations), len(kernel), len(ins.pads) / 2}
    need(counts == {rank}, f"kernel, strides, dilations and pads are not for {rank} axes")
    need(min(*kernel, *ins.strides, *ins.dilations) >= 1, "kernel, strides or dilations below 1")
    need(max(*kernel, *ins.strides, *ins.dilations, *map(abs, ins.pads)) <= MAX_ELEMENTS, "an absurd window")
    return list(
        zip(ins.x.shape[2:], kernel, ins.strides, ins.dilations, ins.pads[:rank], ins.pads[rank:], ins.y.shape[2:])
    )


def _slides(ins: Any, kernel: tuple[int, ...]) -> None:
    padded = ins.x.shape[0] * ins.x.shape[1]
    for size, k, s, d, begin, _, out in _window(ins, kernel):
        need(begin >= 0, f"negative padding {begin}")
        padded *= max(begin + size, (out - 1) * s + (k - 1) * d + 1)
    need(padded <= MAX_ELEMENTS, f"x has {padded} elements with its border, of at most {MAX_ELEMENTS}")


def check_conv(ins: Conv) -> None:
    integers(ins, "x", "w")
    need(len(ins.w.shape) == len(ins.x.shape) >= 3, f"w has {len(ins.w.shape)} axes, x {len(ins.x.shape)}")
    _slides(ins, ins.w.shape[2:])
    (n, c), (o, part) = ins.x.shape[:2], ins.w.shape[:2]
    need(ins.group >= 1 and part * ins.group == c and o % ins.group == 0, f"{c} channels and w of {part} in groups")
    need(ins.y.shape[:2] == (n, o), f"y has shape {list(ins.y.shape)} for {n} samples of {o} channels")
    _requantize(ins, o)


def check_conv_transpose(ins: ConvTranspose) -> None:
    integers(ins, "x", "w")
    need(len(ins.w.shape) == len(ins.x.shape) >= 3, f"w has {len(ins.w.shape)} axes, x {len(ins.x.shape)}")
    full = ins.y.shape[0] * ins.y.shape[1] if len(ins.y.shape) > 2 else 0
    for size, k, s, d, begin, _, _ in _window(ins, ins.w.shape[2:]):
        need(begin >= 0, f"negative padding {begin}")
        full *= max(0, (size - 1) * s + (k - 1) * d + 1)
    need(full <= MAX_ELEMENTS, f"the full result has {full} elements, of at most {MAX_ELEMENTS}")
    (n, c), (rows, part) = ins.x.shape[:2], ins.w.shape[:2]
    need(ins.group >= 1 and rows == c and c % ins.group == 0, f"{c} channels and w of {rows} in groups")
    need(ins.y.shape[:2] == (n, part * ins.group), f"y has shape {list(ins.y.shape)}")
    _requantize(ins, ins.y.shape[1])


def check_matmul(ins: MatMul) -> None:
    integers(ins, "a", "b")
    a, b = ins.a.shape, ins.b.shape
    need(len(a) >= 2 and len(b) >= 2 and a[-1] == b[-2], f"a has shape {list(a)}, b {list(b)}")
    lead = np.broadcast_shapes(a[:-2], b[:-2])
    need(ins.y.shape == (*lead, a[-2], b[-1]), f"y has shape {list(ins.y.shape)}")
    _requantize(ins, b[-1])


def check_pool(ins: Pool) -> None:
    integers(ins, "x", "y", "mult")
    need(len(ins.x.shape) >= 3, f"x has {len(ins.x.shape)} axes")
    _slides(ins, ins.kernel)
    need(ins.y.shape[:2] == ins.x.shape[:2], f"y has shape {list(ins.y.shape)}")
    if ins.kind == PoolKind.AVERAGE:
        want = math.prod(ins.kernel) + 1
        need(ins.mult is not None and ins.mult.shape == (want,), f"mult is not one for {want} counts")
