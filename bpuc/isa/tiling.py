"""Instructions cut into stripes of rows: the part of an instruction that computes some rows of its result.

A stripe is an ordinary instruction on parts of the same operands, so carrying out all stripes of an instruction, in any
order, is carrying out the instruction. A Move is cut along an axis of the caller's choice, all others along the last
axis but one of y: the height of an image, the tokens of a sequence.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bpuc.isa.conv import Conv
from bpuc.isa.core import Instruction, Ref
from bpuc.isa.eltwise import Eltwise
from bpuc.isa.lut import Lut
from bpuc.isa.matmul import MatMul
from bpuc.isa.move import Fill
from bpuc.isa.norm import Norm
from bpuc.isa.pool import Pool
from bpuc.isa.reduce import Reduce
from bpuc.isa.rescale import Rescale
from bpuc.isa.softmax import Softmax

_POINTWISE = (Lut, Rescale, Eltwise, Fill)


def stripe_axis(ins: Instruction) -> int | None:
    """The axis of y along which an instruction can be cut, None where it cannot. A Move can along any; it has none."""
    if not isinstance(ins, (*_POINTWISE, MatMul, Conv, Pool, Softmax, Norm, Reduce)):
        return None
    rank = len(ins.y.shape)
    axis = rank - 2
    if axis < 0:
        return None
    if isinstance(ins, (Conv, Pool)):
        return axis if rank == 4 and _sees_rows(ins) else None
    if isinstance(ins, Softmax):
        return axis if ins.axis % rank != axis else None
    if isinstance(ins, (Norm, Reduce)):
        return axis if axis not in {a % rank for a in ins.axes} else None
    return axis


def stripe(ins: Instruction, axis: int, first: int, last: int) -> Instruction:
    """The instruction that computes the indices first..last of y's `axis` (`stripe_axis`, or any axis of a Move)."""
    if isinstance(ins, (Conv, Pool)):
        return _windows(ins, axis, first, last)
    changed: dict[str, Any] = {}
    for name, ref in ins.operands():
        at = axis - len(ins.writes()[0].shape) + len(ref.shape)
        whole = isinstance(ins, MatMul) and name not in ("a", "res", "y")
        whole |= isinstance(ins, (Lut, Softmax)) and name == "table"
        if not whole and at >= 0 and ref.shape[at] > 1:
            changed[name] = part(ref, at, first, last)
    return replace(ins, **changed)


def part(ref: Ref, axis: int, first: int, last: int) -> Ref:
    """Indices first..last of one axis of a view."""
    shape = (*ref.shape[:axis], last - first, *ref.shape[axis + 1 :])
    return replace(ref, address=ref.address + first * ref.strides[axis], shape=shape)


def rows_seen(ins: Conv | Pool, first: int, last: int) -> tuple[int, int]:
    """The rows of x under the windows of y's rows first..last; negative and beyond x where there is padding."""
    kernel = ins.w.shape[2] if isinstance(ins, Conv) else ins.kernel[0]
    begin = first * ins.strides[0] - ins.pads[0]
    return begin, (last - 1) * ins.strides[0] - ins.pads[0] + (kernel - 1) * ins.dilations[0] + 1


def _windows(ins: Conv | Pool, axis: int, first: int, last: int) -> Instruction:
    begin, end = rows_seen(ins, first, last)
    height = ins.x.shape[axis]
    lo, hi = max(begin, 0), min(end, height)
    pads = list(ins.pads)
    pads[0], pads[len(pads) // 2] = lo - begin, end - hi
    changed: dict[str, Any] = {
        "x": part(ins.x, axis, lo, hi),
        "y": part(ins.y, axis, first, last),
        "pads": tuple(pads),
    }
    if isinstance(ins, Conv) and ins.res is not None:
        changed["res"] = part(ins.res, axis, first, last)
    return replace(ins, **changed)


def _sees_rows(ins: Conv | Pool) -> bool:
    """Whether the window of each row of y lies on x with one row at least."""
    count = ins.y.shape[2]
    if not count or len(ins.x.shape) != 4:
        return False
    return rows_seen(ins, 0, 1)[1] > 0 and rows_seen(ins, count - 1, count)[0] < ins.x.shape[2]
