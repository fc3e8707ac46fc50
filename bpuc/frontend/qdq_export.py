"""Quantized graphs -> ONNX models with QuantizeLinear and DequantizeLinear around every tensor that has a scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import onnx
from onnx import ModelProto

from bpuc.base.dtypes import DType
from bpuc.base.rounding import round_half_up
from bpuc.frontend.onnx_export import Writer, assemble
from bpuc.frontend.types import type_proto
from bpuc.ir import Graph, Op, QuantParams, Tensor

_INT16_OPSET = 21  # the first whose QuantizeLinear gives int16


class _QdqWriter(Writer):
    """Reads every tensor with a scale of 8 or 16 bits through integers."""

    def __init__(self, ops: Sequence[Op], taken: Iterable[str], integer_weights: bool, opset: int):
        super().__init__(ops, taken)
        self.opset = max(self.opset, opset)
        self._integer_weights = integer_weights
        self._rounded: dict[Tensor, str] = {}

    def operand(self, tensor: Tensor) -> str:
        if tensor.quant is None or tensor.quant.dtype not in (DType.INT8, DType.INT16):
            return super().operand(tensor)
        if tensor not in self._rounded:
            self._rounded[tensor] = self._through_integers(tensor, tensor.quant)
        return self._rounded[tensor]

    def _through_integers(self, tensor: Tensor, quant: QuantParams) -> str:
        steps = np.asarray(quant.scale, np.float32)
        axis = quant.axis if len(quant.scale) > 1 else None
        steps = steps if axis is not None else steps.reshape(())
        scale = self.const(steps, f"{tensor.name}_scale")
        zero = self.const(np.zeros(steps.shape, quant.dtype.numpy), f"{tensor.name}_zero_point")
        attrs = {} if axis is None else {"axis": axis}
        result = self.temp(f"{tensor.name}_dequantized")
        if tensor.const is not None and self._integer_weights:
            shape = [-1 if a == axis else 1 for a in range(tensor.rank)]
            wide = np.asarray(quant.scale, np.float64).reshape(shape if axis is not None else ())
            low = -quant.dtype.qmax if axis is not None else quant.dtype.qmin
            integers = np.clip(round_half_up(tensor.const.astype(np.float64) / wide), low, quant.dtype.qmax).astype(
                quant.dtype.numpy
            )
            stored = self.const(integers, f"{tensor.name}_quantized")
        else:
            stored = self.temp(f"{tensor.name}_quantized")
            name = f"{tensor.name}_QuantizeLinear"
            inputs = [super().operand(tensor), scale, zero]
            self.nodes.append(onnx.helper.make_node("QuantizeLinear", inputs, [stored], name=name, **attrs))
        name = f"{tensor.name}_DequantizeLinear"
        self.nodes.append(
            onnx.helper.make_node("DequantizeLinear", [stored, scale, zero], [result], name=name, **attrs)
        )
        return result


def export_qdq(graph: Graph, integer_weights: bool) -> ModelProto:
    """The graph in float with its tensors rounded to their scales; movers between two scales become rescales so.

    Args:
        graph: float ops, `quant` set on the tensors that are to be rounded.
        integer_weights: store constants as integers, else in float with a QuantizeLinear behind them.
    """
    ops = list(graph)
    tensors = [t for t in graph.tensors() if t.quant is not None]
    opset = _INT16_OPSET if any(t.quant is not None and t.quant.dtype is DType.INT16 for t in tensors) else 0
    taken = [t.name for op in ops for t in op.outputs]
    writer = _QdqWriter(ops, (*taken, *(t.name for t in graph.inputs), *graph.output_names), integer_weights, opset)
    for op in ops:
        writer.write(op)
    results = []
    inputs = {t.name for t in graph.inputs}
    for name, tensor in zip(graph.output_names, graph.outputs):
        source = writer.operand(tensor)
        if source != name and name == tensor.name and name not in inputs:
            _rename(writer, name, writer.temp(f"{name}_float"))
        if source != name and name not in inputs:
            writer.nodes.append(onnx.helper.make_node("Identity", [source], [name], name=f"{name}_output"))
        results.append(onnx.helper.make_value_info(name, type_proto(tensor)))
    return assemble(graph.name, writer, graph.inputs, results)


def _rename(writer: Writer, old: str, new: str) -> None:
    for node in writer.nodes:
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                if name == old:
                    names[index] = new
