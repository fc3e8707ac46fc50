"""A march whose Add wants one scale for operands and result: the passes read that from the target's rules."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from bpuc.ir import Graph
from bpuc.ir.text import parse_graph
from bpuc.ops.registry import all_defs
from bpuc.passkit import PassContext
from bpuc.passkit.context import Range
from bpuc.plugins import get_target, passes
from bpuc.target.model import ScaleRule

TEXT = """graph g
  input %x: float32[1,2]
  %a: float32[1,2] = Sigmoid(%x) !BPU name="s1" {}
  %b: float32[1,2] = Tanh(%x) !BPU name="s2" {}
  %y: float32[1,2] = Add(%a, %b) !BPU name="add" {}
  %r: float32[1,2] = Relu(%a) !BPU name="relu" {}
  output %y as "y"
  output %r as "r"
"""


def shared(a: float, *, rule: bool) -> tuple[Graph, PassContext]:
    """The graph after sharing, where %a has threshold `a` and its sum 4."""
    target = get_target("bayes-e")
    if rule:
        add = ScaleRule("all-equal", "a made-up machine adds integers as they are", "assumed", "this test")
        target = replace(target, scale_rules=MappingProxyType({**target.scale_rules, "Add": add}))
    graph = parse_graph(TEXT, {kind: d.attrs for kind, d in all_defs().items()})
    ctx = PassContext(target=target)
    ctx.ranges = {n: Range(-t, t, t, "min_max") for n, t in {"x": 1, "a": a, "b": 2, "y": 4, "r": a}.items()}
    for name in ("share-scales", "insert-rescales"):
        passes()[name]().run(graph, ctx)
    return graph, ctx


def steps(graph: Graph) -> list[float]:
    (add,) = [op for op in graph if op.kind == "Add"]
    return [t.quant.step * 127 for t in (*add.inputs, *add.outputs) if t is not None and t.quant is not None]


def test_without_a_rule_every_operand_has_its_own_scale() -> None:
    assert steps(shared(3, rule=False)[0]) == pytest.approx([3, 2, 4])


def test_with_the_rule_they_share_one_where_readers_lose_little() -> None:
    graph, ctx = shared(3, rule=True)
    assert steps(graph) == pytest.approx([4, 4, 4])
    assert ctx.rescales == []
    assert [(r.node, r.tensor) for r in ctx.avoided] == [("add", "a"), ("add", "b")]


def test_with_the_rule_a_rescale_stands_where_readers_would_lose_much() -> None:
    graph, ctx = shared(0.5, rule=True)
    assert steps(graph) == pytest.approx([4, 4, 4])
    (record,) = ctx.rescales
    assert (record.node, record.tensor, record.readers) == ("add", "a", ["relu"])
    # log2(4 / 0.5)
    assert record.bits_lost == pytest.approx(3)
