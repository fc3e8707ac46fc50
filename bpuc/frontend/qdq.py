"""What QuantizeLinear and DequantizeLinear nodes in a model file say of its tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, Tensor

# kinds of op whose results are never below 0, and those of which that holds where it holds for all operands
_NOT_NEGATIVE = frozenset({"Relu", "Sigmoid", "HardSigmoid", "Softmax", "Abs", "Exp", "Sqrt"})
_KEEPS_SIGN = {"Reshape", "Transpose", "Slice", "Split", "Concat", "Expand", "Tile", "DepthToSpace", "SpaceToDepth"}
_KEEPS_SIGN |= {"Resize", "MaxPool", "AveragePool", "ReduceMean", "ReduceMax", "ReduceSum", "Add", "Mul"}


class Signs:
    """Which tensors of a graph that grows are never below 0, as far as the kinds of ops tell."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._known: dict[Tensor, bool] = {}

    def never_negative(self, tensor: Tensor) -> bool:
        """Whether no value of the tensor is below 0; looks back op by op, without recursion."""
        stack = [tensor]
        while stack:
            t = stack[-1]
            op = self._graph.producer(t)
            operands = [o for o in op.inputs if o is not None] if op is not None and op.kind in _KEEPS_SIGN else []
            open_ones = [o for o in operands if o not in self._known]
            if t not in self._known and open_ones:
                stack += open_ones
                continue
            stack.pop()
            if t.const is not None:
                self._known[t] = bool((t.const >= 0).all())
            elif op is not None and op.kind == "Clip":
                self._known[t] = float(dict(getattr(op.attrs, "params", ())).get("min", -1.0)) >= 0
            else:
                positive = op is not None and op.kind in _NOT_NEGATIVE
                self._known[t] = positive or (bool(operands) and all(self._known[o] for o in operands))
        return self._known[tensor]


@dataclass(frozen=True)
class QuantInfo:
    """Scale and zero point that the model file itself gives a tensor; axis None: one of each.

    dtype: of the integers. The real value is (integer - zero_point) * scale. cuts: whether all that the tensor's values
    are read by sees them cut off at the ends of the range, and they may lie beyond.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    dtype: DType
    axis: int | None = None
    cuts: bool = False

    @property
    def range(self) -> tuple[float, float]:
        """Least and largest real value that the integers reach (of the widest channel)."""
        limits = np.iinfo(self.dtype.value)
        low = min((int(limits.min) - z) * s for s, z in zip(self.scale, self.zero_point))
        return low, max((int(limits.max) - z) * s for s, z in zip(self.scale, self.zero_point))


def quant_info(inputs: Sequence[Tensor | None], attributes: Mapping[str, Any], dtype: DType) -> QuantInfo | None:
    """What a Q or DQ node says, None where scale or zero point are not constant or given per block.

    Args:
        inputs: x, scale and, where present, zero point.
        attributes: of the node.
        dtype: of the integers.
    """
    x, scale = inputs[0], inputs[1].const if inputs[1] is not None else None
    zero = inputs[2] if len(inputs) > 2 else None
    if (
        x is None
        or scale is None
        or not scale.size
        or (zero is not None and zero.const is None)
        or attributes.get("block_size")
    ):
        return None
    points = np.zeros(scale.shape, np.int64) if zero is None else zero.value()
    axis = None if scale.size == 1 else int(attributes.get("axis", 1)) % x.rank
    return QuantInfo(tuple(float(s) for s in scale.reshape(-1)), tuple(int(z) for z in points.reshape(-1)), dtype, axis)
