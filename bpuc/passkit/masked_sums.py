"""Sums with a constant mask before a Softmax: how far down anything of them matters.

How far below does not matter to the Softmax, but an integer scale that covers -1e9 leaves no step for the scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bpuc.ir import Graph, Op, Tensor
from bpuc.ops.attrs import AxisAttrs
from bpuc.ops.base import Array

# what all hidden entries of a row may add up to, as a power of e: below half a step of an int8 result
_NOTHING = 6.0


@dataclass(frozen=True)
class Mask:
    """An Add of a constant of which only Softmaxes read the result; axis: theirs, in the axes of the result."""

    op: Op
    scores: Tensor
    index: int
    axis: int

    @property
    def values(self) -> Array:
        """The constant, broadcast to the result."""
        return np.broadcast_to(self.op.input(self.index).value(), self.op.out.shape)


def masks(graph: Graph) -> Iterator[Mask]:
    """All such Adds of a graph, whether or not their constants hide anything."""
    for op in graph:
        if op.kind != "Add":
            continue
        index = next((i for i in (0, 1) if op.input(i).const is not None), None)
        axis = softmax_axis(graph, op.out)
        if index is not None and axis is not None and op.input(1 - index).const is None:
            yield Mask(op, op.input(1 - index), index, axis)


def softmax_axis(graph: Graph, tensor: Tensor) -> int | None:
    """The axis of the Softmaxes that alone read a tensor, some of them perhaps behind a Reshape; else None."""
    axes: set[int | None] = {None} if tensor in graph.outputs else set()
    for op in graph.consumers(tensor):
        if op.kind == "Softmax" and isinstance(op.attrs, AxisAttrs):
            axes.add(op.attrs.axis % tensor.rank)
        elif op.kind == "Reshape" and op.out.rank and tensor.rank and op.out.shape[-1] == tensor.shape[-1]:
            last = softmax_axis(graph, op.out) == op.out.rank - 1
            axes.add(tensor.rank - 1 if last else None)
        else:
            axes.add(None)
    return axes.pop() if len(axes) == 1 else None


def renamed(graph: Graph, tensor: Tensor) -> Iterator[Tensor]:
    """A sum and what Reshapes make of it on the way to its Softmaxes: one range in all of them."""
    yield tensor
    for op in graph.consumers(tensor):
        if op.kind == "Reshape":
            yield from renamed(graph, op.out)


def floor(mask: Mask, low: float, high: float) -> float | None:
    """The threshold of the result below which nothing needs to be told apart, for scores in low..high.

    An entry is hidden where even the largest score leaves it `_NOTHING` + ln(length of a row) below the least score at
    the row's largest constant. None where no entry is hidden.
    """
    values = mask.values.astype(np.float64)
    best = values.max(mask.axis, keepdims=True)
    margin = _NOTHING + math.log(values.shape[mask.axis])
    hidden = values <= best - (high - low) - margin
    if not hidden.any() or not np.isfinite(best).all():
        return None
    seen = values[~hidden]
    return float(max(-(seen.min() + low), seen.max() + high, margin - (low + best.min())))
