"""Where an op keeps constant weights, and how they fall into output channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpuc.ir import Op
from bpuc.ops.attrs import ConvAttrs

_KINDS = ("Conv", "ConvTranspose", "MatMul", "Affine")


def with_weights(op: Op) -> bool:
    """Whether operand 1 is constant weights with one scale an output channel."""
    weights = op.maybe(1)
    return op.kind in _KINDS and weights is not None and weights.const is not None and not _is_batched(op)


def _is_batched(op: Op) -> bool:
    return op.kind == "MatMul" and (op.input(1).rank != 2 or op.input(0).const is not None)


def weight_axis(op: Op) -> int:
    """Axis of the weights that runs over output channels (for a grouped ConvTranspose: within the group)."""
    return {"Conv": 0, "ConvTranspose": 1, "MatMul": 1, "Affine": 0}[op.kind]


def per_channel(op: Op) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The weights as float64 [output channels, everything else]."""
    return by_channel(op, op.input(1).value().astype(np.float64))


def by_channel(op: Op, w: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    """An array of the shape of the op's weights as [output channels, everything else]."""
    if op.kind == "MatMul":
        return w.T
    if op.kind == "ConvTranspose":
        groups = op.attrs.group if isinstance(op.attrs, ConvAttrs) else 1
        grouped = w.reshape(groups, w.shape[0] // groups, w.shape[1], -1)
        return grouped.transpose(0, 2, 1, 3).reshape(groups * w.shape[1], -1)
    return w.reshape(w.shape[0], -1)


def by_input(op: Op, w: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    """An array of the shape of the op's weights as [input channels, output channels of their group, taps]."""
    if op.kind in ("MatMul", "ConvTranspose"):
        return w.reshape(w.shape[0], w.shape[1], -1)
    if op.kind == "Affine":
        return w.reshape(-1, 1, 1)
    groups = op.attrs.group if isinstance(op.attrs, ConvAttrs) else 1
    grouped = w.reshape(groups, w.shape[0] // groups, w.shape[1], -1)
    return grouped.transpose(0, 2, 1, 3).reshape(groups * w.shape[1], w.shape[0] // groups, -1)


def from_input(op: Op, w: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    """The inverse of `by_input`: an array of the shape of the op's weights."""
    shape = op.input(1).shape
    if op.kind != "Conv":
        return w.reshape(shape)
    groups = op.attrs.group if isinstance(op.attrs, ConvAttrs) else 1
    grouped = w.reshape(groups, shape[1], shape[0] // groups, -1)
    return grouped.transpose(0, 2, 1, 3).reshape(shape)


def rounded_weights(op: Op) -> np.ndarray[Any, np.dtype[np.float64]]:
    """What the op's integer weights stand for, float64 in their shape; they must have their scales."""
    return np.asarray(integer_weights(op) * _steps(op))


def integer_weights(op: Op) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The integers of the op's weights as float64 in their shape; they must have their scales."""
    quant = op.input(1).quant
    qmax = 127 if quant is None else quant.dtype.qmax
    return np.clip(np.floor(op.input(1).value().astype(np.float64) / _steps(op) + 0.5), -qmax, qmax)


def _steps(op: Op) -> np.ndarray[Any, np.dtype[np.float64]]:
    quant = op.input(1).quant
    assert quant is not None, f"{op.name}: its weights have no scale"
    return spread(op, np.asarray(quant.scale, np.float64))


def spread(op: Op, values: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """One value an output channel, in a shape that broadcasts with the op's weights (and is theirs if transposed)."""
    w = op.input(1)
    if op.kind == "ConvTranspose":
        groups = op.attrs.group if isinstance(op.attrs, ConvAttrs) else 1
        part = values.reshape(groups, 1, -1, *[1] * (w.rank - 2))
        whole = np.broadcast_to(part, (groups, w.shape[0] // groups, *part.shape[2:]))
        return whole.reshape(w.shape[0], *part.shape[2:])
    return values.reshape([-1 if a == weight_axis(op) else 1 for a in range(w.rank)])
