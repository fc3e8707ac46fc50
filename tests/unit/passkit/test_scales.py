"""Union-find, and which tensors must carry one scale."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, Tensor
from bpuc.ops.attrs import AxisAttrs, ConvAttrs, EltwiseAttrs, NoAttrs, ShapeAttrs, SplitAttrs
from bpuc.passkit.scales import UnionFind, quantized_tensors, scale_classes


@given(st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), max_size=30))
def test_union_find_is_reachability(pairs: list[tuple[int, int]]) -> None:
    sets = UnionFind(15)
    group = [{i} for i in range(15)]  # the slow way
    for a, b in pairs:
        sets.union(a, b)
        if group[a] is not group[b]:
            group[a] |= group[b]
            for i in group[b]:
                group[i] = group[a]
    for a in range(15):
        assert sets.find(a) == min(group[a])
        assert sets.find(sets.find(a)) == sets.find(a)


def bpu(g: Graph, kind: str, attrs: object, inputs: list[Tensor], *names: str, shape: tuple[int, ...] = (1, 4)) -> list:  # type: ignore[type-arg]
    outs = [Tensor(n, shape, DType.FLOAT32) for n in names]
    op = g.add(kind, attrs, inputs, outs, name=f"op_{names[0]}")  # type: ignore[arg-type]
    op.device = "BPU"
    return outs


def start() -> tuple[Graph, Tensor]:
    g = Graph("g")
    x = Tensor("x", (1, 4), DType.FLOAT32)
    g.inputs = [x]
    return g, x


def named(g: Graph) -> list[list[str]]:
    return [c.names for c in scale_classes(g)[0]]


def test_movement_ties_and_computation_parts() -> None:
    g, x = start()
    (a,) = bpu(g, "Sigmoid", NoAttrs(), [x], "a")
    (b,) = bpu(g, "Reshape", ShapeAttrs((4, 1)), [a], "b", shape=(4, 1))
    (c,) = bpu(g, "Reshape", ShapeAttrs((1, 4)), [b], "c")
    (d,) = bpu(g, "Tanh", NoAttrs(), [c], "d")
    g.outputs = [d]
    assert sorted(map(sorted, named(g))) == [["a", "b", "c"], ["d"], ["x"]]


def test_all_parts_of_a_split_are_one_class() -> None:
    g, x = start()
    left, right = bpu(g, "Split", SplitAttrs(1, (2, 2)), [x], "l", "r", shape=(1, 2))
    g.outputs = [left, right]
    assert sorted(named(g)[0]) == ["l", "r", "x"]


def test_a_concat_asks_and_does_not_tie() -> None:
    g, x = start()
    (a,) = bpu(g, "Sigmoid", NoAttrs(), [x], "a")
    (y,) = bpu(g, "Concat", AxisAttrs(1), [a, x, a], "y", shape=(1, 12))
    g.outputs = [y]
    classes, of, edges = scale_classes(g)
    assert sorted(map(sorted, named(g))) == [["a"], ["x"], ["y"]]
    assert [(e.index, e.tensor.name, e.member, e.target) for e in edges] == [
        (0, "a", of[a], of[y]),
        (1, "x", of[x], of[y]),
        (2, "a", of[a], of[y]),
    ]
    assert len(classes) == 3


def test_readers_are_those_that_compute() -> None:
    g, x = start()
    (a,) = bpu(g, "Reshape", ShapeAttrs((1, 4)), [x], "a")
    (b,) = bpu(g, "Sigmoid", NoAttrs(), [a], "b")
    (y,) = bpu(g, "Concat", AxisAttrs(1), [a, b], "y", shape=(1, 8))
    g.outputs = [y, b]
    classes, of, _ = scale_classes(g)
    assert classes[of[x]].reader_names == ["op_b"], "neither the Reshape nor the Concat"
    assert classes[of[b]].reader_names == ["the graph output"]


def test_cpu_ops_tie_nothing() -> None:
    g, x = start()
    (a,) = bpu(g, "Sigmoid", NoAttrs(), [x], "a")
    (b,) = bpu(g, "Reshape", ShapeAttrs((4,)), [a], "b", shape=(4,))
    g.producer(b).device = "CPU"  # type: ignore[union-attr]
    g.outputs = [b]
    assert named(g) == [["a"], ["x"]]


def test_weights_and_integers_are_no_activations() -> None:
    g = Graph("g")
    x = Tensor("x", (1, 1, 2, 2), DType.FLOAT32)
    ids = Tensor("ids", (1, 4), DType.INT64)
    w = Tensor("w", (1, 1, 1, 1), DType.FLOAT32, np.ones((1, 1, 1, 1), np.float32))
    k = Tensor("k", (1, 1, 2, 2), DType.FLOAT32, np.ones((1, 1, 2, 2), np.float32))
    g.inputs = [x, ids]
    (a,) = bpu(g, "Conv", ConvAttrs((1, 1), (0, 0, 0, 0), (1, 1)), [x, w], "a", shape=(1, 1, 2, 2))
    (y,) = bpu(g, "Add", EltwiseAttrs(), [a, k], "y", shape=(1, 1, 2, 2))
    bpu(g, "Relu", NoAttrs(), [ids], "z")
    g.outputs = [y]
    assert {t.name for t in quantized_tensors(g)} == {"a", "x", "k", "y", "z"}
