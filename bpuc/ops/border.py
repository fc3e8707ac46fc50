"""Quantize, Dequantize, Rescale: what the compiler puts between float and integers and between scales."""

from __future__ import annotations

import numpy as np

from bpuc.ir import Op, QuantParams, Tensor
from bpuc.ops.attrs import NoAttrs
from bpuc.ops.base import Array, Behaviour, Exporter, OpDef, Shape


class Border(OpDef):
    """One of the three; scales are those of the tensors."""

    attrs = NoAttrs
    behaviour = Behaviour.BORDER

    def __init__(self, kind: str):
        self.kind = kind

    def infer(self, op: Op) -> list[Shape]:
        return [op.input(0).shape]

    def export(self, op: Op, to: Exporter) -> None:
        x, out = op.input(0), op.out
        name = to.operand(x)
        if self.kind != "Quantize":
            result = out.name if self.kind == "Dequantize" else to.temp(f"{out.name}_real")
            _convert("DequantizeLinear", name, x, result, to)
            name = result
        if self.kind != "Dequantize":
            _convert("QuantizeLinear", name, out, out.name, to)


def _convert(op_type: str, name: str, quantized: Tensor, result: str, to: Exporter) -> None:
    params = quantized.quant
    if params is None:
        raise ValueError(f"{quantized.name} has no scale")
    scale, zero = _scale(params)
    operands = [name, to.const(scale, f"{quantized.name}_scale"), to.const(zero, f"{quantized.name}_zero")]
    axis = {} if params.axis is None else {"axis": params.axis}
    to.node(op_type, operands, [result], **axis)


def _scale(params: QuantParams) -> tuple[Array, Array]:
    scale = np.array(params.scale, np.float32)
    if params.axis is None:
        scale = scale.reshape(())
    return scale, np.zeros(scale.shape, params.dtype.numpy)


DEFS = (Border("Quantize"), Border("Dequantize"), Border("Rescale"))
