"""Cut the graph into segments of one device each, without cycles.

Ready ops are taken from one device as long as there are any, then from the other: the result is a linear order of few
segments, each of which needs only what stands before it.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from bpuc.ir import Graph, Op
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage


@dataclass(frozen=True)
class FormSegments(Pass):
    """Set `segment` of every op: 0, 1, 2 ... in the order of execution."""

    name = "form-segments"
    numerics = Numerics.EXACT
    needs = Stage.PLACED

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        order = {op: i for i, op in enumerate(graph)}
        missing = {
            op: len({graph.producer(t) for t in op.inputs if t is not None and graph.producer(t) is not None})
            for op in order
        }
        ready: dict[str, list[tuple[int, Op]]] = {"CPU": [], "BPU": []}
        for op in order:
            if missing[op] == 0:
                heapq.heappush(ready[op.device], (order[op], op))
        device, segment, done = "CPU", -1, 0
        while ready["CPU"] or ready["BPU"]:
            if segment < 0 or not ready[device]:
                device = device if ready[device] else ("BPU" if device == "CPU" else "CPU")
                segment += 1
            op = heapq.heappop(ready[device])[1]
            op.segment, done = segment, done + 1
            for user in dict.fromkeys(u for t in op.outputs for u in graph.consumers(t)):
                missing[user] -= 1
                if missing[user] == 0:
                    heapq.heappush(ready[user.device], (order[user], user))
        assert done == len(order), "every op of an acyclic graph gets ready"
        return [Change(f"{segment + 1} segments", graph.name)]
