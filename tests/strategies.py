"""Random graphs for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, QuantParams, Tensor
from bpuc.ops.attrs import AxisAttrs, ConvAttrs, EltwiseAttrs, NoAttrs, OnnxAttrs, SplitAttrs, Step, TableAttrs

# ONNX names may hold any character
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
FLOATS = st.floats(-1e6, 1e6, width=32)
STEPS = st.floats(1e-6, 1e3, exclude_min=True)


@st.composite
def quants(draw: st.DrawFn, channels: int) -> QuantParams | None:
    dtype = draw(st.sampled_from([None, DType.INT8, DType.INT16, DType.INT32]))
    if dtype is None:
        return None
    if draw(st.booleans()):
        return QuantParams(dtype, tuple(draw(st.lists(STEPS, min_size=channels, max_size=channels))), 1)
    return QuantParams(dtype, (draw(STEPS),))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Graphs of any kinds on tensors [1, C, 2, 2]: wiring, names, scales, devices and attributes of every sort."""
    g = Graph(draw(NAMES))

    def tensor(channels: int) -> Tensor:
        t = Tensor(g.unique(draw(NAMES)), (1, channels, 2, 2), draw(st.sampled_from([DType.FLOAT32, DType.INT8])))
        t.quant = draw(quants(channels))
        t.observer = draw(st.sampled_from(["", "min_max", "percentile"]))
        if draw(st.booleans()):
            t.gain, t.gain_axis = draw(st.sampled_from([((2.0,), None), ((0.5,) * channels, 1)]))
        return t

    def constant(*shape: int) -> Tensor:
        n = int(np.prod(shape))
        values = np.array(draw(st.lists(FLOATS, min_size=n, max_size=n)), np.float32).reshape(shape)
        return Tensor(g.unique(draw(NAMES)), shape, DType.FLOAT32, values)

    known = [tensor(draw(st.integers(1, 3))) for _ in range(draw(st.integers(1, 2)))]
    g.inputs = list(known)
    g.input_names = [draw(NAMES) for _ in known]
    for _ in range(draw(st.integers(1, 6))):
        x = draw(st.sampled_from(known))
        c = x.shape[1]
        kind = draw(st.sampled_from(["Conv", "Add", "Concat", "Table", "Split", "Onnx", "Quantize"]))
        inputs: list[Tensor | None] = [x]
        if kind == "Conv":
            low = draw(st.none() | FLOATS)
            attrs, outputs = ConvAttrs((1, 1), (0, 0, 0, 0), (1, 1), low=low), [tensor(2)]
            inputs += [constant(2, c, 1, 1), draw(st.none() | st.just(constant(2)))]
        elif kind == "Add":
            attrs, outputs = EltwiseAttrs(), [tensor(c)]
            inputs.append(x)
        elif kind == "Concat":
            inputs += draw(st.lists(st.sampled_from(known), max_size=3))
            attrs, outputs = AxisAttrs(1), [tensor(sum(t.shape[1] for t in inputs if t is not None))]
        elif kind == "Table":
            attrs = TableAttrs((Step("Sigmoid", ("x",)), Step("Mul", (0, draw(FLOATS)), (("alpha", draw(FLOATS)),))))
            outputs = [tensor(c)]
        elif kind == "Split":
            attrs, outputs = SplitAttrs(1, (1,) * c), [tensor(1) for _ in range(c)]
        elif kind == "Onnx":
            attrs = OnnxAttrs(draw(st.binary(max_size=9)), (("", 17),), draw(st.text(max_size=9)))
            outputs = [tensor(c)]
        else:
            attrs, outputs = NoAttrs(), [tensor(c)]
        origin = tuple(draw(st.lists(NAMES, max_size=2)))
        op = g.add(kind, attrs, inputs, outputs, name=g.unique(draw(NAMES)), origin=origin)
        op.onnx_type = draw(st.sampled_from([kind, "com.example.Odd"]))
        op.device, op.pin = draw(st.sampled_from(["", "CPU", "BPU"])), draw(st.sampled_from(["", "CPU"]))
        op.segment, op.reason = draw(st.integers(-1, 3)), draw(st.text(max_size=9))
        known += outputs
    g.outputs = draw(st.lists(st.sampled_from(known), min_size=1, max_size=2))
    g.output_names = [draw(NAMES) for _ in g.outputs]
    return g
