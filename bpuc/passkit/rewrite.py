"""Small steps that several rewrites share."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, Op, Tensor
from bpuc.ir.types import Array
from bpuc.ops.attrs import OnnxAttrs, ReduceAttrs


def fusable(*ops: Op) -> bool:
    """Whether the user's device pins allow these ops to become one."""
    return len({op.pin for op in ops}) == 1


def set_const(graph: Graph, op: Op, index: int, array: Array, fallback: str) -> None:
    """Let operand `index` be a new constant; it keeps the old one's name where nobody else reads that.

    Args:
        fallback: name where the operand was absent.
    """
    old = op.maybe(index)
    new = Tensor("", tuple(array.shape), DType.of(array), const=array)
    if old is None:
        new.name = graph.unique(fallback)
    elif graph.uses(old) == [(op, index)]:
        new.name = old.name
    else:
        new.name = graph.unique(old.name)
    graph.set_input(op, index, new)


def is_scalar(tensor: Tensor | None) -> bool:
    """A constant of one element."""
    return tensor is not None and tensor.const is not None and tensor.const.size == 1


def scalar(tensor: Tensor) -> float:
    return float(tensor.value().reshape(-1)[0])


def merged_origin(ops: Iterable[Op]) -> tuple[str, ...]:
    """ONNX nodes of all ops, each once, in order."""
    return tuple(dict.fromkeys(name for op in ops for name in op.origin))


def as_float32(array: np.ndarray) -> Array:
    """Folded in float64, kept as float32 like every float constant of the graph."""
    return np.ascontiguousarray(array, np.float32)


def reduction(op: Op) -> ReduceAttrs | None:
    """What a Reduce op reduces, also one that the importer left opaque; None where axes or operand do not tell."""
    x, axes = op.maybe(0), op.maybe(1)
    if x is None or x.const is not None or not x.dtype.is_float:
        return None
    if isinstance(op.attrs, ReduceAttrs):
        return op.attrs
    opaque = isinstance(op.attrs, OnnxAttrs) and op.onnx_type.startswith("Reduce")
    if not opaque or (axes is not None and axes.const is None):
        return None
    assert isinstance(op.attrs, OnnxAttrs)
    fields = dict(op.attrs.fields)
    given = fields.get("axes", ()) if axes is None else tuple(int(a) for a in axes.value().reshape(-1))
    assert isinstance(given, tuple), "axes is a list of integers"
    if not given and fields.get("noop_with_empty_axes", 0):
        return None
    chosen = tuple(sorted({int(a) % x.rank for a in given})) or tuple(range(x.rank))
    return ReduceAttrs(chosen, bool(fields.get("keepdims", 1)))
