"""Minimum cut of a directed network: the one thing that a placement needs of networkx beside the graph itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import networkx as nx

SOURCE, SINK = -1, -2

Edge = tuple[int, int, int | None]


def minimum_cut(edges: Iterable[Edge]) -> set[int]:
    """The nodes on the side of `SOURCE`, itself left out, in the minimum cut that has most of them there.

    That cut is unique, so the result does not depend on the order or the numbers of the nodes.

    Args:
        edges: (from, to, capacity), which is paid where `from` is on the source side and `to` is not; None never cuts.
            Parallel edges add up.
    """
    network: Any = nx.DiGraph()
    network.add_nodes_from((SOURCE, SINK))
    for u, v, capacity in edges:
        if capacity is None:
            network.add_edge(u, v)
        elif not network.has_edge(u, v):
            network.add_edge(u, v, capacity=capacity)
        elif "capacity" in network.edges[u, v]:
            network.edges[u, v]["capacity"] += capacity
    _, (near, _) = nx.minimum_cut(network, SOURCE, SINK, flow_func=nx.algorithms.flow.preflow_push)
    return {n for n in near if n != SOURCE}
