"""--share and --keep-scale for tensors that no concat joins: such a wish has no effect, and a warning says so."""

from __future__ import annotations

from bpuc.base.errors import did_you_mean
from bpuc.ir import Graph
from bpuc.passkit import PassContext
from bpuc.passkit.scales import scale_classes

_SHOWN = 5


def tell_unused_shares(graph: Graph, ctx: PassContext) -> None:
    """Warn of each such tensor.

    Args:
        graph: placed.
    """
    if not (ctx.options.shared or ctx.options.keep_scales) or ctx.options.share_scales == "never":
        return  # of never, `prepare` warns
    classes, _, edges = scale_classes(graph, ctx.target)
    members = {e.member for e in edges if e.member != e.target}
    joined = sorted({name for i in members for name in classes[i].names})
    for option, named in (("--share", ctx.options.shared), ("--keep-scale", ctx.options.keep_scales)):
        for name in named:
            if name in joined:
                continue
            why = "it was fused away" if name in ctx.fused else "on this march no concat joins its scale with another"
            more = f" and {len(joined) - _SHOWN} more" if len(joined) > _SHOWN else ""
            those = did_you_mean(name, joined) or f"joined are {', '.join(joined[:_SHOWN])}{more}"
            ctx.warn("share", f"{option} {name} has no effect: {why}" + (f"; {those}" if joined else ""), name)
