"""Mark the tensors that calibration is to observe."""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.ir import Graph
from bpuc.passkit import Change, Numerics, Pass, PassContext


@dataclass(frozen=True)
class InsertObservers(Pass):
    """Every float activation gets the observer of the options; which of them need a scale is known at placement."""

    name = "insert-observers"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for tensor in graph.tensors():
            if tensor.const is None and tensor.dtype.is_float:
                tensor.observer = ctx.options.observer
                changes.append(Change("observed", tensor.name, tensor.observer))
        return changes
