"""Let a Conv or a MaxPool pad by itself.

    Conv(Pad(x, 0))        ->  Conv(x) with larger pads
    MaxPool(Pad(x, -Inf))  ->  MaxPool(x) with larger pads

Only on spatial axes. An AveragePool would count the border differently. Of a MaxPool no window may lie on the border as
a whole, which holds where its pads stay below the kernel, and zeros may win there. -Inf never does; exporters also
write the least half, the least float or -1e30 for it, which win over no activation either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bpuc.ir import Graph, Op
from bpuc.ops.attrs import ConvAttrs, PadAttrs, PoolAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext
from bpuc.passkit.rewrite import fusable

_NEVER_WINS = -65504.0  # the least half float


@dataclass(frozen=True)
class FoldPad(Pass):
    """A Pad of zeros in front of a Conv becomes its padding, one of -Inf that of a MaxPool."""

    name = "fold-pad"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            pad = graph.producer(op.input(0)) if op.kind in ("Conv", "MaxPool") else None
            if pad is None or not isinstance(pad.attrs, PadAttrs):
                continue
            rank = pad.out.rank
            begins, ends = pad.attrs.pads[:rank], pad.attrs.pads[rank:]
            outer = any(begins[:2]) or any(ends[:2])
            if outer or graph.sole_consumer(pad.out) is not op or not fusable(pad, op):
                continue
            what = _fold(op, (*begins[2:], *ends[2:]), pad.attrs.value)
            if what is None:
                continue
            graph.set_input(op, 0, pad.input(0))
            op.origin = pad.origin + op.origin
            graph.erase(pad)
            changes.append(Change(f"folded Pad {pad.name} into {op.kind}", op.name, f"{what} on spatial axes"))
        return changes


def _fold(op: Op, added: tuple[int, ...], value: float) -> str | None:
    """Adds to the pads of an op, where a border of the value is what it pads with itself; says what that is."""
    a = op.attrs
    if isinstance(a, ConvAttrs) and value == 0:
        op.attrs = replace(a, pads=tuple(p + q for p, q in zip(a.pads, added, strict=True)))
        return "zeros"
    # where the size is rounded up, the last window depends on which border is whose
    if isinstance(a, PoolAttrs) and value <= _NEVER_WINS and not a.ceil_mode:
        pads = tuple(p + q for p, q in zip(a.pads, added, strict=True))
        if all(p < k for p, k in zip(pads, a.kernel * 2, strict=True)):
            op.attrs = replace(a, pads=pads)
            return "values that never win"
    return None
