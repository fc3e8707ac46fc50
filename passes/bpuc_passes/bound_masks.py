"""Masks before a Softmax as sums with a constant that integers can hold.

    Softmax(s + m), m with -Inf, -1e9 or the like  ->  Softmax(s + m'), -5e3 in place of them
    Softmax(Where(c, s, -1e9))                     ->  Softmax(s + m'), m' of 0 and -5e3        (c constant)

exp of either is 0 beside any entry that is not hidden, so rows that are hidden as a whole stay as they are. Once ranges
are known, what a clamped sum cannot show is taken from the constant too, which leaves it finer steps of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, Op, Tensor
from bpuc.ops.attrs import EltwiseAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.masked_sums import masks, softmax_axis
from bpuc.passkit.rewrite import as_float32, set_const

LOWEST = np.float32(-5e3)  # exp is 0 in float32 for scores that lie less than 4,900 apart


@dataclass(frozen=True)
class BoundMasks(Pass):
    """Constants that hide entries from a Softmax become -5e3, and a Where that hides becomes an Add."""

    name = "bound-masks"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            if op.kind == "Onnx" and op.onnx_type in ("Add", "Where") and op.pin != "CPU" and _to_add(graph, op):
                changes.append(Change(f"made {op.onnx_type} the Add of a finite mask", op.name, "a Softmax reads it"))
        for mask in masks(graph):
            values = mask.op.input(mask.index).value()
            hidden = values < LOWEST
            if not hidden.any() or (mask.values < LOWEST).all(mask.axis).any():
                continue
            set_const(graph, mask.op, mask.index, np.where(hidden, LOWEST, values), f"{mask.op.name}_mask")
            changes.append(Change("bounded the mask", mask.op.name, f"{values.min():g} is now {LOWEST:g}"))
        return changes


def _to_add(graph: Graph, op: Op) -> bool:
    """An ONNX Add of -Inf, or a Where between scores and what hides them, becomes an Add of a finite mask."""
    out, axis = op.out, softmax_axis(graph, op.out)
    if axis is None or out.dtype is not DType.FLOAT32:
        return False
    if op.onnx_type == "Add":
        index = next((i for i in (0, 1) if op.input(i).const is not None), None)
        scores = None if index is None else op.input(1 - index)
        values = None if index is None else np.maximum(op.input(index).value(), LOWEST)
    else:
        index = next((i for i in (1, 2) if _hides(op.input(i))), None)
        scores = None if index is None else op.input(3 - index)
        shown = op.input(0).const
        values = None if shown is None else np.where(shown.astype(bool) ^ (index == 1), np.float32(0), LOWEST)
    if scores is None or values is None or scores.const is not None or scores.shape != out.shape:
        return False
    if (np.broadcast_to(values, out.shape) <= LOWEST).all(axis).any():
        return False
    mask = Tensor(graph.unique(f"{op.name}_mask"), values.shape, DType.FLOAT32, as_float32(values))
    graph.rebind(op, 0, graph.new_tensor(out, out.name))
    graph.add("Add", EltwiseAttrs(), [scores, mask], [out], name=op.name, origin=op.origin, onnx_type="Add", like=op)
    graph.erase(op)
    return True


def _hides(tensor: Tensor) -> bool:
    return tensor.const is not None and tensor.const.dtype.kind == "f" and bool((tensor.value() < LOWEST).all())


@dataclass(frozen=True)
class ClampMasks(Pass):
    """Constants of masked scores are no lower than the sum's threshold can show."""

    name = "clamp-masks"
    numerics = Numerics.BOUNDED
    needs = Stage.PLACED

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for mask in masks(graph):
            out, scores = ctx.ranges.get(mask.op.out.name), ctx.ranges.get(mask.scores.name)
            if out is None or scores is None or mask.op.device != "BPU" or mask.op.out.name in ctx.options.fixed_scales:
                continue
            lowest = np.float32(-(out.threshold + max(scores.high, 0.0)))
            values = mask.op.input(mask.index).value()
            if (values < lowest).any():
                set_const(graph, mask.op, mask.index, np.maximum(values, lowest), f"{mask.op.name}_mask")
                changes.append(Change("clamped the mask", mask.op.name, f"the sum ends at {-out.threshold:g}"))
        return changes
