"""Exact accumulation and the requantization that ends most instructions."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bpuc.base.dtypes import DType
from bpuc.base.rounding import Int64Array, requantize
from bpuc.isa import Ref
from bpuc.sim.engine import Array
from bpuc.sim.reference.memory import Memory


class Accumulates(Protocol):
    """The fields that Conv, ConvTranspose and MatMul share."""

    @property
    def bias(self) -> Ref | None: ...
    @property
    def mult(self) -> Ref | None: ...
    @property
    def shift(self) -> Ref | None: ...
    @property
    def res(self) -> Ref | None: ...
    @property
    def res_mult(self) -> Ref | None: ...
    @property
    def y(self) -> Ref: ...
    @property
    def lo(self) -> int: ...
    @property
    def hi(self) -> int: ...


def accumulator_type(a: DType, b: DType, terms: int) -> npt.DTypeLike:
    """float64 where a sum of `terms` products stays below 2**53, so that BLAS is exact in any order; else int64."""
    bound = terms * a.qmin * b.qmin
    return np.float64 if bound < 1 << 53 else np.int64


def along(vector: Array, axis: int, rank: int) -> Array:
    """A vector shaped to broadcast along `axis` of a tensor of `rank` axes; one element fits everywhere."""
    shape = [1] * rank
    shape[axis] = vector.size
    return vector.reshape(shape)


def check_product(acc: Int64Array, mult: Array) -> None:
    """Raises ValueError where ``acc * mult`` would leave int64 (2**62 leaves room for the rounding term)."""
    if not acc.size or float(np.abs(acc).max()) * float(np.abs(mult).max()) < 2.0**62:
        return
    if np.abs(acc.astype(np.float64) * mult).max() >= 2.0**62:
        raise ValueError("product of accumulator and multiplier leaves int64")


def scaled(acc: Int64Array, mult: int, shift: int, lo: int, hi: int) -> Int64Array:
    """``clamp((acc*mult + 2**(shift-1)) >> shift, lo, hi)`` with the overflow check."""
    check_product(acc, np.array(mult))
    return requantize(acc, mult, shift, lo, hi)


def finish(acc: Array, ins: Accumulates, operands: tuple[Ref, Ref], axis: int, m: Memory) -> None:
    """Bias, width check, residual, requantization and clamp of an accumulator; writes y.

    Args:
        acc: exact sums, y's shape.
        operands: the two factors; they decide the width of the accumulator.
        axis: the output channel's.

    Raises:
        ValueError: the accumulator leaves int32 (int64 products, where an operand is int16).
    """
    total: Int64Array = acc.astype(np.int64)
    rank = total.ndim

    def vector(ref: Ref) -> Any:
        return along(m.view(ref).astype(np.int64), axis, rank)

    if ins.bias is not None:
        total = total + vector(ins.bias)
    if all(r.dtype is DType.INT8 for r in operands) and total.size:
        info = np.iinfo(np.int32)
        if total.min() < info.min or total.max() > info.max:
            raise ValueError(f"accumulator {total.min()}..{total.max()} does not fit int32")
    if ins.mult is None or ins.shift is None:
        m.write(ins.y, np.clip(total, ins.lo, ins.hi))
        return
    mult = vector(ins.mult)
    check_product(total, mult)
    total = total * mult
    if ins.res is not None and ins.res_mult is not None:
        res, res_mult = m.view(ins.res).astype(np.int64), vector(ins.res_mult)
        check_product(res, res_mult)
        total = total + res * res_mult
    m.write(ins.y, requantize(total, 1, vector(ins.shift), ins.lo, ins.hi))
