"""Tensors in which a large negative number, or -Inf, hides positions from a Softmax: what attention adds to its scores.

Such a number is no value that a scale should hold. Calibration looks past it, and what touches such a tensor computes
in float on the CPU.
"""

from __future__ import annotations

import numpy as np

from bpuc.ir import Graph, Op, Tensor

HIDDEN = -1e4  # exporters write this, the least half or single float, -1e9 or -Inf; the exponential of it is 0
_SEEN = HIDDEN / 2  # a score beside it is as good as hidden
_CARRIES = {"Add", "Sub", "Max", "Min", "Affine", "Reshape", "Transpose", "Expand", "Tile", "Slice", "Split", "Concat"}
_CARRIES |= {"Gather", "Identity", "Where", "Cast", "Unsqueeze", "Squeeze", "GatherND"}
_ENDS = {"Softmax", "LogSoftmax", "Exp", "ReduceMax"}


def masked_tensors(graph: Graph) -> frozenset[str]:
    """Names of tensors that may hold such a number, by the graph's constants, on the way to a Softmax."""
    masked: set[Tensor] = set()
    ops = list(graph)
    for op in ops:
        if _writes(op) or (_carries(op) and any(t in masked for t in op.inputs if t is not None)):
            masked |= {t for t in op.outputs if t.dtype.is_float}
    kept: set[Tensor] = set()
    for op in reversed(ops):
        for t in op.outputs:
            readers = graph.consumers(t) if t in masked else ()
            if any(_kind(r) in _ENDS or (_carries(r) and any(o in kept for o in r.outputs)) for r in readers):
                kept.add(t)
    return frozenset(t.name for t in kept)


def seen(array: np.ndarray) -> np.ndarray:
    """The values of such a tensor that are not hidden, NaN and Inf among them; a zero where all are."""
    values = array[~(array <= _SEEN)]
    return values if values.size else np.zeros(1, array.dtype)


def _kind(op: Op) -> str:
    return op.onnx_type if op.kind == "Onnx" else op.kind


def _carries(op: Op) -> bool:
    return _kind(op) in _CARRIES


def _writes(op: Op) -> bool:
    """Whether a constant of the op is such a number, or makes one of a mask of ones."""
    kind = _kind(op)
    if kind not in _CARRIES and kind != "Mul":
        return False
    for i, t in enumerate(op.inputs):
        if t is None or t.const is None or not t.dtype.is_float or not t.elements:
            continue
        if t.const.min() <= HIDDEN or (
            t.const.max() >= -HIDDEN and (kind in ("Mul", "Affine") or (kind, i) == ("Sub", 1))
        ):
            return True
    return False
