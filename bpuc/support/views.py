"""How the BPU sees the shapes of an operator: tensors as rank 4, convolutions with explicit kernel, stride and padding.

Two decisions are made here for all marches. A tensor of rank below 4 is viewed as rank 4 by leading 1s. A convolution
or pooling over one spatial axis is one over two axes with height 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bpuc.support.facts import OpFacts

_AXIS_DEFAULT = {"Concat": 1, "Softmax": -1, "LogSoftmax": -1, "TopK": -1, "LayerNormalization": -1}
_POOLS = {"MaxPool", "AveragePool"}


def view4(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape with leading 1s up to rank 4; higher ranks stay."""
    return (1,) * (4 - len(shape)) + tuple(shape)


def main_shape(facts: OpFacts) -> tuple[int, ...]:
    """Shape of the first activation, or of the first output where all inputs are constant."""
    first = facts.activations[:1] or facts.outputs[:1]
    return first[0].shape if first else ()


def feature_shape(facts: OpFacts) -> tuple[int, ...]:
    """``[N, C, H, W]`` (``[N, C, D, H, W]`` for rank 5) of the feature map that a convolution, pooling
    or resize reads.
    """
    shape = main_shape(facts)
    if len(shape) == 3 and (facts.op_type in _POOLS or facts.op_type in {"Conv", "ConvTranspose"}):
        return (shape[0], shape[1], 1, shape[2])
    return view4(shape)


def spatial(facts: OpFacts, attr: str) -> tuple[int, ...]:
    """An attribute with one value per spatial axis, in the order (d,) h, w; `pads` is given as begins then ends.

    Empty for operators without a kernel.
    """
    kernel = _ints(facts, "kernel_shape")
    weight = facts.input(1)
    if not kernel and facts.op_type in {"Conv", "ConvTranspose"} and weight is not None:
        kernel = weight.shape[2:]
    if not kernel:
        return ()
    n = len(kernel)
    default = {"pads": (0,) * (2 * n), "output_padding": (0,) * n}.get(attr, (1,) * n)
    values = kernel if attr == "kernel_shape" else (_ints(facts, attr) or default)
    if n > 1:
        return values
    fill = 0 if attr in {"pads", "output_padding"} else 1
    return (fill, values[0], fill, values[1]) if attr == "pads" else (fill, *values)


def _ints(facts: OpFacts, attr: str) -> tuple[int, ...]:
    value = facts.attrs.get(attr)
    return () if value is None else tuple(int(v) for v in value)


def axis_of(facts: OpFacts) -> int:
    """The attribute `axis` counted from 0 in the rank-4 view (in the tensor itself above rank 4)."""
    rank = len(main_shape(facts))
    axis = int(facts.attrs.get("axis", _AXIS_DEFAULT.get(facts.op_type, 0)))
    return axis + (rank if axis < 0 else 0) + max(0, 4 - rank)


def reduced_axes(facts: OpFacts) -> tuple[int, ...]:
    """Axes that a reduction really reduces: non-negative, without those of size 1, in order; all where
    none are named.
    """
    shape = main_shape(facts)
    axes = facts.attrs.get("axes")
    wanted = range(len(shape)) if axes is None else [int(a) % len(shape) for a in axes]
    return tuple(sorted({a for a in wanted if shape[a] != 1}))


def product_channels(facts: OpFacts) -> tuple[int, int] | None:
    """(inner size K, columns N) of a MatMul or Gemm, None where a shape is missing."""
    a, b = facts.input(0), facts.input(1)
    if a is None or b is None or not a.shape or not b.shape:
        return None
    rows_first = not facts.attrs.get("transB")
    columns = 1 if len(b.shape) == 1 else b.shape[-1] if rows_first else b.shape[-2]
    return (a.shape[-2] if facts.attrs.get("transA") else a.shape[-1]), columns


def elements(shape: Sequence[int]) -> int:
    """Number of elements."""
    return math.prod(shape)


def align(value: int, step: int) -> int:
    """`value` rounded up to a multiple of `step`."""
    return -(-value // step) * step


def dims(shape: Sequence[int]) -> str:
    """A shape in words: ``1x3x224x224``, ``scalar``."""
    return "x".join(map(str, shape)) or "scalar"
