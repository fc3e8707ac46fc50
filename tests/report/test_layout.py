"""The layered drawing: edges run forward, nothing overlaps, long edges keep a row of their own."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpuc.report.graphview import graph_data
from bpuc.report.layout import layered
from tests.report.report_samples import bare, large, realistic

EDGES = st.lists(st.tuples(st.integers(0, 24), st.integers(0, 24)), max_size=60)


def test_a_chain_is_straight():
    layout = layered([(0, 1), (1, 2), (2, 3)], 4)
    assert layout.layer == [0, 1, 2, 3]
    assert len(set(layout.row)) == 1
    assert [r.points for r in layout.routes] == [[], [], []]


def test_branches_stand_side_by_side_and_meet_in_the_middle():
    layout = layered([(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4)], 5)
    assert layout.layer == [0, 1, 1, 1, 2]
    assert layout.row[2] - layout.row[1] == layout.row[3] - layout.row[2] == 1
    assert layout.row[4] == pytest.approx(layout.row[2], abs=0.01)


def test_a_long_edge_passes_beside_what_it_skips():
    layout = layered([(0, 1), (1, 2), (2, 3), (0, 3)], 4)
    (skip,) = [r for r in layout.routes if (r.source, r.sink) == (0, 3)]
    assert [n for n, _ in skip.points] == [1, 2]
    assert all(abs(y - layout.row[n]) >= 0.99 for n, y in skip.points)


def test_edges_of_one_node_share_their_way():
    layout = layered([(0, 1), (1, 2), (2, 3), (3, 4), (0, 3), (0, 4)], 5)
    ways = {r.sink: r.points for r in layout.routes if r.source == 0}
    assert ways[3] == [p for p in ways[4] if p[0] < 3]


def test_inputs_stand_beside_their_readers():
    layout = layered([(0, 1), (1, 2), (2, 3), (4, 3)], 5)
    assert layout.layer[4] == 2


def test_a_cycle_is_entered_once():
    layout = layered([(0, 1), (1, 2), (2, 0), (2, 3), (3, 3)], 4)
    assert layout.layer == [0, 1, 2, 3]
    assert [(r.source, r.sink) for r in layout.routes] == [(0, 1), (1, 2), (2, 3)]


@settings(deadline=None)
@given(EDGES)
def test_what_always_holds(edges):
    layout = layered(edges, 25)
    places: dict[int, list[float]] = {}
    for n, y in zip(layout.layer, layout.row):
        places.setdefault(n, []).append(y)
    for rows in places.values():
        rows.sort()
        assert all(b - a >= 0.97 for a, b in pairwise(rows))
    assert {r.source for r in layout.routes} | {r.sink for r in layout.routes} <= {v for e in edges for v in e}
    for r in layout.routes:
        way = [layout.layer[r.source], *(n for n, _ in r.points), layout.layer[r.sink]]
        assert way == sorted(set(way))
    assert layout == layered(list(reversed(edges)), 25)


def test_the_graph_of_a_document():
    perf = realistic()
    graph = graph_data(perf["ops"])
    names = [o["name"] for o in perf["ops"]]
    cat = names.index("/backbone/stage0/block1/Concat")
    feeds = {names[a] for a, b, _ in graph["edges"] if b == cat}
    base = "/backbone/stage0/block1"
    assert feeds == {f"{base}/branch3/conv/Conv", f"{base}/branch5/conv/Conv", f"_hz_{base}/Concat_rescale_2"}
    assert graph["layer"][names.index("bpu_call")] is None
    assert max(n for n in graph["layer"] if n is not None) < len(names)


def test_documents_without_wires_have_no_graph():
    assert graph_data(bare()["ops"]) == {"layer": [None], "row": [None], "edges": []}
    assert len(graph_data(large(2000)["ops"])["edges"]) > 2000
