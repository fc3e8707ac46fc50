"""Image: what a camera delivers, as int8 channels around zero; put in by the compiler, not read from ONNX."""

from __future__ import annotations

from typing import cast

from bpuc.ir import Op
from bpuc.ops.attrs import ImageAttrs
from bpuc.ops.base import Behaviour, Exporter, OpDef, Shape


class Image(OpDef):
    """Pixels less 128; see `bpuc.isa.Image`."""

    kind = "Image"
    attrs = ImageAttrs
    behaviour = Behaviour.BORDER

    def infer(self, op: Op) -> list[Shape]:
        a, x = cast(ImageAttrs, op.attrs), op.input(0).shape
        if a.form == "nv12":
            n, c, h, w = (*((1,) if len(x) == 2 else x[:1]), 3, x[-2] * 2 // 3, x[-1])
        else:
            n, c, h, w = x if a.form == "NCHW" else (x[0], x[3], x[1], x[2])
        h, w = h + a.pads[0] + a.pads[2], w + a.pads[1] + a.pads[3]
        return [(n, c, h, w) if a.out_form == "NCHW" else (n, h, w, c)]

    def export(self, op: Op, to: Exporter) -> None:  # noqa: ARG002
        raise ValueError(f"{op.name}: pixels have no form in ONNX")


DEFS = (Image(),)
