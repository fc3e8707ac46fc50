"""The float graph with some of its tensors rounded to 8 bits, for judging thresholds by what they do to the outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from bpuc.execute.ort import open_session
from bpuc.frontend.onnx_export import export_float
from bpuc.ir import Graph
from bpuc.ops.base import Array


class RoundedExecutor:
    """One session; the scales are fed with the samples, so it serves all of them.

    Args:
        graph: with float32 tensors.
        names: tensors to round, graph inputs among them.
        threads: of onnxruntime.
        channels: tensors with a scale a channel -> (axis, number of channels).
    """

    def __init__(
        self,
        graph: Graph,
        names: Sequence[str],
        threads: int | None = None,
        channels: Mapping[str, tuple[int, int]] | None = None,
    ):
        model = export_float(graph)
        self._scales = _round(model, names, channels or {})
        self._session = open_session(model.SerializeToString(), threads)

    def run(self, feeds: Mapping[str, Array], scales: Mapping[str, float | Array]) -> list[Array]:
        """The graph's outputs, with the tensors rounded at `scales` (halves to even) and clipped to -128..127."""
        given = {scale: np.asarray(scales[name], np.float32) for name, scale in self._scales.items()}
        return self._session.run(None, {**feeds, **given})


def _round(model: ModelProto, names: Sequence[str], channels: Mapping[str, tuple[int, int]]) -> dict[str, str]:
    """Put a QuantizeLinear and a DequantizeLinear behind tensors; returns tensor -> input that takes its scale."""
    graph = model.graph
    inputs = {i.name for i in graph.input}
    outputs = {o.name for o in graph.output}
    before = {n: f"{n}/exact" for n in names if n not in inputs}
    after = {n: f"{n}/rounded" for n in names if n in inputs and n not in outputs}
    for node in graph.node:
        for i, name in enumerate(node.output):
            node.output[i] = before.get(name, name)
        for i, name in enumerate(node.input):
            node.input[i] = after.get(name, name)
    graph.initializer.append(numpy_helper.from_array(np.int8(0), "zero/int8"))
    order, scales = [], {}

    def add(name: str, source: str, result: str) -> None:
        scale = scales[name] = f"{name}/scale"
        zero, shape, axis = "zero/int8", [], {}
        if name in channels:
            zero, shape, axis = f"{name}/zero", [channels[name][1]], {"axis": channels[name][0]}
            graph.initializer.append(numpy_helper.from_array(np.zeros(shape, np.int8), zero))
        graph.input.append(helper.make_tensor_value_info(scale, TensorProto.FLOAT, shape))
        order.append(helper.make_node("QuantizeLinear", [source, scale, zero], [f"{name}/integers"], **axis))
        order.append(helper.make_node("DequantizeLinear", [f"{name}/integers", scale, zero], [result], **axis))

    for name, result in after.items():
        add(name, name, result)
    back = {v: k for k, v in before.items()}
    for node in list(graph.node):
        order.append(node)
        for output in node.output:
            if output in back:
                add(back[output], output, back[output])
    del graph.node[:]
    graph.node.extend(order)
    return scales
