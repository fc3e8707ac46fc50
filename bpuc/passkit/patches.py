"""What an op with weights multiplies them with: rows of its operand, as a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bpuc.ir import Op
from bpuc.ops.attrs import ConvAttrs

Array = npt.NDArray[Any]


def patches(op: Op, x: Array, most: int, phase: float = 0.0) -> Array | None:
    """Rows of operand 0 that results are products of, float32 [groups, rows, taps of one output channel].

    Args:
        x: operand 0 of a Conv or MatMul.
        most: rows at most, at even distances over the places of the result.
        phase: 0..1, moves the places.

    Returns:
        None for an op that this is not known of (transposed convolutions, gains per channel).
    """
    if op.kind == "MatMul":
        flat = x.reshape(-1, x.shape[-1])
        return np.asarray(flat[_places(len(flat), most, phase)][None])
    if op.kind != "Conv" or not isinstance(op.attrs, ConvAttrs):
        return None
    a, w, out = op.attrs, op.input(1).shape, op.out.shape
    rank = len(a.strides)
    pads = [(0, 0), (0, 0), *((a.pads[i], a.pads[i + rank]) for i in range(rank))]
    padded = np.pad(x, pads)
    size = out[2:]
    at = _places(x.shape[0] * int(np.prod(size)), most, phase)
    image, *where = np.unravel_index(at, (x.shape[0], *size))
    taps = np.unravel_index(np.arange(int(np.prod(w[2:]))), w[2:])
    index: list[Array] = [where[i][:, None] * a.strides[i] + taps[i][None] * a.dilations[i] for i in range(rank)]
    where_read: Any = (image[:, None], slice(None), *index)
    # [rows, taps, channels]: the indexed axes come first
    picked: Array = padded[where_read]
    by_group = picked.transpose(0, 2, 1).reshape(len(at), a.group, -1)
    return np.ascontiguousarray(by_group.transpose(1, 0, 2))


def _places(count: int, most: int, phase: float) -> npt.NDArray[np.int64]:
    take = min(count, most)
    return ((np.arange(take) + phase % 1.0) * count / max(take, 1)).astype(np.int64)
