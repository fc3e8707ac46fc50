"""The cheapest division of ops between CPU and BPU under an additive cost, as a minimum cut.

Each op costs its time on its device. A value that is made on one side and read on the other is converted once,
whatever the number of its readers. The network's inputs and outputs are on the CPU. Each op on the CPU whose results
the BPU reads starts one BPU call; the inputs start none, since a frame has its first call anyway. (Where the BPU waits
for several CPU ops at once there is one call in truth, but that is no sum over edges.)

As a cut: the source is the BPU, the sink the CPU. An op hangs on the device that is faster for it by the difference.
An auxiliary node stands for "some reader is on the other side": it is tied to the readers by edges that are never cut
and to the producer by the price. Ops of fixed place are merged into source or sink; what falls apart then is cut part
by part. Two-device placement as a cut: Stone, "Multiprocessor scheduling with the aid of network flow algorithms",
1977; counting a set of readers once: Lawler, "Cutsets and partitions of hypergraphs", 1973.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from bpuc.ir.cut import SINK, SOURCE, Edge, minimum_cut
from bpuc.passkit.scales import UnionFind


@dataclass(frozen=True)
class Value:
    """Something that ops hand on; costs are integers of any one unit.

    producer: number of the op that makes it, None for an input of the network. readers: each once. output: whether it
    is an output of the network. to_bpu, to_cpu: what it costs to convert.
    """

    producer: int | None
    readers: tuple[int, ...]
    output: bool = False
    to_bpu: int = 0
    to_cpu: int = 0


@dataclass(frozen=True)
class Problem:
    """Ops 0..n-1 with their cost on either device, None where one may not run there (not both), and their values.

    call: what it costs to start the BPU in the middle of the network.
    """

    cpu: Sequence[int | None]
    bpu: Sequence[int | None]
    values: Sequence[Value]
    call: int = 0

    @cached_property
    def made(self) -> dict[int | None, list[Value]]:
        """The values by what makes them: an op, or None for all inputs of the network."""
        found: dict[int | None, list[Value]] = {}
        for value in self.values:
            found.setdefault(value.producer, []).append(value)
        return found

    @cached_property
    def read(self) -> dict[int, list[Value]]:
        """The values by op that reads them."""
        found: dict[int, list[Value]] = {}
        for value in self.values:
            for reader in value.readers:
                found.setdefault(reader, []).append(value)
        return found

    @cached_property
    def needs(self) -> list[list[int]]:
        """For each op the ops that it reads from."""
        found: list[list[int]] = [[] for _ in self.cpu]
        for value in self.values:
            if value.producer is not None:
                for reader in value.readers:
                    found[reader].append(value.producer)
        return found


@dataclass(frozen=True)
class Bill:
    """What a division costs, by kind."""

    cpu: int = 0
    bpu: int = 0
    quantize: int = 0
    dequantize: int = 0
    calls: int = 0

    @property
    def total(self) -> int:
        return self.cpu + self.bpu + self.quantize + self.dequantize + self.calls

    def __sub__(self, other: Bill) -> Bill:
        return Bill(
            self.cpu - other.cpu,
            self.bpu - other.bpu,
            self.quantize - other.quantize,
            self.dequantize - other.dequantize,
            self.calls - other.calls,
        )


def partition(problem: Problem) -> list[bool]:
    """For each op whether it runs on the BPU, at the least total cost; among equals the division with most ops there.

    Raises:
        ValueError: an op may run nowhere.
    """
    network = _Network(problem)
    on_bpu = [node == SOURCE for node in network.node]
    for edges in network.parts():
        for node in minimum_cut(edges):
            if node < len(on_bpu):
                on_bpu[node] = True
    return on_bpu


@dataclass
class _Network:
    """The cut's nodes and edges: op i is node i unless its place is fixed, auxiliary nodes follow."""

    problem: Problem
    node: list[int] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    size: int = 0

    def __post_init__(self) -> None:
        p = self.problem
        self.size = len(p.cpu)
        for i, (cpu, bpu) in enumerate(zip(p.cpu, p.bpu, strict=True)):
            if cpu is None and bpu is None:
                raise ValueError(f"op {i} may run nowhere")
            self.node.append(SOURCE if cpu is None else SINK if bpu is None else i)
            if cpu is not None and bpu is not None:
                self._edge(SOURCE, i, max(cpu - bpu, 0))
                self._edge(i, SINK, max(bpu - cpu, 0))
        for value in p.values:
            made, readers = self._place(value.producer), {self.node[r] for r in value.readers}
            self._once(made, readers | ({SINK} if value.output else set()), value.to_cpu, to_bpu=False)
            self._once(made, readers, value.to_bpu, to_bpu=True)
        for source, values in p.made.items():
            if source is not None:
                readers = {self.node[r] for v in values for r in v.readers}
                self._once(self.node[source], readers, p.call, to_bpu=True)

    def _place(self, producer: int | None) -> int:
        return SINK if producer is None else self.node[producer]

    def _once(self, made: int, readers: set[int], price: int, *, to_bpu: bool) -> None:
        """`price` where `made` is on one side and any of the readers on the other."""
        here, there = (SINK, SOURCE) if to_bpu else (SOURCE, SINK)
        if made == there or not price:
            return
        readers = readers - {here, made}
        if there in readers or len(readers) == 1:
            other = there if there in readers else next(iter(readers))
        elif readers:
            other, self.size = self.size, self.size + 1
            for r in sorted(readers):
                self._edge(*((r, other) if to_bpu else (other, r)), None)
        else:
            return
        self._edge(*((other, made) if to_bpu else (made, other)), price)

    def _edge(self, u: int, v: int, capacity: int | None) -> None:
        # between the terminals, and out of the sink or into the source, an edge decides nothing
        if capacity != 0 and u != v and u != SINK and v != SOURCE and not (u < 0 and v < 0):
            self.edges.append((u, v, capacity))

    def parts(self) -> Iterator[list[Edge]]:
        """Edges of each part that only source and sink hold together; a free op without edges goes to the BPU."""
        sets = UnionFind(self.size)
        for u, v, _ in self.edges:
            if u >= 0 and v >= 0:
                sets.union(u, v)
        found: dict[int, list[Edge]] = {sets.find(n): [] for n in self.node if n >= 0}
        for edge in self.edges:
            found[sets.find(max(edge[0], edge[1]))].append(edge)
        for root, edges in found.items():
            yield edges or [(SOURCE, root, 1)]


def bill(problem: Problem, on_bpu: Sequence[bool], touching: Collection[int] | None = None) -> Bill:
    """What a division costs; with `touching` only that part which hangs on one of these ops."""
    if touching is None:
        ops: Collection[int] = range(len(on_bpu))
        values: Collection[Value] = problem.values
    else:
        ops, values = touching, _touched(problem, set(touching))
    cpu = sum(problem.cpu[i] or 0 for i in ops if not on_bpu[i])
    bpu = sum(problem.bpu[i] or 0 for i in ops if on_bpu[i])
    quantize = dequantize = 0
    starts: set[int] = set()
    for value in values:
        inside = value.producer is not None and on_bpu[value.producer]
        if inside:
            out = value.output or not all(on_bpu[r] for r in value.readers)
            dequantize += value.to_cpu if out else 0
        elif any(on_bpu[r] for r in value.readers):
            quantize += value.to_bpu
            if value.producer is not None:
                starts.add(value.producer)
    return Bill(cpu, bpu, quantize, dequantize, problem.call * len(starts))


def _touched(problem: Problem, ops: set[int]) -> list[Value]:
    """Values that these ops make or read, and those that come from the same sources."""
    sources: dict[int | None, None] = dict.fromkeys(ops)
    sources |= dict.fromkeys(v.producer for op in ops for v in problem.read.get(op, ()))
    return [v for s in sources for v in problem.made.get(s, ())]
