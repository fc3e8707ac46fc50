"""Which channels of which tensors must share a scale, where every channel may have one of its own.

A channel's scale is free where a convolution (or matrix product, or gain per channel) writes it, since that requantizes
each channel with its own multiplier, and where one reads it, since the ratio moves into the slice of its weights for
that input channel; a Dequantize takes a scale a channel too. Ops between them tie channels: what moves, pools or
averages values channel by channel keeps the ratio, all else wants one scale for the whole tensor.

(M. Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", ICCV 2019, equalizes pairs
of layers; here the ties run through the whole graph, concats and splits included.)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from bpuc.ir import Graph, Op, Tensor
from bpuc.ops.attrs import (
    AffineAttrs,
    AxisAttrs,
    EltwiseAttrs,
    GatherAttrs,
    PadAttrs,
    PReluAttrs,
    ReduceAttrs,
    SliceAttrs,
    SplitAttrs,
    TileAttrs,
    TransposeAttrs,
)
from bpuc.ops.base import Behaviour
from bpuc.ops.registry import get
from bpuc.passkit.scales import UnionFind
from bpuc.passkit.weights import with_weights

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
# their result has the ratio between channels that their operand has, spatial axes reduced or not
_KEEP = ("Relu", "LeakyRelu", "MaxPool", "AveragePool", "Resize")
_REDUCE = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
_BINARY = ("Add", "Sub", "Max", "Min")


def channel_axes(graph: Graph) -> dict[Tensor, int]:
    """The axis of the channels of every float activation that has one, from where it is written, else read."""
    axes: dict[Tensor, int] = {}
    for op in graph:
        if with_weights(op):
            axes.setdefault(op.out, written_axis(op))
            if op.input(0) not in axes:
                axes[op.input(0)] = read_axis(op)
            continue
        for out in op.outputs:
            known = [(t, axes[t]) for t in op.inputs if t is not None and t in axes]
            carried = [a for t, axis in known if (a := carried_axis(op, t, axis, out)) is not None]
            if isinstance(op.attrs, AxisAttrs) and op.kind == "Concat" and len({*carried}) > 1:
                # boxes with a gain a place beside scores: along the axis that joins them the operands stay apart
                carried = [op.attrs.axis]
            if carried:
                axes.setdefault(out, carried[0])
    return {t: a for t, a in axes.items() if t.dtype.is_float and t.const is None and t.rank > a}


def written_axis(op: Op) -> int:
    """Axis of the result that the weights' output channels run along."""
    if isinstance(op.attrs, AffineAttrs):
        return op.attrs.axis
    return op.out.rank - 1 if op.kind == "MatMul" else 1


def read_axis(op: Op) -> int:
    """Axis of operand 0 that the weights' input channels run along."""
    if isinstance(op.attrs, AffineAttrs):
        return op.attrs.axis
    return op.input(0).rank - 1 if op.kind == "MatMul" else 1


def carried_axis(op: Op, x: Tensor, axis: int, out: Tensor) -> int | None:
    """Where an op puts the channel axis of an operand; None where the channels do not stay together."""
    if op.kind in (*_KEEP, *_BINARY, "Mul", "PRelu", "Concat", "Split", "Slice", "Pad", "Gather", "Tile"):
        if isinstance(op.attrs, GatherAttrs) and op.attrs.axis != axis:
            return axis + (len(op.attrs.index_shape) - 1 if op.attrs.axis < axis else 0)
        return axis if out.rank == x.rank else None
    if get(op.kind).behaviour is Behaviour.MAPS:
        return axis
    if isinstance(op.attrs, TransposeAttrs):
        return op.attrs.perm.index(axis)
    if op.kind == "Reshape":
        before = prod(x.shape[:axis])
        return next((j for j, d in enumerate(out.shape) if d == x.shape[axis] and prod(out.shape[:j]) == before), None)
    if isinstance(op.attrs, ReduceAttrs):
        if axis in op.attrs.axes:
            return None
        return axis if op.attrs.keepdims else axis - sum(a < axis for a in op.attrs.axes)
    return None


@dataclass
class ChannelTies:
    """Numbered channels of quantized tensors, and sets of channels whose scales keep one ratio.

    A tensor without a channel axis, or where all channels are tied, counts as one channel in effect.
    """

    axis: dict[Tensor, int]
    first: dict[Tensor, int]
    sets: UnionFind

    def numbers(self, tensor: Tensor) -> Ints:
        """Number of each channel."""
        count = tensor.shape[self.axis[tensor]] if tensor in self.axis else 1
        return np.arange(self.first[tensor], self.first[tensor] + count)

    def roots(self, tensor: Tensor) -> Ints:
        """The set of each channel."""
        return np.array([self.sets.find(int(i)) for i in self.numbers(tensor)], np.int64)

    def tie(self, a: Ints, b: Ints) -> None:
        for i, j in zip(a.tolist(), b.tolist(), strict=True):
            self.sets.union(i, j)

    def merge(self, *tensors: Tensor) -> None:
        """All channels of all these tensors share a scale (up to one ratio a tensor)."""
        numbers = [int(i) for t in tensors for i in self.numbers(t)]
        for i in numbers[1:]:
            self.sets.union(numbers[0], i)


def channel_ties(graph: Graph, tensors: list[Tensor], whole: set[Tensor]) -> ChannelTies:
    """The ties between the channels of the quantized `tensors` of a placed graph.

    Args:
        whole: tensors that must keep a single scale for other reasons.
    """
    axes = channel_axes(graph)
    first, total = {}, 0
    for t in tensors:
        first[t] = total
        total += t.shape[axes[t]] if t in axes else 1
    ties = ChannelTies({t: a for t, a in axes.items() if t in first}, first, UnionFind(total))
    for tensor in (*graph.inputs, *whole):
        if tensor in first:
            ties.merge(tensor)
    for op in graph:
        if op.device != "BPU":
            # Dequantize reads a scale a channel, Quantize writes one scale
            for out in op.outputs:
                if out in first:
                    ties.merge(out)
        elif with_weights(op):
            _tie_weighted(op, ties)
        elif not _tie_kept(op, ties):
            for operand in (*op.inputs, *op.outputs):
                if operand is not None and operand in first:
                    ties.merge(operand)
    return ties


def _tie_weighted(op: Op, ties: ChannelTies) -> None:
    x, out, residual = op.input(0), op.out, op.maybe(3)
    low = getattr(op.attrs, "low", None)
    if x in ties.first and ties.axis.get(x) != read_axis(op):
        ties.merge(x)
    if ties.axis.get(out) != written_axis(op) or low not in (None, 0.0):
        ties.merge(out)
    if residual is not None and residual in ties.first and ties.axis.get(residual) != written_axis(op):
        ties.merge(residual)


def _tie_kept(op: Op, ties: ChannelTies) -> bool:
    """Tie the channels of an op that keeps ratios; False for other ops."""
    x = op.maybe(0)
    if x is None or x not in ties.axis or any(o not in ties.first for o in op.outputs):
        return False
    axis, attrs = ties.axis[x], op.attrs
    if op.kind == "Concat":
        return _tie_concat(op, ties)
    carried = [carried_axis(op, x, axis, o) for o in op.outputs]
    if any(a is None or ties.axis.get(o) != a for o, a in zip(op.outputs, carried)):
        return False
    numbers = ties.numbers(x)
    if isinstance(attrs, SplitAttrs):
        start = 0
        for size, out in zip(attrs.sizes, op.outputs):
            ties.tie(numbers[start : start + size] if attrs.axis == axis else numbers, ties.numbers(out))
            start += size
        return True
    out = op.outputs[0]
    if op.kind in _BINARY or op.kind == "Mul":
        return isinstance(attrs, EltwiseAttrs) and _tie_eltwise(op, attrs, ties)
    if isinstance(attrs, SliceAttrs):
        numbers = numbers[attrs.starts[axis] + attrs.steps[axis] * np.arange(out.shape[axis])]
    elif isinstance(attrs, GatherAttrs) and attrs.axis == axis:
        if len(attrs.index_shape) != 1:
            return False
        numbers = numbers[list(attrs.indices)]
    elif isinstance(attrs, PadAttrs):
        if attrs.value != 0 or attrs.pads[axis] or attrs.pads[axis + x.rank]:
            return False
    elif isinstance(attrs, TileAttrs):
        numbers = np.tile(numbers, attrs.repeats[axis])
    elif isinstance(attrs, PReluAttrs):
        if attrs.axis not in (axis, -1):
            return False
    elif op.kind not in (*_KEEP, *_REDUCE, "Transpose", "Reshape"):
        return False
    ties.tie(numbers, ties.numbers(out))
    return True


def _tie_concat(op: Op, ties: ChannelTies) -> bool:
    assert isinstance(op.attrs, AxisAttrs)
    out, start = op.out, 0
    axis = ties.axis.get(out)
    if axis is None:
        return False
    numbers = ties.numbers(out)
    for t in op.inputs:
        assert t is not None, "Concat has no optional operands"
        size = t.shape[op.attrs.axis]
        part = numbers[start : start + size] if op.attrs.axis == axis else numbers
        start += size
        if ties.axis.get(t) == axis:
            ties.tie(part, ties.numbers(t))
        else:
            # an operand of one scale, a constant for instance
            ties.merge(t)
            ties.tie(part, np.full(part.size, ties.first[t]))
    return True


def _tie_eltwise(op: Op, attrs: EltwiseAttrs, ties: ChannelTies) -> bool:
    x, z, out = op.input(0), op.input(1), op.out
    if attrs.low not in (None, 0.0) or attrs.high is not None or z not in ties.first or x.shape != out.shape:
        return False
    if op.kind == "Mul":
        ties.merge(z)
    elif z.shape != x.shape or ties.axis.get(z) != ties.axis[x]:
        return False
    else:
        ties.tie(ties.numbers(x), ties.numbers(z))
    ties.tie(ties.numbers(x), ties.numbers(out))
    return True
