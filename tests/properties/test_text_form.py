"""Print and parse are each other's inverse, whatever names, scales and attributes a graph has."""

from __future__ import annotations

from hypothesis import given

from bpuc.ir import Graph, Tensor
from bpuc.ir.text import digest, parse_graph, print_graph
from bpuc.ir.verify import verify_wiring
from bpuc.ops.registry import all_defs
from tests.strategies import graphs

ATTRS = {kind: d.attrs for kind, d in all_defs().items()}


def facts(t: Tensor | None) -> object:
    if t is None:
        return None
    const = None if t.const is None else t.const.tobytes()
    return t.name, t.shape, t.dtype, t.quant, t.observer, t.gain, t.gain_axis, const


def everything(g: Graph) -> object:
    return (
        g.name,
        [(facts(t), n) for t, n in zip(g.inputs, g.input_names, strict=True)],
        [(facts(t), n) for t, n in zip(g.outputs, g.output_names, strict=True)],
        [(op.name, op.kind, op.onnx_type, op.origin, op.device, op.pin, op.segment, op.reason, op.attrs) for op in g],
        [([facts(t) for t in op.inputs], [facts(t) for t in op.outputs]) for op in g],
    )


@given(graphs())
def test_what_is_printed_reads_back_as_the_same_graph(graph: Graph) -> None:
    constants = {digest(t.const): t.const for t in graph.tensors() if t.const is not None}
    text = print_graph(graph, "quantized")
    parsed = parse_graph(text, ATTRS, constants)
    verify_wiring(parsed)
    assert everything(parsed) == everything(graph)
    assert print_graph(parsed, "quantized") == text


@given(graphs())
def test_a_copy_prints_the_same_and_shares_nothing_but_constants(graph: Graph) -> None:
    twin = graph.copy()
    text = print_graph(graph)
    assert print_graph(twin) == text
    for tensor in twin.tensors():
        tensor.name += "x"
        tensor.quant = None
    for op in twin:
        op.device, op.reason = "BPU", "changed"
        op.name += "x"
    assert print_graph(graph) == text
    arrays = {id(t.const) for t in graph.tensors() if t.const is not None}
    assert all(id(t.const) in arrays for t in twin.tensors() if t.const is not None)
