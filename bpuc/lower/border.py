"""Conversions and ONNX parts on the CPU."""

from __future__ import annotations

import numpy as np

from bpuc.ir import Op
from bpuc.isa import CallOnnx, Dequantize, Quantize
from bpuc.isa.core import MAX_RANK
from bpuc.lower.builder import Builder, quant_of, refuse
from bpuc.passkit.opcost import flops


def lower_quantize(op: Op, b: Builder) -> None:
    quant = quant_of(op.out)
    b.emit(
        Quantize(
            op=b.op, x=b.ref(op.input(0)), y=b.ref(op.out), scale=quant.step, lo=quant.dtype.qmin, hi=quant.dtype.qmax
        )
    )


def lower_dequantize(op: Op, b: Builder) -> None:
    quant = quant_of(op.input(0))
    scale = b.constant(np.asarray(quant.scale, np.float64))
    axis = -1 if quant.axis is None or len(quant.scale) == 1 else quant.axis
    if axis >= 0 and op.input(0).rank > MAX_RANK:
        raise refuse(op, f"a scale for each channel of {op.input(0).rank} axes, where {MAX_RANK} are the most")
    b.emit(Dequantize(op=b.op, x=b.ref(op.input(0)), scale=scale, y=b.ref(op.out), axis=axis))


def lower_onnx(op: Op, b: Builder) -> None:
    """One ONNX part per CPU op; its inputs are the op's operands that are not constant, each once."""
    operands = list(dict.fromkeys(t for t in op.inputs if t is not None and t.const is None))
    b.parts.append(b.export(op))
    b.emit(
        CallOnnx(
            op=b.op,
            inputs=tuple(b.ref(t) for t in operands),
            results=tuple(b.ref(t) for t in op.outputs),
            part=len(b.parts) - 1,
            flops=flops(op),
        )
    )
