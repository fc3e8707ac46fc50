"""Integer graphs, second part: operators that only move values, or take the largest, give the same before Dequantize.

``QuantizeLinear -> MaxPool -> DequantizeLinear`` becomes a MaxPool of real values between two pairs of one scale.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import onnx
from onnx import GraphProto, NodeProto, TensorProto

from bpuc.frontend.qlinear import constants

# ops whose first operand alone is data; where there are more of them, all
MOVES = {"DepthToSpace", "SpaceToDepth", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"}
MOVES |= {"Expand", "Tile", "Gather", "Slice", "Split", "MaxPool", "Resize", "Upsample"}
Scale = tuple[str, ...]  # names of scale and, where given, zero point


def move_in_float(graph: GraphProto) -> None:
    """Let such nodes read dequantized values and quantize their results, in place."""
    scales: dict[str, Scale] = {
        node.output[0]: tuple(node.input[1:])
        for node in graph.node
        if node.op_type == "QuantizeLinear" and node.output and not node.attribute
    }
    readers: dict[str, list[NodeProto]] = {}
    for node in graph.node:
        for name in node.input if node.op_type in MOVES or node.op_type == "Concat" else ():
            readers.setdefault(name, []).append(node)
    if not any(name in readers for name in scales):
        return
    known = constants(graph)
    taken = {name for node in graph.node for name in (*node.input, *node.output)}

    def value(scale: Scale) -> tuple[Hashable, ...]:
        """Equal for scales that are the same constants."""
        return tuple(_content(known[name]) if name in known else name for name in scale)

    def temp(name: str) -> str:
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    around: dict[int, tuple[list[NodeProto], list[NodeProto]]] = {}
    work = list(scales)
    while work:
        for node in readers.get(work.pop(), ()):
            data = node.input if node.op_type == "Concat" else node.input[:1]
            if id(node) in around or (len(node.output) > 1 and node.op_type != "Split"):
                continue
            if not all(name in scales for name in data) or len({value(scales[name]) for name in data}) > 1:
                continue
            around[id(node)] = _pairs(node, len(data), scales, temp)
            work += [pair.output[0] for pair in around[id(node)][1]]
    nodes = []
    for node in graph.node:
        before, after = around.get(id(node), ([], []))
        nodes += [*before, node, *after]
    del graph.node[:]
    graph.node.extend(nodes)


def _content(proto: TensorProto) -> Hashable:
    try:
        return int(proto.data_type), bytes(onnx.numpy_helper.to_array(proto).tobytes())
    except (TypeError, ValueError, KeyError):  # damaged; the importer says so
        return str(proto.name)


def _pairs(
    node: NodeProto, count: int, scales: dict[str, Scale], temp: Callable[[str], str]
) -> tuple[list[NodeProto], list[NodeProto]]:
    """The nodes to put before and behind a node, whose operands and results are renamed to real values."""
    scale = scales[node.input[0]]
    name = node.name or f"{node.op_type}_{node.output[0]}"
    make = onnx.helper.make_node
    before, after = [], []
    for i, integers in enumerate(node.input[:count]):
        real = temp(f"{integers}_of_{node.output[0]}")
        before.append(make("DequantizeLinear", [integers, *scale], [real], name=f"{name}/dequantize_{i}"))
        node.input[i] = real
    for i, integers in enumerate(node.output):
        real = temp(f"{integers}_float")
        after.append(make("QuantizeLinear", [real, *scale], [integers], name=f"{name}/quantize_{i}"))
        node.output[i] = real
        scales[integers] = scale
    return before, after
