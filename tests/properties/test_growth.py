"""Whole networks, scheduled at -O3: more channels, more pixels or more rescales never make one faster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from onnx import NodeProto, helper, numpy_helper

from bpuc.flow.compile import compile_for_perf
from bpuc.perf import estimate
from bpuc.plugins import get_target

KINDS = ("conv", "depthwise", "sigmoid", "pool", "join", "join itself", "residual")
SIZES = (7, 16, 33, 64, 160)
CHANNELS = (1, 3, 8, 16, 19, 31, 48, 96)


@dataclass(frozen=True)
class Net:
    """Layers one behind the other: kind, and the channels that it makes where it makes some."""

    channels: int
    size: int
    layers: tuple[tuple[str, int], ...]


@st.composite
def nets(draw: st.DrawFn) -> Net:
    layers = st.tuples(st.sampled_from(KINDS), st.sampled_from(CHANNELS))
    return Net(
        draw(st.sampled_from(CHANNELS)),
        draw(st.sampled_from(SIZES)),
        tuple(draw(st.lists(layers, min_size=1, max_size=4))),
    )


class _Builder:
    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, op: str, *inputs: str, **attrs: object) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attrs))
        return name

    def conv(self, x: str, cin: int, cout: int, kernel: int = 3, group: int = 1) -> str:
        w = f"w{len(self.nodes)}"
        shape = (cout, cin // group, kernel, kernel)
        self.weights.append(numpy_helper.from_array(np.full(shape, 0.01, np.float32), w))
        return self.add("Conv", x, w, pads=[kernel // 2] * 4, group=group)


def build(net: Net) -> onnx.ModelProto:
    b, x, c = _Builder(), "x", net.channels
    for kind, n in net.layers:
        if kind == "conv":
            x, c = b.conv(x, c, n), n
        elif kind == "depthwise":
            x = b.conv(x, c, c, group=c)
        elif kind == "sigmoid":
            x = b.add("Sigmoid", x)
        elif kind == "pool":
            x = b.add("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)
        elif kind == "join":
            x, c = b.add("Concat", b.conv(x, c, n), b.conv(x, c, 5, 1), axis=1), n + 5
        elif kind == "join itself":
            x, c = b.add("Concat", b.conv(x, c, n), x, axis=1), n + c
        else:
            x = b.add("Add", b.conv(b.conv(x, c, n, 1), n, c), x)
    shape = [1, net.channels, net.size, net.size]
    ends = [helper.make_tensor_value_info("x", 1, shape), helper.make_tensor_value_info(x, 1, None)]
    graph = helper.make_graph(b.nodes, "net", ends[:1], ends[1:], b.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def summary(net: Net, march: str, **options: object) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        onnx.save(build(net), path)
        return dict(estimate(compile_for_perf(str(path), march, options), get_target(march))["summary"])


def latency_us(net: Net, march: str) -> float:
    return summary(net, march)["latency_us"]


@settings(deadline=None, max_examples=15)
@given(nets(), st.sampled_from(["bayes-e", "nash-e", "bernoulli2"]), st.sampled_from([1, 8, 16]), st.data())
def test_a_larger_network_is_never_faster(net: Net, march: str, more: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(-2, len(net.layers) - 1))
    if at == -2:
        larger = replace(net, channels=net.channels + more)
    elif at == -1:
        larger = replace(net, size=net.size + more)
    else:
        layers = list(net.layers)
        layers[at] = layers[at][0], layers[at][1] + more
        larger = replace(net, layers=tuple(layers))
    assert latency_us(larger, march) >= latency_us(net, march) - 1e-6


@st.composite
def joining_nets(draw: st.DrawFn) -> tuple[Net, list[str]]:
    """A net with a join, and tensors that are joined and are to have another scale than the rest.

    Only such ones: a scale given to the result of a last convolution makes it int8 where it would be int32.
    """
    net = draw(nets())
    join = draw(st.sampled_from(["join", "join itself"])), draw(st.sampled_from(CHANNELS))
    at = draw(st.integers(0, len(net.layers)))
    net = replace(net, layers=(*net.layers[:at], join, *net.layers[at:]))
    names = sorted({name for node in build(net).graph.node if node.op_type == "Concat" for name in node.input})
    return net, draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))


UNSHRUNK = [p for p in Phase if p is not Phase.shrink]  # each step of shrinking compiles two programs
BYTE_US = 1e-3  # joined tensors are stored by their parts in whole bytes, and a byte takes at most that long


@settings(deadline=None, max_examples=25, phases=UNSHRUNK)
@given(joining_nets(), st.sampled_from(["bayes-e", "nash-e", "bernoulli2"]))
@example((Net(48, 7, (("join itself", 48),)), ["x"]), "bernoulli2")
@example((Net(31, 160, (("join", 96),)), ["n0", "n1"]), "bernoulli2")
@example((Net(19, 160, (("pool", 1), ("pool", 1), ("join", 3))), ["n2"]), "bayes-e")
@example((Net(3, 160, (("pool", 96), ("join itself", 31))), ["n0"]), "nash-e")
def test_rescales_never_make_a_network_faster(other_scales: tuple[Net, list[str]], march: str) -> None:
    net, tensors = other_scales
    one = summary(net, march)
    many = summary(net, march, share_scales="never", fixed_scale=[f"{t}=0.37" for t in tensors])
    assert one["rescale_count"] == 0
    if many["rescale_count"]:
        assert many["latency_us"] >= one["latency_us"] - BYTE_US
