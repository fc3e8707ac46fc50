"""Scales that a quantized model file gives its tensors: taken over as they are, where int8 or int16 can express them.

The file's integers q stand for (q - z) * s. Where q - z fits the symmetric type, s is the scale and nothing is lost. A
tensor whose zero point needs more has the threshold of the data, or the one that covers its range, and a warning.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, QuantParams, Tensor
from bpuc.passkit import Change, Numerics, Pass, PassContext, Stage
from bpuc.passkit.scales import scale_classes


@dataclass(frozen=True)
class TakeFileScales(Pass):
    """Fix tensors at the scales of the model file; a concat's only producers are left to the concat's scale.

    Tensors between which values only move get the largest of theirs. The user's ``--fixed-scale`` wins.
    """

    name = "take-file-scales"
    numerics = Numerics.DECIDES
    needs = Stage.PLACED

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        if not ctx.file_scales:
            return []
        classes, _, edges = scale_classes(graph)
        fixed: dict[str, float] = {}
        coarse: dict[str, float] = {}
        changes = []
        for c in classes:
            named = [t for t in c.tensors if t.name in ctx.file_scales and t.const is None]
            if not named or any(t.name in ctx.options.fixed_scales for t in c.tensors):
                continue
            exact = [t for t in named if expressible(ctx, t)]
            for t in named:
                if t not in exact and t.name in ctx.ranges:
                    step = ctx.ranges[t.name].threshold / DType.INT8.qmax
                    coarse[t.name] = step / ctx.file_scales[t.name].scale
            into = [e for e in edges if e.member == c.index and e.target != c.index]
            if into and not c.readers and ctx.options.qat_scales == "fold":
                changes.append(Change("left to its concat's scale", named[0].name, into[0].op.name))
            elif exact:
                scale = max(scale_for(ctx, t) for t in exact)
                fixed |= dict.fromkeys((t.name for t in exact), scale)
                changes.append(Change(f"scale {scale:.6g} of the file", exact[0].name))
        ctx.options = replace(ctx.options, fixed_scales={**fixed, **ctx.options.fixed_scales})
        ctx.fixed_by_file = ctx.fixed_by_file | set(fixed)
        if coarse:
            worst = max(coarse, key=lambda n: coarse[n])
            kept = sum(n in ctx.int16 and s.symmetric(DType.INT8) is None for n, s in ctx.file_scales.items())
            ctx.warn(
                "zero-point",
                f"{len(coarse)} of {len(ctx.file_scales)} scales in the file have a zero point, or 16 bits, that "
                f"symmetric int8 does not express; these tensors have steps up to {coarse[worst]:.2f} times as large "
                f"({worst}), --dtype NAME=int16 keeps them" + (f" as it does {kept} others" if kept else ""),
                worst,
            )
        return changes


@dataclass(frozen=True)
class KeepFileScales(Pass):
    """``--qat-scales strict``: every tensor that the file gives a scale has it, whatever sharing it costs."""

    name = "keep-file-scales"
    numerics = Numerics.DECIDES
    needs = Stage.PLACED

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        if ctx.options.qat_scales != "strict":
            return []
        changes = []
        for tensor in graph.tensors():
            if tensor.quant is None or tensor.name not in ctx.fixed_by_file:
                continue
            wanted = QuantParams(tensor.quant.dtype, (scale_for(ctx, tensor),))
            if tensor.quant != wanted:
                tensor.quant = wanted
                changes.append(Change(f"scale {wanted.step:.6g} of the file", tensor.name, "--qat-scales strict"))
        changed = {c.where for c in changes}
        for group in ctx.groups:
            group.tensors = [n for n in group.tensors if n not in changed]
        ctx.groups = [g for g in ctx.groups if len(g.tensors) > 1]
        return changes


def scale_for(ctx: PassContext, tensor: Tensor) -> float:
    """The file's scale. In int16 the range of the file's 8 bits is spread over all steps, finer than the file's."""
    known = ctx.file_scales[tensor.name]
    if tensor.name not in ctx.int16:
        return known.scale
    kept = known.symmetric(DType.INT16) if known.wide else None
    return max(-known.low, known.high) / DType.INT16.qmax if kept is None else kept


def expressible(ctx: PassContext, tensor: Tensor) -> bool:
    """Whether the tensor's symmetric type holds all that the file's integers reach, in steps no larger."""
    return tensor.name in ctx.int16 or ctx.file_scales[tensor.name].symmetric(DType.INT8) is not None
