"""The end of Conv, ConvTranspose and MatMul in onnxruntime: from products to the stored value.

Two ways: one QLinear node whose float32 requantization is certified for every channel, or exact sums in int32 or
float32, brought together and requantized in a type wide enough for all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from bpuc.base.certificate import Reach, certified_scales
from bpuc.base.dtypes import DType
from bpuc.isa import Conv, ConvTranspose, MatMul
from bpuc.sim.engine import Array
from bpuc.sim.fast.arithmetic import EXACT, LIMIT, along
from bpuc.sim.fast.graph import Graph, TensorProto
from bpuc.sim.fast.plans.sums import INT32_MAX
from bpuc.sim.fast.storage import BIAS, Access, Operand

_STORED = {DType.INT8: TensorProto.UINT8, DType.INT16: TensorProto.INT16}
_LIFT = 1 << 62
_FIELDS = ("bias", "mult", "shift", "res_mult")


class Way(Enum):
    """The arithmetic behind exact sums: none (the sum is the result), or a type that holds all terms."""

    NONE = 0
    FLOAT64 = 1
    INT64 = 2


@dataclass
class Tail:
    """The constants behind the sums, one a channel.

    bound: int64 [C], no sum (without the bias) is larger in magnitude. view: y's shape inside the graph; axis: where
    its channels are.
    """

    y: Operand
    lo: int
    hi: int
    bias: Array
    mult: Array | None
    shift: Array | None
    res: Operand | None
    res_mult: Array | None
    bound: Array
    view: tuple[int, ...]
    axis: int

    @classmethod
    def of(
        cls, ins: Conv | ConvTranspose | MatMul, a: Access, bound: Array, view: tuple[int, ...], axis: int
    ) -> Tail | None:
        """None where constants are not constant or do not fit, or the accumulator could leave its width."""
        channels = len(bound)
        rows: dict[str, Array | None] = dict.fromkeys(_FIELDS)
        for name in _FIELDS:
            o = a.get(name)
            if o is not None:
                if not o.constant or o.ref.elements not in (1, channels):
                    return None
                rows[name] = np.broadcast_to(o.load().reshape(-1).astype(np.int64), (channels,))
        bias = rows["bias"]
        bias = np.zeros(channels, np.int64) if bias is None else bias
        factors = (ins.a, ins.b) if isinstance(ins, MatMul) else (ins.x, ins.w)
        narrow = all(r.dtype is DType.INT8 for r in factors)
        if narrow and int((bound + np.abs(bias)).max()) > INT32_MAX:
            return None
        mult, shift = rows["mult"], rows["shift"]
        res = a.get("res")
        if rows["res_mult"] is None or res is None or mult is None:
            rows["res_mult"] = res = None
        if (mult is None) != (shift is None) or (res is not None and res.ref.shape != ins.y.shape):
            return None
        limits = ins.y.dtype
        if not limits.qmin <= ins.lo <= ins.hi <= limits.qmax:
            return None
        return cls(a["y"], ins.lo, ins.hi, bias, mult, shift, res, rows["res_mult"], bound, view, axis)

    def scales(self) -> Array | None:
        """Certified float32 scales [C] for a QLinear node, or None."""
        if self.mult is None or self.shift is None or self.res is not None or self.y.ref.dtype is not DType.INT8:
            return None
        scale, good = certified_scales(self.mult, self.shift, Reach.around(self.bias, self.bound), self.lo, self.hi)
        return scale if good.all() else None

    def clamp(self, g: Graph, value: str) -> str:
        """Clip a uint8 value where the clamp is narrower than its type."""
        if self.lo == -128 and self.hi == 127:
            return value
        return g.node("Clip", value, g.constant(self.lo + BIAS, np.uint8), g.constant(self.hi + BIAS, np.uint8))

    def way(self, parts: list[tuple[Array, int]]) -> Way | None:
        """How `wide` can give the right integers for sums in these parts: their bounds and powers of two.

        In units of 2**-shift every term is an integer. Below 2**53 float64 holds it, and where the sum of all stays
        below 2**53 too, nothing is ever rounded. Where it may not, it is enough that the first part alone is large:
        adding the others to a sum that has been rounded cannot bring it back within the clamp, and a sum that ends
        there never was. Up to 2**62 there is int64.
        """
        if self.mult is None or self.shift is None:
            total = self.bound + np.abs(self.bias)
            fits = self.y.ref.dtype is DType.INT32 and len(parts) == 1 and int(total.max()) <= INT32_MAX
            return Way.NONE if fits else None
        if self.y.ref.dtype not in (DType.INT8, DType.INT16) or self.shift.min() < 1 or self.shift.max() > 62:
            return None
        mult = np.abs(self.mult.astype(np.float64))
        products = [size * mult for size, _ in parts]
        others = [p * 2.0**power for p, (_, power) in zip(products[1:], parts[1:])]
        constant = np.abs(self.bias.astype(np.float64)) * mult + np.ldexp(0.5, self.shift)
        if self.res is not None and self.res_mult is not None:
            # twice: the value as stored, and the zero point taken off again
            others.append(np.abs(self.res_mult.astype(np.float64)) * -2.0 * self.res.ref.dtype.qmin)
            constant = constant + others[-1] / 2
        rest = sum(others, constant)
        total = products[0] * 2.0 ** parts[0][1] + rest
        zero, clamp = (np.ldexp(float(v), self.shift) for v in (BIAS, max(abs(self.lo), abs(self.hi)) + 1 + 2 * BIAS))
        held = all((v < EXACT).all() for v in (*products, *others, constant + zero))
        late = (total < LIMIT) & (4 * (rest + clamp) < EXACT)
        if held and (late | (total + zero < EXACT)).all():
            return Way.FLOAT64
        return Way.INT64 if (total < LIMIT).all() else None

    def wide(self, g: Graph, way: Way, names: list[str], powers: list[int], last: bool = False) -> str:
        """From exact sums to the stored value.

        Args:
            way: what `way` said. names: tensors of y's shape in int32 or float32. powers: of two, by which each is to
                be multiplied. last: the sums have their channels last; so has then the result.
        """
        axis = len(self.view) - 1 if last else self.axis
        if self.mult is None or self.shift is None:
            return self._accumulator(g, names[0], axis)
        kind = TensorProto.DOUBLE if way is Way.FLOAT64 else TensorProto.INT64

        shifts = along(self.shift, axis, len(self.view))

        def vector(value: Array) -> str:
            value = along(value, axis, len(self.view))
            return g.constant(np.ldexp(value.astype(np.float64), -shifts) if way is Way.FLOAT64 else value)

        constant = self.bias * self.mult + (np.int64(1) << (self.shift - 1))
        total = ""
        for name, power in zip(names, powers):
            term = g.node("Mul", g.node("Cast", name, to=kind), vector(self.mult << power))
            total = g.node("Add", total, term) if total else term
        if self.res is not None and self.res_mult is not None:
            res = g.read(self.res, self.view)
            res = g.node("Cast", g.channels_last(res) if last else res, to=kind)
            total = g.node("Add", total, g.node("Mul", res, vector(self.res_mult)))
            if self.res.ref.dtype is DType.INT8:
                constant = constant - BIAS * self.res_mult
        byte = self.y.ref.dtype is DType.INT8
        if way is Way.INT64:
            # above zero a shift of unsigned integers rounds down
            total = g.node("Add", total, vector(constant + _LIFT))
            shift = g.constant(shifts, np.uint64)
            total = g.node("BitShift", g.node("Cast", total, to=TensorProto.UINT64), shift, direction="RIGHT")
            down = vector((np.int64(_LIFT) >> self.shift) - BIAS * byte)
            total = g.node("Sub", g.node("Cast", total, to=kind), down)
            low, high = (g.constant(v + BIAS * byte, np.int64) for v in (self.lo, self.hi))
            return g.node("Cast", g.node("Clip", total, low, high), to=_STORED[self.y.ref.dtype])
        if byte:
            # above zero a cast rounds down, so the clamp comes first and does for floor as well
            total = g.node("Add", total, vector(constant + (np.int64(BIAS) << self.shift)))
            low, high = g.constant(self.lo + BIAS, np.float64), g.constant(self.hi + BIAS + 0.5, np.float64)
        else:
            total = g.node("Floor", g.node("Add", total, vector(constant)))
            low, high = g.constant(self.lo, np.float64), g.constant(self.hi, np.float64)
        return g.node("Cast", g.node("Clip", total, low, high), to=_STORED[self.y.ref.dtype])

    def _accumulator(self, g: Graph, name: str, axis: int) -> str:
        total = g.node("Cast", name, to=TensorProto.INT32)
        if self.bias.any():
            total = g.node("Add", total, g.constant(along(self.bias, axis, len(self.view)), np.int32))
        if self.lo > -INT32_MAX - 1 or self.hi < INT32_MAX:
            total = g.node("Clip", total, g.constant(self.lo, np.int32), g.constant(self.hi, np.int32))
        return total
