"""QLinearConv and QLinearMatMul as the float operators that they stand for, between Dequantize- and QuantizeLinear.

The importer then takes over scales as from any Q/DQ model. Their integers may differ by rounding from the float form.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import GraphProto, NodeProto

_PER_CHANNEL = 13  # the opset from which DequantizeLinear has an axis


def to_float_ops(graph: GraphProto, opset: int) -> None:
    """Replace them in place; a form that the opset's DequantizeLinear cannot say stays as it is (for the CPU)."""
    if not any(node.op_type.startswith("QLinear") for node in graph.node):
        return
    sizes = {t.name: max(1, int(onnx.numpy_helper.to_array(t).size)) for t in graph.initializer if len(t.dims) < 2}
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    nodes: list[NodeProto] = []
    for node in graph.node:
        scales = {"QLinearConv": (1, 4, 6), "QLinearMatMul": (1, 4, 6)}.get(node.op_type)
        known = scales is not None and all(sizes.get(node.input[i], 0) for i in scales)
        single = known and all(sizes[node.input[i]] == 1 for i in (1, 6))
        channels = sizes.get(node.input[4], 0) if known else 0
        fits = channels == 1 or (node.op_type == "QLinearConv" and opset >= _PER_CHANNEL)
        nodes += _parts(node, channels, taken) if single and fits else [node]
    del graph.node[:]
    graph.node.extend(nodes)


def _parts(node: NodeProto, channels: int, taken: set[str]) -> list[NodeProto]:
    make, name = onnx.helper.make_node, node.name or f"{node.op_type}_{node.output[0]}"

    def temp(hint: str) -> str:
        unique = f"{node.output[0]}_{hint}"
        while unique in taken:
            unique += "_"
        taken.add(unique)
        return unique

    def dequantize(inputs: Sequence[str], hint: str, axis: int | None = None) -> str:
        out = temp(hint)
        attrs = {} if axis is None else {"axis": axis}
        parts.append(make("DequantizeLinear", list(inputs), [out], name=f"{name}/dequantize_{hint}", **attrs))
        return out

    parts: list[NodeProto] = []
    axis = 0 if channels > 1 else None
    operands = [dequantize(node.input[:3], "x"), dequantize(node.input[3:6], "w", axis)]
    if len(node.input) > 8 and node.input[8]:
        scale = temp("bias_scale")
        parts.append(make("Mul", [node.input[1], node.input[4]], [scale], name=f"{name}/bias_scale"))
        operands.append(dequantize([node.input[8], scale], "bias", axis))
    result = temp("float")
    plain = NodeProto(op_type=node.op_type.removeprefix("QLinear"), name=name, input=operands, output=[result])
    plain.attribute.extend(node.attribute)
    quantize = make("QuantizeLinear", [result, *node.input[6:8]], list(node.output), name=f"{name}/quantize")
    return [*parts, plain, quantize]
