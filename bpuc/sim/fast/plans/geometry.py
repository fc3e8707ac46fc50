"""The shape of a convolution as onnxruntime wants it told."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from bpuc.isa import Conv


@dataclass(frozen=True)
class Geometry:
    """A convolution over two spatial axes; `size` and `out` are x's and y's shapes with both."""

    size: tuple[int, ...]
    out: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    group: int

    @property
    def attributes(self) -> dict[str, Any]:
        return {
            "kernel_shape": self.kernel,
            "strides": self.strides,
            "pads": self.pads,
            "dilations": self.dilations,
            "group": self.group,
        }

    @property
    def kind(self) -> str:
        """The class of kernels that onnxruntime takes for it."""
        if self.group == 1:
            return "pointwise" if prod(self.kernel) == 1 else "dense"
        return "depthwise" if self.group == self.size[1] == self.out[1] else "grouped"


def end_pads(
    size: tuple[int, ...],
    out: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    begin: tuple[int, ...],
    dilations: tuple[int, ...],
) -> tuple[int, ...] | None:
    """The border behind each axis with which onnxruntime finds `out` results; None where there is none."""
    ends = []
    for n, o, k, s, b, d in zip(size, out, kernel, strides, begin, dilations):
        reach = (k - 1) * d + 1
        end = max(0, (o - 1) * s + reach - b - n)
        if min(b, s, d, k) < 0 or min(s, d, k) < 1 or (n + b + end - reach) // s + 1 != o:
            return None
        ends.append(end)
    return tuple(ends)


def geometry(ins: Conv) -> Geometry | None:
    """None for what is not two- or one-dimensional, or whose shapes do not fit together."""
    rank = len(ins.x.shape) - 2
    if rank not in (1, 2) or len(ins.w.shape) != rank + 2 or len(ins.y.shape) != rank + 2 or ins.group < 1:
        return None
    (n, c, *size), (o, per, *kernel), (m, oy, *out) = ins.x.shape, ins.w.shape, ins.y.shape
    if n != m or o != oy or c != per * ins.group or o % ins.group:
        return None
    if not len(ins.strides) == len(ins.dilations) == rank or len(ins.pads) != 2 * rank:
        return None
    begin = ins.pads[:rank]
    ends = end_pads(tuple(size), tuple(out), tuple(kernel), ins.strides, begin, ins.dilations)
    if ends is None:
        return None
    one, nil = (1,) * (2 - rank), (0,) * (2 - rank)
    return Geometry(
        (n, c, *one, *size),
        (n, o, *one, *out),
        (*one, *kernel),
        (*one, *ins.strides),
        (*nil, *begin, *nil, *ends),
        (*one, *ins.dilations),
        ins.group,
    )
