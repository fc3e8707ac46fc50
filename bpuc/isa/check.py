"""What the fields of one instruction must be for it to have a meaning: ranks, shapes, types, and sizes of this world.

Whether operands lie inside their memories is for the program to say (`bpuc.program.check`). Values in memory, such as
indices and shifts, are looked at when the instruction runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.base.rounding import MAX_SHIFT
from bpuc.isa.border import Dequantize, Quantize
from bpuc.isa.check_macs import check_conv, check_conv_transpose, check_matmul, check_pool
from bpuc.isa.check_words import MAX_ELEMENTS, axes_of, axis_of, integers, need, same
from bpuc.isa.conv import Conv, ConvTranspose
from bpuc.isa.core import Instruction, Ref, Space
from bpuc.isa.eltwise import Eltwise, EltwiseKind
from bpuc.isa.image import Image
from bpuc.isa.lut import Lut
from bpuc.isa.matmul import MatMul
from bpuc.isa.move import Gather, Move
from bpuc.isa.norm import Norm
from bpuc.isa.pool import Pool, PoolKind
from bpuc.isa.reduce import ArgReduce, Reduce, ReduceKind
from bpuc.isa.rescale import Rescale
from bpuc.isa.resize import ResizeLinear
from bpuc.isa.softmax import Softmax


def check_instruction(ins: Instruction) -> None:
    """Raises ValueError with what is wrong."""
    for name, ref in ins.operands():
        need(ref.elements <= MAX_ELEMENTS, f"{name} has {ref.elements} elements, of at most {MAX_ELEMENTS}")
        lo, hi = ref.span
        need(0 in ref.shape or ref.nbytes <= hi - lo, f"{name} has elements that overlap")
        if name in ins.outputs:
            need(ref.space is Space.ARENA, f"{name} is written, but lies in read-only memory")
            need(all(s or d <= 1 for d, s in zip(ref.shape, ref.strides)), f"{name} is written twice at one place")
    fields: Any = ins
    kinds = {Pool: PoolKind, Eltwise: EltwiseKind, Reduce: ReduceKind}.get(type(ins))
    need(kinds is None or fields.kind in set(kinds), f"kind {getattr(ins, 'kind', None)} is unknown")
    shift = getattr(ins, "shift", None)
    if isinstance(shift, int) and not isinstance(ins, Lut):
        need(0 <= shift <= MAX_SHIFT, f"shift is {shift}, not 0..{MAX_SHIFT}")
    if hasattr(ins, "lo"):
        need(fields.lo <= fields.hi, f"the clamp {fields.lo}..{fields.hi} is empty")
    for kind, check in _CHECKS.items():
        if isinstance(ins, kind):
            check(ins)


def _eltwise(ins: Eltwise) -> None:
    integers(ins, "a", "b", "y")
    both = np.broadcast_shapes(ins.a.shape, ins.b.shape)
    need(both == ins.y.shape, f"a and b give shape {list(both)}, y has {list(ins.y.shape)}")


def _along(ins: Lut | Dequantize | Softmax, vector: Ref, rank: int, lengths: tuple[int, ...]) -> None:
    """A table or a vector, or one a channel."""
    need(1 <= len(vector.shape) <= rank and vector.shape[-1] in lengths, f"a table of shape {list(vector.shape)}")
    if len(vector.shape) == 2 and vector.shape[0] > 1:
        axis_of(ins.axis, len(ins.x.shape))
        need(vector.shape[0] == ins.x.shape[ins.axis], f"{vector.shape[0]} tables for {ins.x.shape[ins.axis]} channels")


def _lut(ins: Lut) -> None:
    need(ins.x.dtype in (DType.INT8, DType.INT16), f"x is {ins.x.dtype}")
    same(ins, "x", "y")
    integers(ins, "table", "y")
    if ins.x.dtype is DType.INT16:
        need(0 <= ins.shift <= MAX_SHIFT, f"shift is {ins.shift}, not 0..{MAX_SHIFT}")
    _along(ins, ins.table, 2, (256,) if ins.x.dtype is DType.INT8 else (1025,))


def _softmax(ins: Softmax) -> None:
    need(ins.x.dtype in (DType.INT8, DType.INT16), f"x is {ins.x.dtype}")
    same(ins, "x", "y")
    integers(ins, "table", "y")
    axis_of(ins.axis, len(ins.x.shape))
    _along(ins, ins.table, 1, (256,) if ins.x.dtype is DType.INT8 else (1025,))


def _reduced(ins: Any, axes: tuple[int, ...]) -> None:
    rank = len(ins.x.shape)
    axes_of(axes, rank)
    gone = {a % rank for a in axes}
    want = tuple(1 if i in gone else d for i, d in enumerate(ins.x.shape))
    need(ins.y.shape == want, f"y has shape {list(ins.y.shape)}, not {list(want)}")
    need(all(ins.x.shape[a] for a in gone), "nothing to reduce")
    integers(ins, "x", "y")


def _norm(ins: Norm) -> None:
    same(ins, "x", "y")
    integers(ins, "x", "gain", "bias", "y")
    axes_of(ins.axes, len(ins.x.shape))
    for name in ("gain", "bias"):
        shape = getattr(ins, name).shape
        need(np.broadcast_shapes(shape, ins.x.shape) == ins.x.shape, f"{name} has shape {list(shape)}")
    need(0 <= ins.eps < math.inf, f"eps is {ins.eps}")
    need(0 <= ins.pre_shift <= MAX_SHIFT, f"pre_shift is {ins.pre_shift}, not 0..{MAX_SHIFT}")


def _move(ins: Move) -> None:
    same(ins, "x", "y")
    need(ins.x.dtype is ins.y.dtype, f"x is {ins.x.dtype}, y {ins.y.dtype}")


def _gather(ins: Gather) -> None:
    rank = len(ins.x.shape)
    axis_of(ins.axis, rank)
    integers(ins, "indices")
    at = ins.axis % rank
    need(len(ins.indices.shape) == 1, "indices have more than one axis")
    want = (*ins.x.shape[:at], *ins.indices.shape, *ins.x.shape[at + 1 :])
    need(ins.y.shape == want, f"y has shape {list(ins.y.shape)}, not {list(want)}")


def _resize(ins: ResizeLinear) -> None:
    integers(ins, "x", "index_h", "weight_h", "index_w", "weight_w", "y")
    shape = ins.y.shape
    need(len(ins.x.shape) == len(shape) >= 2 and ins.x.shape[:-2] == shape[:-2], f"y has shape {list(shape)}")
    for axis, size in (("h", shape[-2]), ("w", shape[-1])):
        need(getattr(ins, f"index_{axis}").shape == (2, size), f"index_{axis} is not for {size} rows or columns")
        need(getattr(ins, f"weight_{axis}").shape == (size,), f"weight_{axis} is not for {size} rows or columns")


def _rescale(ins: Rescale) -> None:
    same(ins, "x", "y")
    integers(ins, "x", "y")


def _quantize(ins: Quantize) -> None:
    same(ins, "x", "y")
    integers(ins, "y")
    need(0 < ins.scale < math.inf, f"scale is {ins.scale}")


def _dequantize(ins: Dequantize) -> None:
    same(ins, "x", "y")
    size = ins.scale.shape
    need(ins.y.dtype.is_float and ins.scale.dtype is DType.FLOAT64, f"y is {ins.y.dtype}, scale {ins.scale.dtype}")
    need(len(size) == 1 and size[0] >= 1, f"scale has shape {list(size)}")
    if size[0] > 1:
        axis_of(ins.axis, len(ins.x.shape))
        need(size[0] == ins.x.shape[ins.axis], f"{size[0]} scales for {ins.x.shape[ins.axis]} channels")


def _image(ins: Image) -> None:
    need(len(ins.y.shape) == 4 and len(ins.pads) == 4, "y has not four axes, or not four pads")
    n, c, height, width = ins.y.shape
    top, left, bottom, right = ins.pads
    h, w = height - top - bottom, width - left - right
    need(min(ins.pads) >= 0 and min(h, w) >= 0, f"pads {list(ins.pads)} of y of shape {list(ins.y.shape)}")
    need(len(ins.border) == c and all(-128 <= v <= 127 for v in ins.border), f"border of {c} channels")
    want = (n, h * 3 // 2, w) if ins.nv12 else (n, c, h, w)
    need(ins.x.shape == want and (not ins.nv12 or (c == 3 and h % 2 == w % 2 == 0)), f"x has shape {list(ins.x.shape)}")
    need(ins.x.dtype is DType.UINT8 and ins.y.dtype is DType.INT8, f"x is {ins.x.dtype}, y {ins.y.dtype}")


_CHECKS: dict[type[Instruction], Callable[[Any], None]] = {
    ArgReduce: lambda ins: _reduced(ins, (ins.axis,)),
    Conv: check_conv,
    ConvTranspose: check_conv_transpose,
    Dequantize: _dequantize,
    Eltwise: _eltwise,
    Gather: _gather,
    Image: _image,
    Lut: _lut,
    MatMul: check_matmul,
    Move: _move,
    Norm: _norm,
    Pool: check_pool,
    Quantize: _quantize,
    Reduce: lambda ins: _reduced(ins, ins.axes),
    Rescale: _rescale,
    ResizeLinear: _resize,
    Softmax: _softmax,
}
