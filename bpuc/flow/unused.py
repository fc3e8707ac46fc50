"""Settings that cannot act beside others, or without data: a warning says so."""

from __future__ import annotations

from bpuc.flow.request import Request
from bpuc.passkit import PassContext

# least effort at which a switch acts
FROM_EFFORT = {
    "channel-scales": 1,
    "bias-correction": 1,
    "auto-int16": 1,
    "adaptive-rounding": 2,
    "weight-clipping": 2,
}


def tell_unused(request: Request, ctx: PassContext, quantized: bool) -> None:
    """Warn of settings that others, or the model, leave nothing to do.

    Args:
        quantized: whether the model file holds scales.
    """
    o = request.options
    told: list[tuple[str, str, str]] = []
    if o.share_scales == "never":
        told += [(f"--share {name}", "with --share-scales never", name) for name in o.shared]
        told += [(f"--keep-scale {name}", "with --share-scales never", name) for name in o.keep_scales]
    if o.max_bits_lost is not None and o.share_scales != "auto":
        told.append(("--max-bits-lost", f"with --share-scales {o.share_scales}, only with auto", ""))
    if o.qat_scales == "strict" and not quantized:
        told.append(("--qat-scales strict", "on a model without scales of its own (Q/DQ)", ""))
    for switch in request.switched_on:
        if o.effort < FROM_EFFORT[switch]:
            told.append((f"--{switch}", f"at effort {o.effort}, only from {FROM_EFFORT[switch]} on", ""))
    if request.max_latency_loss is not None and not o.auto_int16:
        told.append(("--max-latency-loss", "with --no-auto-int16", ""))
    elif request.max_latency_loss is not None and o.effort < FROM_EFFORT["auto-int16"]:
        told.append(("--max-latency-loss", f"at effort {o.effort}, where nothing becomes int16 unasked", ""))
    if request.unused_balance:
        told.append(("the balance factor", f"with compile mode {request.compile_mode}, only with balance", ""))
    if request.compile_mode != Request.compile_mode and request.optimize < 3:
        told.append((f"compile mode {request.compile_mode}", f"at -O{request.optimize}, only at -O3", ""))
    for what, beside, where in told:
        ctx.warn("no-effect", f"{what} has no effect {beside}", where)


def tell_unmeasured(request: Request, ctx: PassContext) -> None:
    """Warn of settings that need errors measured on data, where there are none."""
    for what, given in (
        ("--equalize", ctx.options.equalize),
        ("--max-latency-loss", request.max_latency_loss is not None and ctx.options.auto_int16),
    ):
        if given:
            ctx.warn("no-effect", f"{what} has no effect without data: it goes by measured error")
