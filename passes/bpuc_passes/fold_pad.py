"""Let a Conv pad by itself.

    Conv(Pad(x, 0))  ->  Conv(x) with larger pads

Only zeros on spatial axes, and only Conv: an AveragePool would count them differently and a MaxPool would let them win.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bpuc.ir import Graph
from bpuc.ops.attrs import ConvAttrs, PadAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext
from bpuc.passkit.rewrite import fusable


@dataclass(frozen=True)
class FoldPad(Pass):
    """A Pad of zeros in front of a Conv becomes its padding."""

    name = "fold-pad"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            pad = graph.producer(op.input(0)) if op.kind == "Conv" else None
            if pad is None or not isinstance(pad.attrs, PadAttrs) or not isinstance(op.attrs, ConvAttrs):
                continue
            rank = pad.out.rank
            begins, ends = pad.attrs.pads[:rank], pad.attrs.pads[rank:]
            outer = any(begins[:2]) or any(ends[:2])
            if pad.attrs.value != 0 or outer or graph.sole_consumer(pad.out) is not op or not fusable(pad, op):
                continue
            spatial = rank - 2
            added = (*begins[2:], *ends[2:])
            op.attrs = replace(op.attrs, pads=tuple(a + b for a, b in zip(op.attrs.pads, added)))
            assert len(op.attrs.pads) == 2 * spatial
            graph.set_input(op, 0, pad.input(0))
            op.origin = pad.origin + op.origin
            graph.erase(pad)
            changes.append(Change(f"folded Pad {pad.name} into Conv", op.name, "zeros on spatial axes"))
        return changes
