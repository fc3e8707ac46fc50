"""The end of Conv, ConvTranspose and MatMul in onnxruntime: from products to the stored value.

Two ways. `Fused`: one QLinear node whose float32 requantization is certified for every channel. `Wide`: exact sums in
int32 or float32, then float64, in which no step rounds: all terms are multiples of 2**-shift and their sum stays below
2**53 of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpuc.base.certificate import Reach, certified_scales
from bpuc.base.dtypes import DType
from bpuc.isa import Conv, ConvTranspose, MatMul
from bpuc.sim.engine import Array
from bpuc.sim.fast.arithmetic import EXACT, LIMIT, along
from bpuc.sim.fast.graph import Graph, TensorProto
from bpuc.sim.fast.plans.sums import INT32_MAX
from bpuc.sim.fast.storage import BIAS, Access, Operand

_FIELDS = ("bias", "mult", "shift", "res_mult")


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

    def exact(self, parts: list[tuple[Array, int]]) -> bool:
        """Whether `wide` gives the right integers for sums in these parts: their bounds and powers of two.

        In units of 2**-shift every term is an integer below 2**53, so float64 holds it. Where their sum stays below
        2**53 too, nothing is ever rounded. Where it may not, the first part alone is large: adding the others to a
        sum that has been rounded cannot bring it back within the clamp, and a sum that ends there never was.
        """
        if self.mult is None or self.shift is None:
            total = self.bound + np.abs(self.bias)
            return self.y.ref.dtype is DType.INT32 and len(parts) == 1 and int(total.max()) <= INT32_MAX
        if self.y.ref.dtype not in (DType.INT8, DType.INT16) or self.shift.min() < 1 or self.shift.max() > 62:
            return False
        mult = np.abs(self.mult.astype(np.float64))
        products = [size * mult for size, _ in parts]
        others = [p * 2.0**power for p, (_, power) in zip(products[1:], parts[1:])]
        constant = np.abs(self.bias.astype(np.float64)) * mult + np.ldexp(129.0, self.shift)
        if self.res is not None and self.res_mult is not None:
            # twice: the value as stored, and the zero point taken off again
            others.append(np.abs(self.res_mult.astype(np.float64)) * -2.0 * self.res.ref.dtype.qmin)
            constant = constant + others[-1] / 2
        rest = sum(others, constant)
        total = products[0] * 2.0 ** parts[0][1] + rest
        if not all((v < EXACT).all() for v in (*products, *others, constant)):
            return False
        clamp = np.ldexp(float(max(abs(self.lo), abs(self.hi)) + 1 + BIAS), self.shift)
        return bool(((total < EXACT) | ((total < LIMIT) & (4 * (rest + clamp) < EXACT))).all())

    def wide(self, g: Graph, names: list[str], powers: list[int], last: bool = False) -> str:
        """From exact sums to the stored value.

        Args:
            names: tensors of y's shape in int32 or float32. powers: of two, by which each is to be multiplied.
            last: the sums have their channels last; so has then the result.
        """
        axis = len(self.view) - 1 if last else self.axis
        if self.mult is None or self.shift is None:
            return self._accumulator(g, names[0], axis)

        def vector(value: Array) -> str:
            return g.constant(along(value, axis, len(self.view)), np.float64)

        down = -self.shift
        constant = self.bias * self.mult + (np.int64(1) << (self.shift - 1))
        terms = []
        for name, power in zip(names, powers):
            factor = np.ldexp(self.mult.astype(np.float64), down + power)
            wide = g.node("Cast", name, to=TensorProto.DOUBLE)
            terms.append(g.node("Mul", wide, vector(factor)))
        if self.res is not None and self.res_mult is not None:
            res = g.read(self.res, self.view)
            wide = g.node("Cast", g.channels_last(res) if last else res, to=TensorProto.DOUBLE)
            terms.append(g.node("Mul", wide, vector(np.ldexp(self.res_mult.astype(np.float64), down))))
            if self.res.ref.dtype is DType.INT8:
                constant = constant - BIAS * self.res_mult
        total = terms[0]
        for t in terms[1:]:
            total = g.node("Add", total, t)
        if self.y.ref.dtype is DType.INT8:
            # above zero a cast rounds down, so the clamp comes first and does for floor as well
            constant = constant + (np.int64(BIAS) << self.shift)
            total = g.node("Add", total, vector(np.ldexp(constant.astype(np.float64), down)))
            low, high = g.constant(self.lo + BIAS, np.float64), g.constant(self.hi + BIAS + 0.5, np.float64)
            return g.node("Cast", g.node("Clip", total, low, high), to=TensorProto.UINT8)
        total = g.node("Add", total, vector(np.ldexp(constant.astype(np.float64), down)))
        total = g.node("Clip", g.node("Floor", total), g.constant(self.lo, np.float64), g.constant(self.hi, np.float64))
        return g.node("Cast", total, to=TensorProto.INT16)

    def _accumulator(self, g: Graph, name: str, axis: int) -> str:
        total = g.node("Cast", name, to=TensorProto.INT32)
        if self.bias.any():
            total = g.node("Add", total, g.constant(along(self.bias, axis, len(self.view)), np.int32))
        if self.lo > -INT32_MAX - 1 or self.hi < INT32_MAX:
            total = g.node("Clip", total, g.constant(self.lo, np.int32), g.constant(self.hi, np.int32))
        return total
