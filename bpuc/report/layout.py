"""A layered drawing of a graph: which layer and which row each node gets, and through which rows long edges run.

Sugiyama's scheme (Sugiyama, Tagawa, Toda 1981): layers by longest path, one stand-in a layer for what passes it, order
in a layer by the mean position of the neighbours, and last the rows, as close to the neighbours as the order and a
distance of 1 allow. Edges that leave one node share their stand-ins. Numbers are layers and rows; whoever draws scales
them, and may turn them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_SWEEPS = 6
_STAND_INS = 20_000  # what passes more layers than fit in here is drawn straight
_STRAIGHT = {0: 1.0, 1: 3.0, 2: 9.0}  # pull of an edge by how many of its ends are stand-ins: long edges run straight


@dataclass(frozen=True)
class Route:
    """An edge: from node, to node, and its points between them as (layer, row), bends only."""

    source: int
    sink: int
    points: list[tuple[int, float]]


@dataclass
class Layout:
    """Layer and row of each node, and the edges."""

    layer: list[int]
    row: list[float]
    routes: list[Route] = field(default_factory=list)


def layered(edges: Sequence[tuple[int, int]], count: int) -> Layout:
    """Place `count` nodes.

    Args:
        edges: pairs (source, sink) of nodes; loops, repetitions and what would close a cycle are left out.
        count: nodes are 0 to count - 1; without a cycle in them, smaller numbers go first where nothing else decides.
    """
    kept, order = _acyclic(sorted({(a, b) for a, b in edges if a != b}), count)
    layer = _layers(kept, order, count)
    chains = _chains(kept, layer)
    net = _Net(kept, layer, chains)
    net.arrange()
    rows = net.rows()
    routes = [Route(a, b, _bends([(layer[v], rows[v]) for v in net.between(a, b)])) for a, b in kept]
    return Layout(layer[:count], rows[:count], routes)


def _acyclic(edges: Sequence[tuple[int, int]], count: int) -> tuple[list[tuple[int, int]], list[int]]:
    """The edges that agree with one topological order, and that order; a cycle is entered at its smallest node."""
    waits = [0] * count
    after: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        after[a].append(b)
        waits[b] += 1
    ready = [v for v in range(count) if not waits[v]][::-1]
    place = [-1] * count
    order: list[int] = []
    forced = 0
    while len(order) < count:
        if not ready:
            while place[forced] >= 0:
                forced += 1
            ready.append(forced)
        v = ready.pop()
        if place[v] >= 0:
            continue
        place[v] = len(order)
        order.append(v)
        for w in after[v]:
            waits[w] -= 1
            if not waits[w] and place[w] < 0:
                ready.append(w)
    return [(a, b) for a, b in edges if place[a] < place[b]], order


def _layers(edges: Sequence[tuple[int, int]], order: Sequence[int], count: int) -> list[int]:
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        before[b].append(a)
        after[a].append(b)
    layer = [0] * count
    for v in order:
        layer[v] = max((layer[a] + 1 for a in before[v]), default=0)
    for v in reversed(order):  # what nothing feeds stands next to what reads it
        if after[v] and not before[v]:
            layer[v] = min(layer[b] for b in after[v]) - 1
    return layer


def _chains(edges: Sequence[tuple[int, int]], layer: list[int]) -> dict[int, list[int]]:
    """Node -> its stand-ins, one a layer that its edges pass, shortest first, to a limit; `layer` grows by them."""
    far: dict[int, int] = {}
    for a, b in edges:
        far[a] = max(far.get(a, 0), layer[b] - layer[a] - 1)
    chains: dict[int, list[int]] = {}
    room = _STAND_INS
    for a in sorted(far, key=lambda a: (far[a], a)):
        if 0 < far[a] <= room:
            room -= far[a]
            chains[a] = list(range(len(layer), len(layer) + far[a]))
            layer += range(layer[a] + 1, layer[a] + 1 + far[a])
    return chains


class _Net:
    """Nodes and stand-ins by layer with edges between neighbouring layers only."""

    def __init__(self, edges: Sequence[tuple[int, int]], layer: list[int], chains: dict[int, list[int]]) -> None:
        self.chains, self.layer = chains, layer
        real = len(layer) - sum(map(len, chains.values()))
        self.layers: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
        pairs: dict[tuple[int, int], None] = {}
        for a, b in edges:
            path = [a, *self.between(a, b), b]
            pairs |= dict.fromkeys(p for p in pairwise(path) if layer[p[1]] == layer[p[0]] + 1)
        self.before: list[list[tuple[int, float]]] = [[] for _ in layer]
        self.after: list[list[tuple[int, float]]] = [[] for _ in layer]
        for a, b in pairs:
            pull = _STRAIGHT[(a >= real) + (b >= real)]
            self.after[a].append((b, pull))
            self.before[b].append((a, pull))
        for v, n in enumerate(layer):
            self.layers[n].append(v)

    def between(self, a: int, b: int) -> list[int]:
        """The stand-ins that the edge runs through."""
        return self.chains.get(a, [])[: self.layer[b] - self.layer[a] - 1]

    def arrange(self) -> None:
        """Order each layer by the mean place of its neighbours, downwards and upwards in turn."""
        place = [0.0] * len(self.layer)
        for nodes in self.layers:
            for k, v in enumerate(nodes):
                place[v] = float(k)
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            for nodes in self.layers if down else reversed(self.layers):
                near = self.before if down else self.after
                wish = {v: _mean(near[v], place, place[v]) for v in nodes}
                nodes.sort(key=wish.__getitem__)
                for k, v in enumerate(nodes):
                    place[v] = float(k)

    def rows(self) -> list[float]:
        """A row for each node: in each layer the least squares to the wished rows that keep order and distance."""
        row = [0.0] * len(self.layer)
        for nodes in self.layers:
            for k, v in enumerate(nodes):
                row[v] = k - (len(nodes) - 1) / 2
        for sweep in range(_SWEEPS + 1):
            down = sweep % 2 == 0
            for nodes in self.layers if down else reversed(self.layers):
                near = self.before if down else self.after
                wish = [_mean(near[v], row, row[v]) - k for k, v in enumerate(nodes)]
                pull = [1.0 + sum(w for _, w in near[v]) for v in nodes]
                for k, (v, y) in enumerate(zip(nodes, _isotonic(wish, pull))):
                    row[v] = y + k
        return [round(y, 2) for y in row]


def _mean(near: Sequence[tuple[int, float]], at: Sequence[float], alone: float) -> float:
    weight = sum(w for _, w in near)
    return sum(at[v] * w for v, w in near) / weight if near else alone


def _isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The rising sequence next to `values` in weighted least squares, by pooling adjacent violators."""
    blocks: list[tuple[float, float, int]] = []
    for y, w in zip(values, weights):
        n = 1
        while blocks and blocks[-1][0] > y:
            z, u, m = blocks.pop()
            y, w, n = (y * w + z * u) / (w + u), w + u, n + m
        blocks.append((y, w, n))
    return [y for y, _, n in blocks for _ in range(n)]


def _bends(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """The points without those in the middle of a straight run along a row."""
    inner = zip(points, points[1:], points[2:])
    keep = [b for a, b, c in inner if not a[1] == b[1] == c[1]]
    return points if len(points) < 3 else [points[0], *keep, points[-1]]
