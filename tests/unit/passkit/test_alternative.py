"""What ops would cost on their other device, against sums written out by hand and the cut's own totals."""

from __future__ import annotations

import pytest

from bpuc.passkit.alternative import alternatives
from bpuc.passkit.opcost import OpCost
from bpuc.target.hardware import Hardware
from tests.unit.passkit.test_placement import TARGET, Net, maker, place, random_net

COST = OpCost(Hardware.of(TARGET))


def test_a_lone_op_between_ops_on_the_cpu():
    net = Net()
    first = net.op("Selu", net.input(8), pin="CPU")
    add = net.op("Add", first, first)
    graph = net.done(net.op("Selu", add, pin="CPU"))
    place(graph)
    row = alternatives(graph, COST).of([maker(graph, add).name])
    assert row is not None
    # 8000 values: 9 us on the CPU; on the BPU 1 us, a Quantize and a Dequantize of 9 us, a call of 5 us
    assert row["device"] == "BPU"
    assert row["here_us"] == pytest.approx(9, abs=0.1)
    assert row["there_us"] == pytest.approx(1 + 9 + 9 + 5, abs=0.1)
    parts = {"compute": -8, "quantize": 9, "dequantize": 9, "calls": 5}
    assert row["more_us"] == pytest.approx(parts, abs=0.1)


@pytest.mark.parametrize("seed", range(10))
def test_the_difference_is_that_of_the_whole_network(seed):
    graph, _ = random_net(seed)
    place(graph)
    ops = list(graph)
    found = alternatives(graph, COST)

    def total(inside: dict) -> float:
        """Each op on its device, each tensor that is read on the other side converted once, each run of the BPU."""
        us = sum(COST.bpu_us(op) if inside[op] else COST.cpu_us(op) for op in ops)
        for t in graph.tensors():
            producer, readers = graph.producer(t), [inside[r] for r in graph.consumers(t)]
            made = producer is not None and inside[producer]
            us += COST.dequantize_us(t) if made and (t in graph.outputs or not all(readers)) else 0
            us += COST.quantize_us(t) if not made and any(readers) else 0
        turn: dict = {}
        for op in ops:
            before = max((turn[graph.producer(t)] for t in op.inputs if graph.producer(t) is not None), default=0)
            turn[op] = before + (before % 2 != inside[op])
        return us + COST.call_us * len({n for n in turn.values() if n % 2})

    now = {op: op.device == "BPU" for op in ops}
    for op in ops:
        row = found.of([op.name])
        assert row is not None
        gap = total(now | {op: not now[op]}) - total(now)
        assert row["there_us"] - row["here_us"] == pytest.approx(gap, abs=0.05)
        assert sum(row["more_us"].values()) == pytest.approx(gap, abs=0.05)
        assert min(row["here_us"], row["there_us"]) >= 0


def test_an_unknown_op_has_none():
    net = Net()
    graph = net.done(net.op("Relu", net.input()))
    place(graph)
    assert alternatives(graph, COST).of(["x_HzQuantize"]) is None
