"""Each wiring rule, broken once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, Tensor
from bpuc.ir.verify import VerifyError, verify_wiring
from bpuc.ops.attrs import EltwiseAttrs, NoAttrs


def build() -> Graph:
    g = Graph()
    x, w, a, y = (Tensor(n, (1, 4), DType.FLOAT32) for n in "xway")
    w.const = np.zeros((1, 4), np.float32)
    g.inputs, g.outputs = [x], [y]
    g.add("Add", EltwiseAttrs(), [x, w], [a], name="add")
    g.add("Relu", NoAttrs(), [a], [y], name="relu")
    return g


def ops(g: Graph) -> list:  # type: ignore[type-arg]
    return list(g)


def cycle(g: Graph) -> None:
    g.set_input(ops(g)[0], 1, g.outputs[0])


def same_tensor_name(g: Graph) -> None:
    g.outputs[0].name = "x"


def same_op_name(g: Graph) -> None:
    ops(g)[1].name = "add"


def constant_of_another_shape(g: Graph) -> None:
    ops(g)[0].input(1).const = np.zeros(4, np.float32)


def constant_with_a_producer(g: Graph) -> None:
    g.outputs[0].const = np.zeros((1, 4), np.float32)


def operand_from_nowhere(g: Graph) -> None:
    g.set_input(ops(g)[1], 0, Tensor("lost", (1, 4), DType.FLOAT32))


def output_from_nowhere(g: Graph) -> None:
    g.outputs = [Tensor("lost", (1, 4), DType.FLOAT32)]


def unknown_reader(g: Graph) -> None:
    g._uses[ops(g)[0].out].clear()


def lost_edge(g: Graph) -> None:
    add, relu = ops(g)
    g._nx.remove_edge(add, relu, key=(0, 0))


FAULTS: dict[Callable[[Graph], None], str] = {
    cycle: "the graph has a cycle",
    same_tensor_name: "two tensors are called x",
    same_op_name: "two ops are called add",
    constant_of_another_shape: r"constant w has shape \(4,\), declared \(1, 4\)",
    constant_with_a_producer: "constant y is produced by relu",
    operand_from_nowhere: "lost is neither produced, constant nor an input",
    output_from_nowhere: "lost is neither produced, constant nor an input",
    unknown_reader: "relu: operand a does not know its reader",
    lost_edge: "0 edges in the networkx graph, 1 in the ops",
}


def test_a_right_graph_passes() -> None:
    verify_wiring(build())


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_every_fault_is_found_and_named(fault: Callable[[Graph], None]) -> None:
    graph = build()
    fault(graph)
    with pytest.raises(VerifyError, match=rf"{FAULTS[fault]} \(after pass some-pass\)$"):
        verify_wiring(graph, "some-pass")
