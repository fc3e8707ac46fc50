"""The threshold that a class of tensors would have on its own: by calibration, constants, or the user's word."""

from __future__ import annotations

import math

from bpuc.base.dtypes import DType
from bpuc.base.errors import ConfigError
from bpuc.ir import Graph, Tensor
from bpuc.passkit.context import PassContext
from bpuc.passkit.scales import ScaleClass


def own_threshold(graph: Graph, c: ScaleClass, joined: set[Tensor], ctx: PassContext) -> float:
    """Largest threshold among the members that somebody reads; constants count with their largest value.

    A member that is only moved on is not counted: what a Slice or Split drops may saturate, since nobody sees it.
    """
    read = {t for t, _ in c.readers} | {t for t in c.tensors if t in joined}
    values = []
    for tensor in c.tensors:
        if tensor.const is not None:
            values.append(float(abs(tensor.const).max()) if tensor.const.size else 0.0)
        elif tensor.name in ctx.ranges and (tensor in read or not read or not _only_dropped(graph, tensor)):
            values.append(_nonzero_threshold(ctx, tensor))
    best = max(values, default=0.0)
    return best if best > 0 and math.isfinite(best) else 1.0


def _only_dropped(graph: Graph, tensor: Tensor) -> bool:
    """Whether every reader of the tensor moves a part of it on."""
    consumers = graph.consumers(tensor)
    return (
        bool(consumers)
        and tensor not in graph.outputs
        and all(op.kind in ("Slice", "Gather", "Split") for op in consumers)
    )


def _nonzero_threshold(ctx: PassContext, tensor: Tensor) -> float:
    """The tensor's threshold; nothing where calibration saw only zeros, so that it does not coarsen its group."""
    seen = ctx.ranges[tensor.name]
    return 0.0 if seen.low == seen.high == 0 else seen.threshold


def fixed_threshold(scale_class: ScaleClass, ctx: PassContext) -> float | None:
    """Threshold that the user fixed for a member.

    Raises:
        ConfigError: two members are fixed at different scales.
    """
    scales = ctx.options.fixed_scales
    named = [t for t in scale_class.tensors if t.name in scales]
    if not named:
        return None
    first = named[0]
    for other in named[1:]:
        if scales[other.name] != scales[first.name]:
            raise ConfigError(
                f"--fixed-scale {other.name}={scales[other.name]:g}: its values are those of {first.name}, which is "
                f"fixed at {scales[first.name]:g}",
                hint=f"drop --fixed-scale {other.name}",
            )
    dtype = DType.INT16 if first.name in ctx.int16 else DType.INT8
    return scales[first.name] * dtype.qmax
