"""What QuantizeLinear and DequantizeLinear nodes in a model file say of its tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.ir import Tensor

# kinds of op whose results are never below 0
NOT_NEGATIVE = frozenset({"Relu", "Sigmoid", "HardSigmoid", "Softmax", "Clip"})


@dataclass(frozen=True)
class QuantInfo:
    """Scale and zero point that the model file itself gives a tensor; axis None: one of each.

    dtype: of the integers. The real value is (integer - zero_point) * scale.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    dtype: DType
    axis: int | None = None

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
