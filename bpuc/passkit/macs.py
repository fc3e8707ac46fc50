"""Multiply-accumulates of ops, before there are instructions."""

from __future__ import annotations

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, Op
from bpuc.ops.attrs import ConvAttrs


def macs_of(op: Op) -> float:
    """Multiply-accumulates of an op: results times taps times input channels of the group; 0 where it sums nothing."""
    if op.kind == "MatMul":
        return float(op.out.elements * op.input(0).shape[-1])
    if isinstance(op.attrs, ConvAttrs):
        taps = op.input(1).elements / max(op.input(1).shape[0], 1)
        return float((op.input(0) if op.kind == "ConvTranspose" else op.out).elements * taps)
    return 0.0


def int16_share(graph: Graph) -> float:
    """Share of the multiply-accumulates on the BPU that read an int16 operand, 0 to 1."""
    whole = {op: macs_of(op) for op in graph if op.device == "BPU"}
    wide = sum(m for op, m in whole.items() if _reads_int16(op))
    return wide / max(sum(whole.values()), 1.0)


def _reads_int16(op: Op) -> bool:
    return any(t is not None and t.quant is not None and t.quant.dtype is DType.INT16 for t in op.inputs[:2])
