"""Placement on graphs: who may move, what the reasons say in numbers, and that names and order do not matter."""

from __future__ import annotations

import random

import pytest
from bpuc_passes.place_ops import PlaceOps

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, Op, Tensor
from bpuc.ops.attrs import EltwiseAttrs, PoolAttrs, TransposeAttrs, UnaryAttrs
from bpuc.passkit import CompileOptions, PassContext
from bpuc.plugins import get_target

# round numbers: 1 ns a value for a conversion, 1 us for a node or an instruction, engines and buses out of the way
ROUND = {
    "cpu_node_overhead_us": 1,
    "cpu_quantize_ns_per_elem": 1,
    "cpu_dequantize_ns_per_elem": 1,
    "cpu_gflops": 1,
    "cpu_gb_per_s": 1e6,
    "ddr_gb_per_s": 1e6,
    "instruction_us": 1,
    "sram_bytes_per_cycle": 1e6,
    "lut_elems_per_cycle": 1e6,
    "vector_elems_per_cycle": 1e6,
    "submit_us": 4,
    "call_us": 1,
}
TARGET = get_target("bayes-e").with_hardware(ROUND)


def place(graph: Graph) -> None:
    PlaceOps().run(graph, PassContext(CompileOptions(), TARGET))


class Net:
    """A graph under construction on tensors [1, 4, n, 250]: n thousand values."""

    def __init__(self, names: random.Random | None = None):
        self.graph, self.names, self.count = Graph("g"), names, 0

    def tensor(self, thousands: int = 1) -> Tensor:
        return Tensor(self.name("t"), (1, 4, thousands, 250), DType.FLOAT32)

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}" if self.names is None else f"{self.names.random()}"

    def input(self, thousands: int = 1) -> Tensor:
        t = self.tensor(thousands)
        self.graph.inputs.append(t)
        return t

    def op(self, kind: str, *operands: Tensor, pin: str = "") -> Tensor:
        attrs = {"Add": EltwiseAttrs(), "MaxPool": PoolAttrs((1, 1), (1, 1), (0,) * 4, (1, 1)),
                 "Transpose": TransposeAttrs((0, 1, 2, 3))}.get(kind, UnaryAttrs())  # fmt: skip
        out = self.tensor(operands[0].shape[2])
        op = self.graph.add(kind, attrs, operands, [out], name=self.name(kind))
        op.pin = pin
        return out

    def done(self, *outputs: Tensor) -> Graph:
        self.graph.outputs = list(outputs)
        self.graph.output_names = [t.name for t in outputs]
        self.graph.input_names = [t.name for t in self.graph.inputs]
        return self.graph


def maker(graph: Graph, tensor: Tensor) -> Op:
    op = graph.producer(tensor)
    assert op is not None
    return op


def test_reason_in_numbers():
    net = Net()
    first = net.op("Selu", net.input(8), pin="CPU")
    add = net.op("Add", first, first)
    graph = net.done(net.op("Selu", add, pin="CPU"))
    place(graph)
    # 9 us each: 1 + 8000 values at 1 ns, for the conversions and for the Add on the CPU; the call 5, an instruction 1
    assert maker(graph, add).reason == (
        "Add would cost 15.0 us more on the BPU: Quantize 9.0, Dequantize 9.0, call 5.0 against 8.0 saved (estimate)"
    )


def test_reason_of_ops_that_moved_together():
    net = Net()
    first = net.op("Selu", net.input(8), pin="CPU")
    a = net.op("Relu", first)
    b = net.op("Relu", a)
    graph = net.done(net.op("Selu", b, pin="CPU"))
    place(graph)
    # together they would save 2 x 8 us
    for t in (a, b):
        assert maker(graph, t).reason == (
            "Relu (moved with 1 of its neighbours) would cost 7.0 us more on the BPU: "
            "Quantize 9.0, Dequantize 9.0, call 5.0 against 16.0 saved (estimate)"
        )


def test_three_of_them_are_worth_it():
    net = Net()
    t = net.op("Selu", net.input(8), pin="CPU")
    chain = [t := net.op("Relu", t) for _ in range(3)]
    graph = net.done(net.op("Selu", t, pin="CPU"))
    place(graph)
    assert {(maker(graph, t).device, maker(graph, t).reason) for t in chain} == {("BPU", "")}


@pytest.mark.parametrize("kind", ["MaxPool", "Relu"])
def test_cost_never_moves_an_active_op(kind):
    net = Net()
    island = net.op(kind, net.op("Selu", net.input(), pin="CPU"))
    graph = net.done(net.op("Selu", island, pin="CPU"))
    place(graph)
    assert maker(graph, island).device == ("BPU" if kind == "MaxPool" else "CPU")


def test_a_net_of_small_ops_that_the_bpu_runs_whole_is_not_cut_up():
    net = Net()
    graph = net.done(net.op("Relu", net.op("Add", net.input(), net.input())))
    place(graph)
    assert {op.device for op in graph} == {"BPU"}


def test_data_movement_alone_is_no_work_for_the_bpu():
    net = Net()
    graph = net.done(net.op("Transpose", net.op("Transpose", net.input())))
    place(graph)
    assert {op.device for op in graph} == {"CPU"}


@pytest.mark.parametrize("pin", ["BPU", "CPU"])
def test_pins_win(pin):
    net = Net()
    t = net.op("Relu", net.op("Selu", net.input(), pin="CPU"), pin=pin)
    graph = net.done(net.op("Selu", net.op("MaxPool", t), pin="CPU"))
    place(graph)
    assert maker(graph, t).device == pin


def random_net(seed: int, order: random.Random | None = None) -> tuple[Graph, list[Tensor]]:
    """The same net for one seed; with `order` its names and the order of its independent ops are others."""
    r = random.Random(seed)
    plan = []
    for i in range(30):
        kind = r.choice(["Relu", "Relu", "Add", "Transpose", "MaxPool", "Selu"])
        operands = [r.randint(max(-1, i - 6), i - 1) for _ in range(2 if kind == "Add" else 1)]
        plan.append((kind, operands, r.choice(["", "", "CPU"]) if kind != "Selu" else "CPU"))
    net, made = Net(order), {}
    made[-1] = net.input(5)
    waiting = list(range(len(plan)))
    while waiting:
        ready = [i for i in waiting if all(o in made for o in plan[i][1])]
        i = ready[0] if order is None else order.choice(ready)
        kind, operands, pin = plan[i]
        made[i] = net.op(kind, *(made[o] for o in operands), pin=pin)
        waiting.remove(i)
    results = [made[i] for i in range(len(plan))]
    return net.done(*(t for t in results if not net.graph.consumers(t))), results


def test_names_and_order_do_not_matter():
    devices = set()
    for seed in range(30):
        graph, results = random_net(seed)
        place(graph)
        want = [maker(graph, t).device for t in results]
        other, same = random_net(seed, random.Random(seed + 1000))
        place(other)
        assert [maker(other, t).device for t in same] == want
        devices |= {(op.device, op.pin == "CPU") for op in graph}
    assert devices == {("BPU", False), ("CPU", False), ("CPU", True)}


def test_ten_thousand_ops_are_placed():
    r = random.Random(0)
    net = Net()
    made = [net.input(3)]
    for _ in range(10_000):
        near = made[-12:]
        kind = r.choice(["Relu", "Add", "Transpose", "MaxPool"])
        operands = [r.choice(near) for _ in range(2 if kind == "Add" else 1)]
        made.append(net.op(kind, *operands, pin="CPU" if r.random() < 0.05 else ""))
    graph = net.done(*(t for t in made[1:] if not net.graph.consumers(t)))
    place(graph)
    assert 0 < sum(op.device == "CPU" and op.pin == "" for op in graph) < 10_000


def test_time_on_the_bpu_is_known_and_leaves_the_cpu_out():
    net = Net()
    x = net.op("Selu", net.input(), pin="CPU")
    for _ in range(3):
        x = net.op("Relu", x, pin="BPU")
    ctx = PassContext(CompileOptions(), TARGET)
    PlaceOps().run(net.done(x), ctx)
    assert ctx.bpu_us == pytest.approx(3, abs=1e-3)  # an instruction each
