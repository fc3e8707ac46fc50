"""Remove pairs of Transposes that undo each other.

Transpose(Transpose(x, p), q)  ->  x       where q undoes p
"""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.ir import Graph
from bpuc.ops.attrs import TransposeAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext


@dataclass(frozen=True)
class CancelTransposes(Pass):
    """The second Transpose goes; the first goes too where nobody else reads it."""

    name = "cancel-transposes"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            first = graph.producer(op.input(0)) if isinstance(op.attrs, TransposeAttrs) else None
            if first is None or not isinstance(op.attrs, TransposeAttrs) or not isinstance(first.attrs, TransposeAttrs):
                continue
            perm, then = first.attrs.perm, op.attrs.perm
            if any(perm[axis] != i for i, axis in enumerate(then)) or op.out in graph.outputs:
                continue
            graph.replace_uses(op.out, first.input(0))
            graph.erase(op)
            if not graph.uses(first.out) and first.out not in graph.outputs:
                graph.erase(first)
            changes.append(Change(f"removed Transposes {first.name} and {op.name}", op.name, "one undoes the other"))
        return changes
