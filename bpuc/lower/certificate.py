"""What is proven of the numbers of one accumulating op, whatever its input: for the report.

The accumulator's bound is the largest |bias| + sum of |integer weights| times the largest operand, over the channels;
for a product of two activations, the number of terms times both largest integers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bpuc.base.certificate import Reach, certified_scales
from bpuc.base.rounding import Int64Array
from bpuc.ir import Op

INT32_MAX = (1 << 31) - 1
# sums of products below this are exact in float32 too
_FLOAT32_EXACT = 1 << 24


@dataclass(frozen=True)
class Certificate:
    """Of one op.

    Attributes:
        bound: largest |accumulator| that any input gives; limit: of its type, int32 or int64.
        exact_in: the narrowest of float32, int32 and int64 that holds every sum exactly.
        bias, mult, shift: least and greatest of all channels, in integers; None without.
        float32_channels: part of the channels whose requantization is proven equal in float32, so that an ordinary CPU
            kernel gives the machine's integers; None where there is none to prove.
    """

    node: str
    bound: int
    limit: int
    exact_in: str
    bias: tuple[int, int] | None = None
    mult: tuple[int, int] | None = None
    shift: tuple[int, int] | None = None
    float32_channels: float | None = None

    def as_json(self) -> dict[str, Any]:
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


def certify(
    op: Op,
    reach: Reach,
    wide: bool,
    bias: Int64Array | None = None,
    scaling: tuple[Int64Array, Int64Array, int, int] | None = None,
    provable: bool = False,
) -> Certificate:
    """The certificate of an op.

    Args:
        reach: accumulators of each channel. wide: whether they are int64.
        scaling: multipliers, shifts and the clamp. provable: whether float32 is a way for it at all.
    """
    bound = int(reach.peak.max(initial=0))
    exact = "float32" if bound < _FLOAT32_EXACT else "int32" if bound <= INT32_MAX else "int64"
    mult = shift = part = None
    if scaling is not None:
        mult, shift = _ends(scaling[0]), _ends(scaling[1])
        if provable:
            _, good = certified_scales(*scaling[:2], reach, *scaling[2:])
            part = float(good.mean()) if good.size else 1.0
    limit = (1 << 63) - 1 if wide else INT32_MAX
    return Certificate(op.name, bound, limit, exact, _ends(bias), mult, shift, part)


def _ends(values: Int64Array | None) -> tuple[int, int] | None:
    return None if values is None or not np.size(values) else (int(np.min(values)), int(np.max(values)))
