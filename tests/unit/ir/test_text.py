"""The text form: what is written how, and what cannot be read."""

from __future__ import annotations

import numpy as np
import pytest

from bpuc.base.dtypes import DType
from bpuc.base.errors import FileError
from bpuc.ir import Graph, QuantParams, Tensor
from bpuc.ir.text import digest, parse_graph, print_graph
from bpuc.ops.registry import all_defs

ATTRS = {kind: d.attrs for kind, d in all_defs().items()}
TEXT = """\
graph cat_demo stage=quantized
  input %x_float32: float32[1,2] as "x"
  const %w: float32[2,2] scale=0.1;0.2@1/int8 = [[1.0, 0.1], [3.0, -4.5]]
  %x: int8[1,2] scale=0.0078125 = Quantize(%x_float32) !CPU name="q" reason="a \\"border\\"" {}
  %"odd name (1) = {": int32[1,2] scale=0.00078125;0.0015625@1 = MatMul(%x, %w, _) !BPU name="m m" origin=["n 1", "n2"] segment=1 {low=-1.5}
  output %"odd name (1) = {" as "y"
"""  # noqa: E501


def test_every_part_of_a_line() -> None:
    graph = parse_graph(TEXT, ATTRS)
    quantize, product = graph
    assert graph.name == "cat_demo"
    assert (graph.input_names, graph.output_names) == (["x"], ["y"])
    assert (quantize.device, quantize.reason) == ("CPU", 'a "border"')
    assert (product.name, product.origin, product.segment) == ("m m", ("n 1", "n2"), 1)
    assert product.maybe(2) is None
    assert product.out.name == "odd name (1) = {"
    assert product.out.quant == QuantParams(DType.INT32, (0.00078125, 0.0015625), 1)
    assert product.input(1).quant == QuantParams(DType.INT8, (0.1, 0.2), 1)
    assert product.input(1).dtype is DType.FLOAT32
    np.testing.assert_array_equal(product.input(1).value(), np.array([[1, 0.1], [3, -4.5]], np.float32))
    assert print_graph(graph, "quantized") == TEXT


def test_several_results_with_everything_that_a_tensor_may_have() -> None:
    text = (
        "graph g\n  input %x: int8[1,2] scale=0.5\n"
        "  %a: int8[1,1] scale=0.5 observer=kl gain=2.0, %b: float32[1,1] scale=0.25;0.5@1/int8 gain=1.0;8.0@1, "
        '%c: int8[1,1] scale=0.125, %d: int8[1,0] = Split(%x) name="s" {axis=1, sizes=(1, 1)}\n'
    )
    graph = parse_graph(text, ATTRS)
    a, b, c, _ = next(iter(graph)).outputs
    assert (a.observer, a.gain, a.gain_axis) == ("kl", (2.0,), None)
    assert (b.gain, b.gain_axis, b.quant) == ((1.0, 8.0), 1, QuantParams(DType.INT8, (0.25, 0.5), 1))
    assert c.quant == QuantParams(DType.INT8, (0.125,))
    assert print_graph(graph) == text


def test_large_constants_are_named_by_their_content() -> None:
    g = Graph("g")
    big = Tensor("w", (17,), DType.FLOAT32, np.arange(17, dtype=np.float32))
    g.outputs, g.output_names = [big], ["w"]
    text = print_graph(g)
    assert f"= @{digest(big.value())}" in text
    again = parse_graph(text, ATTRS, {digest(big.value()): big.value()})
    np.testing.assert_array_equal(again.outputs[0].value(), big.value())
    with pytest.raises(FileError, match=r"line 2: cannot read .*KeyError"):
        parse_graph(text, ATTRS)


@pytest.mark.parametrize("values", [[np.nan, np.inf, -np.inf], [0.1, 1e-45, 3.4028235e38], [1, 2, 3]])
def test_values_survive(values: list[float]) -> None:
    for dtype in (np.float32, np.float64) if np.isnan(values).any() else (np.float32, np.float64, np.float16):
        with np.errstate(over="ignore"):
            array = np.array(values).astype(dtype)
        g = Graph("g")
        g.outputs, g.output_names = [Tensor("w", array.shape, DType.of(array), array)], ["w"]
        again = parse_graph(print_graph(g), ATTRS).outputs[0].value()
        assert again.dtype == array.dtype
        np.testing.assert_array_equal(again, array)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("input x: float32[1]", "not a typed name"),
        ("input %x: float33[1]", "float33"),
        ("const %x: float32[1]", "no value"),
        ("const %x: float32[2] = [1.0]", "reshape"),
        ("output %x", "no output"),
        ('output %nobody as "y"', "nobody"),
        ('%y: float32[1] = Relu(%nobody) name="r" {}', "nobody"),
        ('%y: float32[1] = Nonsense() name="r" {}', "Nonsense"),
        ('%y: float32[1] = Relu() name="r"', "no attributes"),
        ('%y: float32[1] = Relu() name="r" {', "do not end"),
        ('%y: float32[1] = Relu( name="r" {}', "operands do not end"),
        ("%y: float32[1] = Relu() {}", "name"),
        ('%y: float32[1] = Softmax() name="r" {axes=1}', "axes"),
        ('%y: float32[1] = Softmax() name="r" {axis=__import__("os")}', "axis"),
        ('%y: float32[1] = Softmax() name="r" {axis=x}', "x"),
        ('%y: float32[1], %y: float32[1] = Split() name="r" {axis=0, sizes=(1, 1)}', "declared twice"),
        ("nonsense", "not a typed name"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(line: str, why: str) -> None:
    with pytest.raises(FileError) as caught:
        parse_graph(f"graph g\n# a note\n\n  {line}\n", ATTRS)
    assert "line 4" in str(caught.value)
    assert why in str(caught.value)
