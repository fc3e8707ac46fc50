"""Image: pixels at the model's input."""

from __future__ import annotations

from dataclasses import replace

from bpuc.ir import Op
from bpuc.isa import Image, Ref
from bpuc.lower.accumulate import reshaped
from bpuc.lower.builder import Builder
from bpuc.ops.attrs import ImageAttrs


def lower_image(op: Op, b: Builder) -> None:
    attrs = op.attrs
    assert isinstance(attrs, ImageAttrs)
    x, y = b.ref(op.input(0)), b.ref(op.out)
    if attrs.form == "nv12":
        x = reshaped(x, (y.shape[0], *x.shape[-2:]))
    elif attrs.form == "NHWC":
        x = channels_first(x)
    if attrs.out_form == "NHWC":
        y = channels_first(y)
    if attrs.reverse:
        step, count = x.strides[1], x.shape[1]
        strides = (x.strides[0], -step, *x.strides[2:])
        x = replace(x, address=x.address + step * (count - 1), strides=strides)
    b.emit(
        Image(
            op=b.op,
            x=x,
            y=y,
            nv12=int(attrs.form == "nv12"),
            pyramid=int(attrs.pyramid),
            pads=attrs.pads,
            border=attrs.border,
        )
    )


def channels_first(ref: Ref) -> Ref:
    """A view of [N, H, W, C] as [N, C, H, W]."""
    order = (0, 3, 1, 2)
    return replace(ref, shape=tuple(ref.shape[i] for i in order), strides=tuple(ref.strides[i] for i in order))
