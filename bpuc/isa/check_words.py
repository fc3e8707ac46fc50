"""Words of the checks of instructions: each raises ValueError with what is wrong."""

from __future__ import annotations

from typing import Any

from bpuc.base.dtypes import DType

MAX_ELEMENTS = 1 << 28  # of an operand: more than any tensor that these machines are bought for


def need(holds: bool, text: str) -> None:
    """Refuse with a text."""
    if not holds:
        raise ValueError(text)


def same(ins: Any, a: str, b: str) -> None:
    """Two operands have one shape."""
    x, y = getattr(ins, a).shape, getattr(ins, b).shape
    need(x == y, f"{a} has shape {list(x)}, {b} {list(y)}")


def integers(ins: Any, *names: str) -> None:
    """Operands hold integers, where they are there."""
    for name in names:
        ref = getattr(ins, name)
        need(ref is None or not (ref.dtype.is_float or ref.dtype is DType.BOOL), f"{name} is {ref and ref.dtype}")


def axis_of(axis: int, rank: int) -> None:
    """An axis is one of a tensor's; negative ones count from the end."""
    need(-rank <= axis < rank, f"axis {axis} of {rank}")


def axes_of(axes: tuple[int, ...], rank: int) -> None:
    """So are several, all different."""
    for a in axes:
        axis_of(a, rank)
    need(len({a % rank for a in axes}) == len(axes), f"axes {list(axes)} name one twice")
