"""Data movement as strided copies, fills and gathers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bpuc.base.rounding import quantize_multiplier, round_half_up
from bpuc.ir import Op
from bpuc.isa import Fill, Gather, Move, Ref, ResizeLinear
from bpuc.isa.core import MAX_RANK
from bpuc.isa.resize import FRACTION_BITS
from bpuc.lower.accumulate import reshaped
from bpuc.lower.builder import Builder, clamp_of, refuse, saturated, step_of
from bpuc.ops.attrs import (
    AxisAttrs,
    BlockAttrs,
    GatherAttrs,
    PadAttrs,
    ResizeAttrs,
    SliceAttrs,
    SplitAttrs,
    TileAttrs,
    TransposeAttrs,
)

Ints = tuple[int, ...]


def move(op: Op, b: Builder, x: Ref, y: Ref, rows: bool = False, flat: bool = False) -> None:
    """Copy between two views of one shape, with as few axes as describe them; none where they are the same.

    Args:
        rows: keep the axes of images apart, so that the copy may be cut into stripes of rows.
        flat: the elements change axes. Only such a copy has a single axis (`bpuc.perf.cost.keeps_order`).
    """
    shape, xs, ys = _merged(x.shape, x.strides, y.strides)
    if (x.space, x.address, xs) == (y.space, y.address, ys):
        return
    if rows and 4 <= len(x.shape) <= MAX_RANK:
        shape, xs, ys = x.shape, x.strides, y.strides
    elif len(shape) == 1 and not flat:
        shape, xs, ys = (1, *shape), (shape[0] * xs[0], *xs), (shape[0] * ys[0], *ys)
    if len(shape) > MAX_RANK:
        raise refuse(op, f"its copy needs {len(shape)} axes, the simulated machine has {MAX_RANK}")
    b.emit(Move(op=b.op, x=replace(x, shape=shape, strides=xs), y=replace(y, shape=shape, strides=ys)))


def _merged(shape: Ints, xs: Ints, ys: Ints) -> tuple[Ints, Ints, Ints]:
    """Drop axes of extent 1 and join neighbours that both views step through as one."""
    rows: list[list[int]] = []
    for d, a, c in zip(shape, xs, ys):
        if d == 1:
            continue
        if rows and rows[-1][1] == a * d and rows[-1][2] == c * d:
            rows[-1] = [rows[-1][0] * d, a, c]
        else:
            rows.append([d, a, c])
    if not rows:
        return (1,), (1,), (1,)
    return tuple(r[0] for r in rows), tuple(r[1] for r in rows), tuple(r[2] for r in rows)


def part(ref: Ref, axis: int, start: int, size: int) -> Ref:
    """Elements start..start+size of one axis."""
    shape = (*ref.shape[:axis], size, *ref.shape[axis + 1 :])
    return replace(ref, address=ref.address + start * ref.strides[axis], shape=shape)


def lower_reshape(op: Op, b: Builder) -> None:
    flat = (op.out.elements,)
    move(op, b, reshaped(b.ref(op.input(0)), flat), reshaped(b.ref(op.out), flat), flat=True)


def lower_transpose(op: Op, b: Builder) -> None:
    assert isinstance(op.attrs, TransposeAttrs)
    x, perm = b.ref(op.input(0)), op.attrs.perm
    view = replace(x, shape=tuple(x.shape[p] for p in perm), strides=tuple(x.strides[p] for p in perm))
    move(op, b, view, b.ref(op.out))


def lower_slice(op: Op, b: Builder) -> None:
    assert isinstance(op.attrs, SliceAttrs)
    x = b.ref(op.input(0))
    start = sum(s * st for s, st in zip(op.attrs.starts, x.strides))
    strides = tuple(s * st for s, st in zip(op.attrs.steps, x.strides))
    move(op, b, replace(x, address=x.address + start, shape=op.out.shape, strides=strides), b.ref(op.out))


def lower_split(op: Op, b: Builder) -> None:
    assert isinstance(op.attrs, SplitAttrs)
    x, start = b.ref(op.input(0)), 0
    for size, out in zip(op.attrs.sizes, op.outputs):
        move(op, b, part(x, op.attrs.axis, start, size), b.ref(out), rows=True)
        start += size


def lower_concat(op: Op, b: Builder) -> None:
    assert isinstance(op.attrs, AxisAttrs)
    y, start, axis = b.ref(op.out), 0, op.attrs.axis
    for tensor in op.inputs:
        assert tensor is not None, "Concat has no optional operands"
        size = tensor.shape[axis]
        move(op, b, b.ref(tensor), part(y, axis, start, size), rows=True)
        start += size


def lower_expand(op: Op, b: Builder) -> None:
    x, y = b.ref(op.input(0)), b.ref(op.out)
    shape = (1,) * (len(y.shape) - len(x.shape)) + x.shape
    strides = (0,) * (len(y.shape) - len(x.shape)) + x.strides
    repeated = tuple(0 if d == 1 else s for d, s in zip(shape, strides))
    move(op, b, replace(x, shape=y.shape, strides=repeated), y)


def lower_tile(op: Op, b: Builder) -> None:
    assert isinstance(op.attrs, TileAttrs)
    x, y = b.ref(op.input(0)), b.ref(op.out)
    shape: list[int] = []
    xs: list[int] = []
    ys: list[int] = []
    for d, r, s, t in zip(x.shape, op.attrs.repeats, x.strides, y.strides):
        shape += [r, d]
        xs += [0, s]
        ys += [t * d, t]
    merged, a, c = _merged(tuple(shape), tuple(xs), tuple(ys))
    move(op, b, replace(x, shape=merged, strides=a), replace(y, shape=merged, strides=c))


def lower_pad(op: Op, b: Builder) -> None:
    assert isinstance(op.attrs, PadAttrs)
    x, y = b.ref(op.input(0)), b.ref(op.out)
    lo, hi = clamp_of(op.out)
    value = int(saturated(op.attrs.value, step_of(op.out), lo, hi))
    b.emit(Fill(op=b.op, y=y, value=value))
    inner = y
    for axis, size in enumerate(x.shape):
        inner = part(inner, axis, op.attrs.pads[axis], size)
    move(op, b, x, inner)


def lower_depth_to_space(op: Op, b: Builder) -> None:
    """y[n, c, h*k+i, w*k+j] = x[n, (i, j, c) or (c, i, j), h, w]."""
    assert isinstance(op.attrs, BlockAttrs)
    k = op.attrs.blocksize
    n, _, h, w = op.input(0).shape
    c = op.out.shape[1]
    inner = (n, k, k, c, h, w) if op.attrs.mode == "DCR" else (n, c, k, k, h, w)
    x = reshaped(b.ref(op.input(0)), inner)
    order = (0, 3, 4, 1, 5, 2) if op.attrs.mode == "DCR" else (0, 1, 4, 2, 5, 3)
    view = replace(x, shape=tuple(x.shape[i] for i in order), strides=tuple(x.strides[i] for i in order))
    move(op, b, view, reshaped(b.ref(op.out), (n, c, h, k, w, k)))


def lower_space_to_depth(op: Op, b: Builder) -> None:
    """y[n, (i, j, c), h, w] = x[n, c, h*k+i, w*k+j]."""
    assert isinstance(op.attrs, BlockAttrs)
    k = op.attrs.blocksize
    n, c, height, width = op.input(0).shape
    x = reshaped(b.ref(op.input(0)), (n, c, height // k, k, width // k, k))
    order = (0, 3, 5, 1, 2, 4)
    view = replace(x, shape=tuple(x.shape[i] for i in order), strides=tuple(x.strides[i] for i in order))
    move(op, b, view, reshaped(b.ref(op.out), view.shape))


def lower_gather(op: Op, b: Builder) -> None:
    assert isinstance(op.attrs, GatherAttrs)
    _gather(b, b.ref(op.input(0)), b.ref(op.out), op.attrs.axis, op.attrs.indices)


def _gather(b: Builder, x: Ref, y: Ref, axis: int, indices: Ints) -> None:
    shape = (*x.shape[:axis], len(indices), *x.shape[axis + 1 :])
    rows = b.constant(np.asarray(indices, np.int32).reshape(-1))
    b.emit(Gather(op=b.op, x=x, indices=rows, y=reshaped(y, shape), axis=axis))


def lower_resize(op: Op, b: Builder) -> None:
    attrs = op.attrs
    assert isinstance(attrs, ResizeAttrs)
    if attrs.mode == "nearest":
        _nearest(op, b, attrs)
    else:
        _linear(op, b, attrs)


def _nearest(op: Op, b: Builder, attrs: ResizeAttrs) -> None:
    x, y = b.ref(op.input(0)), b.ref(op.out)
    n, c, h, w = x.shape
    out_h, out_w = attrs.size
    kh, kw = out_h // h, out_w // w
    whole = out_h % h == 0 and out_w % w == 0
    if whole and (attrs.index_h, attrs.index_w) == (_repeats(h, kh), _repeats(w, kw)):
        shape = (n, c, h, kh, w, kw)
        source = replace(x, shape=shape, strides=(*x.strides[:3], 0, x.strides[3], 0))
        move(op, b, source, reshaped(y, shape), rows=True)
        return
    rows = b.packed((n, c, out_h, w), x.dtype)
    _gather(b, x, rows, 2, attrs.index_h)
    _gather(b, rows, y, 3, attrs.index_w)


def _repeats(n: int, times: int) -> Ints:
    return tuple(i for i in range(n) for _ in range(times))


def _linear(op: Op, b: Builder, attrs: ResizeAttrs) -> None:
    one = 1 << FRACTION_BITS
    mult, shift = quantize_multiplier(step_of(op.input(0)) / step_of(op.out) / (one * one))
    lo, hi = clamp_of(op.out)

    def tables(index: Ints, weight: tuple[float, ...]) -> tuple[Ref, Ref]:
        return (
            b.constant(np.asarray(index, np.int32).reshape(2, -1)),
            b.constant(round_half_up(np.asarray(weight, np.float64) * one).astype(np.int32)),
        )

    index_h, weight_h = tables(attrs.index_h, attrs.weight_h)
    index_w, weight_w = tables(attrs.index_w, attrs.weight_w)
    b.emit(
        ResizeLinear(
            op=b.op,
            x=b.ref(op.input(0)),
            index_h=index_h,
            weight_h=weight_h,
            index_w=index_w,
            weight_w=weight_w,
            y=b.ref(op.out),
            mult=mult,
            shift=shift,
            lo=lo,
            hi=hi,
        )
    )
