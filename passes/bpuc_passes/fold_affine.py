"""Fold per-channel gains and offsets into the weights beside them.

    Conv(x) * g + b    ->  Conv with weights w*g and bias bias*g + b          (ConvTranspose, MatMul, LayerNorm too)
    Conv(x * g + b)    ->  Conv with weights w*g and bias bias + sum(w*b)     (b only where nothing is padded)

The second not for inputs of the network with gains that differ much, such as features of different units.

Constants that vary along several axes fold into a normalization in front of them all the same.
Scalars that are left as Add or Mul beside such an op become an Affine first, so that they fold too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, Op, Tensor
from bpuc.ops.attrs import AffineAttrs, ConvAttrs, EltwiseAttrs, MatMulAttrs, NormAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext
from bpuc.passkit.rewrite import as_float32, fusable, is_scalar, scalar, set_const

# Gains of network inputs further apart than this stay. A border gives an input one scale, so their ratio would be left
# in the weights, where the smaller ones had 3 bits less.
_UNEVEN = 8.0
_NORMS = ("LayerNormalization", "InstanceNormalization")


@dataclass(frozen=True)
class FoldAffine(Pass):
    """BatchNormalization and constants per channel disappear into Conv, ConvTranspose, MatMul and normalizations."""

    name = "fold-affine"
    numerics = Numerics.EXACT
    # whether scalars count; not before fuse-table has taken those that belong to a table
    scalars: bool = True

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            if self.scalars and op.kind in ("Add", "Mul"):
                changes += _scalar_to_affine(graph, op)
        for op in graph:
            if op in graph and op.kind in ("Add", "Mul"):
                changes += _fold_into_norm(graph, op)
        for op in graph:
            if op in graph and op.kind == "Affine":
                before = graph.producer(op.input(0))
                if before is not None and graph.sole_consumer(op.input(0)) is op and fusable(before, op):
                    changes += _fold_back(graph, before, op)
        for op in graph:
            if op in graph and op.kind == "Affine":
                after = graph.sole_consumer(op.out)
                if after is not None and fusable(after, op):
                    changes += _fold_forward(graph, op, after)
        return changes


def _scalar_to_affine(graph: Graph, op: Op) -> list[Change]:
    """x + c or x * c on at least three axes is an Affine whose channels are all equal."""
    index = next((i for i in (0, 1) if is_scalar(op.maybe(i))), None)
    if index is None:
        return []
    x, c = op.input(1 - index), scalar(op.input(index))
    clamped = getattr(op.attrs, "low", None) is not None or getattr(op.attrs, "high", None) is not None
    if x.rank < 3 or x.shape != op.out.shape or x.const is not None or clamped:
        return []
    channels = x.shape[1]
    gain = np.full(channels, c if op.kind == "Mul" else 1.0, np.float32)
    bias = np.full(channels, c if op.kind == "Add" else 0.0, np.float32)
    out, origin = op.out, op.origin
    spare = graph.new_tensor(out, out.name)
    graph.rebind(op, 0, spare)
    constants = [
        Tensor(graph.unique(f"{op.name}_{n}"), (channels,), DType.FLOAT32, v)
        for n, v in (("gain", gain), ("offset", bias))
    ]
    graph.add("Affine", AffineAttrs(1), [x, *constants], [out], name=op.name, origin=origin, onnx_type=op.kind, like=op)
    graph.erase(op)
    return [Change(f"turned {op.kind} of a scalar into Affine", op.name, "so that it folds into a neighbour")]


def _fold_into_norm(graph: Graph, op: Op) -> list[Change]:
    """A constant that varies along several axes, which no Affine holds, becomes gain or offset of a normalization."""
    side = next((i for i in (0, 1) if op.input(i).const is not None), None)
    norm = None if side is None else graph.producer(op.input(1 - side))
    if side is None or norm is None or norm.kind not in _NORMS or not isinstance(op.attrs, EltwiseAttrs):
        return []
    c, clamped = op.input(side).value().astype(np.float64), (op.attrs.low, op.attrs.high) != (None, None)
    alone = graph.sole_consumer(norm.out) is op and norm.out.shape == op.out.shape
    if clamped or not alone or not fusable(norm, op) or c.size == 1:
        return []
    g, b = (norm.input(i).value().astype(np.float64) for i in (1, 2))
    c = c.reshape((1,) * (op.out.rank - c.ndim) + c.shape)
    if op.kind == "Mul":
        set_const(graph, norm, 1, as_float32(g * c), f"{norm.name}_gain")
    set_const(graph, norm, 2, as_float32(b * c if op.kind == "Mul" else b + c), f"{norm.name}_offset")
    graph.absorb(norm, op)
    return [Change(f"folded {op.onnx_type} {op.name} into {norm.kind}", norm.name, "linear per element")]


def _fold_back(graph: Graph, op: Op, affine: Op) -> list[Change]:
    gain, bias = (affine.input(i).value().astype(np.float64) for i in (1, 2))
    axis = affine.attrs.axis if isinstance(affine.attrs, AffineAttrs) else -1
    attrs = op.attrs
    if isinstance(attrs, ConvAttrs | MatMulAttrs):
        weights = op.input(1)
        channel_axis = 1 if isinstance(attrs, ConvAttrs) else op.out.rank - 1
        clamped = attrs.low is not None or attrs.high is not None
        if weights.const is None or clamped or op.maybe(3) is not None or axis != channel_axis:
            return []
        if isinstance(attrs, MatMulAttrs) and weights.rank != 2:
            return []
        w = _scale_outputs(op, weights.const.astype(np.float64), gain)
        old = op.maybe(2)
        offset = bias if old is None else old.value().astype(np.float64) * gain + bias
        set_const(graph, op, 1, as_float32(w), f"{op.name}_weight")
        set_const(graph, op, 2, as_float32(offset), f"{op.name}_bias")
    elif isinstance(attrs, NormAttrs) and op.kind in _NORMS:
        shape = [1] * op.out.rank
        shape[axis] = -1
        g, b = (op.input(i).value().astype(np.float64) for i in (1, 2))
        set_const(graph, op, 1, as_float32(g * gain.reshape(shape)), f"{op.name}_gain")
        set_const(graph, op, 2, as_float32(b * gain.reshape(shape) + bias.reshape(shape)), f"{op.name}_offset")
    elif op.kind == "Affine" and isinstance(attrs, AffineAttrs) and attrs.axis == axis:
        g, b = (op.input(i).value().astype(np.float64) for i in (1, 2))
        set_const(graph, op, 1, as_float32(g * gain), f"{op.name}_gain")
        set_const(graph, op, 2, as_float32(b * gain + bias), f"{op.name}_offset")
    else:
        return []
    graph.absorb(op, affine)
    return [Change(f"folded {affine.onnx_type} {affine.name} into {op.kind}", op.name, "linear per channel")]


def _scale_outputs(op: Op, w: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """Weights with every output channel multiplied by its gain."""
    if op.kind == "MatMul":
        return np.asarray(w * gain)
    if op.kind == "Conv":
        return np.asarray(w * gain.reshape(-1, *[1] * (w.ndim - 1)))
    groups = op.attrs.group if isinstance(op.attrs, ConvAttrs) else 1
    grouped = w.reshape(groups, -1, *w.shape[1:])
    return np.asarray((grouped * gain.reshape(groups, 1, -1, *[1] * (w.ndim - 2))).reshape(w.shape))


def _fold_forward(graph: Graph, affine: Op, op: Op) -> list[Change]:
    attrs = op.attrs
    if op.kind not in ("Conv", "MatMul") or op.maybe(0) is not affine.out or op.input(1).const is None:
        return []
    gain, bias = (affine.input(i).value().astype(np.float64) for i in (1, 2))
    sizes = np.abs(gain[gain != 0])
    if graph.producer(affine.input(0)) is None and sizes.size and sizes.max() >= _UNEVEN * sizes.min():
        return []
    w = op.input(1).value().astype(np.float64)
    axis = affine.attrs.axis if isinstance(affine.attrs, AffineAttrs) else -1
    if isinstance(attrs, ConvAttrs):
        if axis != 1 or (any(attrs.pads) and bias.any()):
            return []
        per_group = w.shape[1]
        index = np.arange(w.shape[0]) // (w.shape[0] // attrs.group)
        rows = index[:, None] * per_group + np.arange(per_group)[None, :]
        shape = (*rows.shape, *[1] * (w.ndim - 2))
        shift = (w * bias[rows].reshape(shape)).reshape(w.shape[0], -1).sum(1)
        w = w * gain[rows].reshape(shape)
    else:
        if axis != op.input(0).rank - 1 or w.ndim != 2:
            return []
        shift, w = bias @ w, w * gain[:, None]
    old = op.maybe(2)
    set_const(graph, op, 1, as_float32(w), f"{op.name}_weight")
    if old is not None or shift.any():
        offset = shift if old is None else old.value().astype(np.float64) + shift
        set_const(graph, op, 2, as_float32(offset), f"{op.name}_bias")
    graph.set_input(op, 0, affine.input(0))
    op.origin = affine.origin + op.origin
    graph.erase(affine)
    return [Change(f"folded {affine.onnx_type} {affine.name} into {op.kind}", op.name, "linear per input channel")]
