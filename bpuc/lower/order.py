"""The order in which ops are lowered."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from bpuc.ir import Graph, Op, Tensor


def ordered(graph: Graph, narrow: bool = False) -> list[Op]:
    """All ops, segment after segment.

    Args:
        narrow: within a segment of the BPU take next, of the ops whose operands are there, the one that adds least to
            the bytes that are alive; of several the first of the graph.
    """
    ops = sorted(graph, key=lambda op: op.segment)
    if not narrow:
        return ops
    found: list[Op] = []
    at = 0
    while at < len(ops):
        stop = at
        while stop < len(ops) and ops[stop].segment == ops[at].segment:
            stop += 1
        part = ops[at:stop]
        found += _narrow(graph, part) if ops[at].device == "BPU" else part
        at = stop
    return found


def _narrow(graph: Graph, ops: Sequence[Op]) -> list[Op]:
    place = {op: i for i, op in enumerate(ops)}
    operands = [list(dict.fromkeys(t for t in op.inputs if t is not None and t.const is None)) for op in ops]
    missing = [sum(graph.producer(t) in place for t in ts) for ts in operands]
    left: dict[Tensor, int] = {}
    for ts in operands:
        for t in ts:
            left.setdefault(t, len(graph.consumers(t)) + (t in graph.outputs))

    def growth(i: int) -> int:
        made = sum(t.elements * t.dtype.itemsize for t in ops[i].outputs)
        return made - sum(t.elements * t.dtype.itemsize for t in operands[i] if left[t] == 1)

    ready = [(growth(i), i) for i, n in enumerate(missing) if not n]
    heapq.heapify(ready)
    found: list[Op] = []
    while ready:
        known, i = heapq.heappop(ready)
        now = growth(i)
        if now != known:  # another reader of an operand is gone since
            heapq.heappush(ready, (now, i))
            continue
        found.append(ops[i])
        for t in operands[i]:
            left[t] -= 1
        for t in ops[i].outputs:
            for reader in dict.fromkeys(graph.consumers(t)):
                if reader in place:
                    j = place[reader]
                    missing[j] -= 1
                    if not missing[j]:
                        heapq.heappush(ready, (growth(j), j))
    return found
