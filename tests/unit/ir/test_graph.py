"""Every method of Graph keeps producers, readers and the networkx edges in step."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, Op, QuantParams, Tensor
from bpuc.ir.verify import verify_wiring
from bpuc.ops.attrs import EltwiseAttrs, NoAttrs, SplitAttrs


def tensor(name: str) -> Tensor:
    return Tensor(name, (1, 4), DType.FLOAT32)


class Net:
    """x -> first -> a -> second -> b, and both -> y."""

    def __init__(self) -> None:
        self.graph = g = Graph("net")
        self.x, self.a, self.b, self.y = (tensor(n) for n in "xaby")
        g.inputs, g.outputs = [self.x], [self.y]
        g.input_names, g.output_names = ["x"], ["y"]
        self.first = g.add("Relu", NoAttrs(), [self.x], [self.a], name="first", origin=("n1",))
        self.second = g.add("Tanh", NoAttrs(), [self.a], [self.b], name="second", origin=("n2",))
        self.last = g.add("Add", EltwiseAttrs(), [self.a, self.b], [self.y], name="last", origin=("n3",))


@pytest.fixture
def net() -> Net:
    return Net()


def edges(graph: Graph) -> list[tuple[str, str, tuple[int, int]]]:
    """(producer, reader, (output index, input index)) as networkx holds them."""
    return sorted((a.name, b.name, key) for a, b, key in graph.view().edges(keys=True))


def test_who_produces_and_who_reads(net: Net) -> None:
    g = net.graph
    assert [g.producer(t) for t in (net.x, net.a, net.b, net.y)] == [None, net.first, net.second, net.last]
    assert g.uses(net.a) == [(net.second, 0), (net.last, 0)]
    assert g.consumers(net.a) == [net.second, net.last]
    assert g.uses(net.y) == []
    assert edges(g) == [("first", "last", (0, 0)), ("first", "second", (0, 0)), ("second", "last", (0, 1))]


def test_one_reader_that_reads_twice(net: Net) -> None:
    net.graph.set_input(net.last, 0, net.b)
    assert net.graph.uses(net.b) == [(net.last, 1), (net.last, 0)]
    assert net.graph.consumers(net.b) == [net.last]
    assert net.graph.sole_consumer(net.b) is None, "it is read in two places"
    assert edges(net.graph) == [("first", "second", (0, 0)), ("second", "last", (0, 0)), ("second", "last", (0, 1))]


def test_sole_consumer(net: Net) -> None:
    assert net.graph.sole_consumer(net.b) is net.last
    assert net.graph.sole_consumer(net.a) is None
    net.graph.outputs.append(net.b)
    assert net.graph.sole_consumer(net.b) is None, "a graph output is read outside, too"


def test_readers_may_come_before_the_producer(net: Net) -> None:
    g, late = net.graph, tensor("late")
    g.set_input(net.last, 1, late)
    g.add("Sigmoid", NoAttrs(), [net.b], [late], name="third")
    verify_wiring(g)
    assert [op.name for op in g] == ["first", "second", "third", "last"]


def test_order_is_topological_and_else_that_of_insertion() -> None:
    g = Graph()
    x = tensor("x")
    g.inputs = [x]
    made = [g.add("Relu", NoAttrs(), [x], [tensor(n)], name=n) for n in ("d", "b", "c")]
    assert [op.name for op in g] == ["d", "b", "c"]
    g.set_input(made[0], 0, made[2].out)
    assert [op.name for op in g] == ["b", "c", "d"]


def test_like_takes_place_device_pin_and_reason(net: Net) -> None:
    g = net.graph
    net.first.device, net.first.pin, net.first.reason = "CPU", "CPU", "because"
    twin = g.add("Relu", NoAttrs(), [net.x], [tensor("t")], name="twin", like=net.first)
    assert (twin.device, twin.pin, twin.reason) == ("CPU", "CPU", "because")
    assert [op.name for op in g][:2] == ["first", "twin"]


def test_a_tensor_has_one_producer(net: Net) -> None:
    with pytest.raises(ValueError, match="a is already produced by first"):
        net.graph.add("Relu", NoAttrs(), [net.x], [net.a], name="again")
    with pytest.raises(ValueError, match="b is already produced by second"):
        net.graph.rebind(net.first, 0, net.b)
    assert len(net.graph) == 3
    verify_wiring(net.graph)


def test_replace_uses(net: Net) -> None:
    g, new = net.graph, tensor("new")
    g.outputs = [net.y, net.a]
    g.add("Sigmoid", NoAttrs(), [net.x], [new], name="other")
    g.replace_uses(net.a, new)
    assert g.uses(net.a) == []
    assert g.uses(new) == [(net.second, 0), (net.last, 0)]
    assert g.outputs == [net.y, new]
    verify_wiring(g)


def test_replace_uses_may_leave_outputs(net: Net) -> None:
    g, new = net.graph, tensor("new")
    g.outputs = [net.y, net.a]
    g.add("Sigmoid", NoAttrs(), [net.x], [new], name="other")
    g.replace_uses(net.a, new, outputs=False)
    assert g.outputs == [net.y, net.a]


def test_erase_refuses_what_is_read(net: Net) -> None:
    with pytest.raises(ValueError, match="second: output b is still read"):
        net.graph.erase(net.second)
    with pytest.raises(ValueError, match="last: output y is still read"):
        net.graph.erase(net.last)
    assert len(net.graph) == 3
    verify_wiring(net.graph)


def test_erase_lets_go_of_operands(net: Net) -> None:
    g = net.graph
    g.outputs = [net.b]
    g.erase(net.last)
    assert net.last not in g
    assert g.producer(net.y) is None
    assert g.uses(net.a) == [(net.second, 0)]
    assert edges(g) == [("first", "second", (0, 0))]


def test_rebind_moves_the_result_only(net: Net) -> None:
    g, new = net.graph, tensor("new")
    g.rebind(net.first, 0, new)
    assert g.producer(net.a) is None
    assert g.producer(new) is net.first
    assert g.uses(net.a) == [(net.second, 0), (net.last, 0)], "readers stay with the old tensor"
    assert edges(g) == [("second", "last", (0, 1))]
    g.replace_uses(net.a, new)
    verify_wiring(g)


def test_absorb_keeps_name_readers_and_origin(net: Net) -> None:
    g = net.graph
    g.set_input(net.last, 0, net.x)
    g.absorb(net.first, net.second)
    assert net.second not in g
    assert net.first.out is net.b
    assert net.first.origin == ("n1", "n2")
    assert g.uses(net.b) == [(net.last, 1)]
    assert g.uses(net.a) == []
    verify_wiring(g)


def test_absorb_lists_an_onnx_node_once(net: Net) -> None:
    net.graph.set_input(net.last, 0, net.x)
    net.second.origin = ("n1", "n2")
    net.graph.absorb(net.first, net.second)
    assert net.first.origin == ("n1", "n2")


def test_operands_may_be_absent(net: Net) -> None:
    g = net.graph
    op = g.add("Clip", NoAttrs(), [net.x, None, net.b], [tensor("c")], name="clip")
    assert op.maybe(1) is None
    assert op.maybe(9) is None
    assert op.input(2) is net.b
    with pytest.raises(ValueError, match=r"clip \(Clip\) has no input 1"):
        op.input(1)
    g.set_input(op, 4, net.a)
    assert op.inputs == (net.x, None, net.b, None, net.a)
    verify_wiring(g)


def test_unique_names(net: Net) -> None:
    g = net.graph
    assert g.unique("fresh") == "fresh"
    assert [g.unique("x"), g.unique("x"), g.unique("first")] == ["x_1", "x_2", "first_1"]


def test_new_tensor_carries_shape_and_type_only(net: Net) -> None:
    net.a.quant, net.a.observer = QuantParams(DType.INT8, (0.5,)), "mse"
    made = net.graph.new_tensor(net.a, "a")
    assert (made.name, made.shape, made.dtype) == ("a_1", (1, 4), DType.FLOAT32)
    assert (made.quant, made.observer, made.const) == (None, "", None)


def test_prune_removes_what_nobody_needs(net: Net) -> None:
    g = net.graph
    dead = g.add("Exp", NoAttrs(), [net.b], [tensor("d")], name="dead")
    deader = g.add("Exp", NoAttrs(), [dead.out], [tensor("e")], name="deader")
    assert g.prune() == [deader, dead]
    assert [op.name for op in g] == ["first", "second", "last"]
    verify_wiring(g)


def test_ops_with_several_results() -> None:
    g = Graph()
    x, left, right = (tensor(n) for n in "xlr")
    g.inputs, g.outputs = [x], [right]
    op = g.add("Split", SplitAttrs(1, (2, 2)), [x], [left, right], name="split")
    g.add("Relu", NoAttrs(), [right], [tensor("y")], name="relu")
    assert edges(g) == [("split", "relu", (1, 0))]
    assert op.outputs == (left, right)
    with pytest.raises(ValueError, match="unpack"):
        _ = op.out


def test_tensors_come_once_and_in_order(net: Net) -> None:
    weights = Tensor("w", (1,), DType.FLOAT32, np.ones(1, np.float32))
    net.graph.set_input(net.second, 1, weights)
    assert [t.name for t in net.graph.tensors()] == ["x", "a", "w", "b", "y"]
    assert net.graph.find("w") is weights
    assert net.graph.find("nothing") is None


def test_copy_is_independent(net: Net) -> None:
    weights = Tensor("w", (1,), DType.FLOAT32, np.ones(1, np.float32))
    net.graph.set_input(net.second, 1, weights)
    net.first.segment = 7
    twin = net.graph.copy()
    ops: dict[str, Op] = {op.name: op for op in twin}
    assert ops["first"].segment == 7
    assert ops["second"].input(1) is not weights
    assert ops["second"].input(1).const is weights.const
    twin.replace_uses(ops["first"].out, twin.inputs[0])
    twin.erase(ops["first"])
    twin.output_names.append("z")
    assert len(net.graph) == 3
    assert net.graph.uses(net.a) == [(net.second, 0), (net.last, 0)]
    assert net.graph.output_names == ["y"]
    assert twin.unique("a") == "a_1", "names that were taken stay taken"
    verify_wiring(twin)
    verify_wiring(net.graph)


def test_the_view_cannot_be_changed(net: Net) -> None:
    view = net.graph.view()
    with pytest.raises(nx.NetworkXError, match=r"[Ff]rozen"):
        view.remove_node(net.first)
