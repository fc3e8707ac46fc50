"""int16 where a part of a tensor is read on its own and is far smaller than the whole.

A Slice, Split, Gather or nearest Resize hands on the scale of all that it could take from. Where the largest values are
not in the part that it keeps, that part has few of the 256 levels, and no Rescale behind it brings them back: they were
lost when the tensor was written. In int16 both have enough. Where only the part is read, the scale is the part's
anyway (`share-scales`). Decided by the measured error of the network's outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from bpuc.ir import Graph, Tensor
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.scales import ScaleClass, is_mover, scale_classes
from bpuc.passkit.search import keep_gains
from bpuc.passkit.sharing import bits_lost
from bpuc_passes.choose_dtypes import ChooseDtypes, gives_int16
from bpuc_passes.share_scales import TELL_BITS

# kinds that may leave values out
TAKES_PARTS = ("Slice", "Split", "Gather", "Resize")
# what int16 has to gain at the outputs for each tensor so treated, chosen by hand; trials at most
_LEAST_DB, _TRIALS = 0.5, 6


@dataclass(frozen=True)
class WidenParts(Pass):
    """Ask for int16 where a part loses 3 bits or more to what is not in it and the outputs gain by int16."""

    name = "widen-parts"
    numerics = Numerics.DECIDES
    needs = Stage.PLACED
    refines = True

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        options = ctx.options
        if ctx.judge is None or not options.auto_int16 or not ctx.need_target().int16_activations:
            return []
        found: dict[str, tuple[float, list[Tensor]]] = {}
        for c in scale_classes(graph)[0]:
            bits, part = _worst_part(graph, ctx, c)
            tensors = [t for t in c.tensors if t.const is None]
            if bits >= TELL_BITS and _able(graph, ctx, tensors):
                found[part] = bits, tensors
        parts = sorted(found, key=lambda n: (-found[n][0], n))
        trials = min(_TRIALS, ctx.budget.left // 2 - 1)  # scales are shared with what is left
        kept, gain = keep_gains(parts, partial(_score, graph, ctx, found), _LEAST_DB, trials, budget=ctx.budget)
        changes = []
        for part in kept:
            bits, tensors = found[part]
            widen(ctx, tensors)
            what = f"int16 for {tensors[0].name}"
            why = f"{part} would lose {bits:.2f} bits to values that it leaves out; the outputs gain {gain:.2f} dB"
            changes.append(Change(what, part, why))
        return changes


def _worst_part(graph: Graph, ctx: PassContext, c: ScaleClass) -> tuple[float, str]:
    """Most bits that a part loses which is read on its own, while something reads the whole; (0, "") without."""
    read = {t for t, _ in c.readers}
    worst = 0.0, ""
    for tensor in c.tensors:
        maker = graph.producer(tensor)
        if maker is None or maker.kind not in TAKES_PARTS or not is_mover(maker) or tensor not in read:
            continue
        # values that only other parts hold count only where they are read, too
        top = max((ctx.ranges[t.name].threshold for t in read if t.name in ctx.ranges), default=0.0)
        own = ctx.ranges.get(tensor.name)
        if own is not None and own.threshold > 0 and top > 0:
            worst = max(worst, (bits_lost(top, own.threshold), tensor.name))
    return worst


def _able(graph: Graph, ctx: PassContext, tensors: list[Tensor]) -> bool:
    """Whether all that make these tensors can give int16, and nobody asked for a type."""
    makers = [m for t in tensors for m in [graph.producer(t)] if m is not None and m.device == "BPU"]
    asked = {*ctx.options.dtypes, *ctx.options.fixed_scales}
    return all(gives_int16(graph, m, ctx) for m in makers) and not asked & {t.name for t in tensors}


def _score(
    graph: Graph, ctx: PassContext, found: dict[str, tuple[float, list[Tensor]]], parts: list[str]
) -> np.ndarray:
    graph, ctx = graph.copy(), ctx.twin()
    for part in parts:
        widen(ctx, found[part][1])
    ChooseDtypes().run(graph, ctx)
    assert ctx.judge is not None
    return ctx.judge(graph, ctx)


def widen(ctx: PassContext, tensors: list[Tensor]) -> None:
    """Ask for int16 with the whole range that was seen."""
    ctx.calibrated_dtypes = {**ctx.calibrated_dtypes, **{t.name: "int16" for t in tensors}}
    for t in tensors:
        seen = ctx.ranges.get(t.name)
        if seen is not None:
            # with 15 bits there is nothing to win by clipping
            seen.threshold, seen.observer = max(seen.threshold, -seen.low, seen.high), "min_max"
