"""Let a quantized model file cut values off where its integers end: a zero point off the middle makes a pair a clamp.

    QuantizeLinear, DequantizeLinear of uint8 with zero point 0   ->   values below 0 become 0

A symmetric scale ends the larger side of such a range by itself, and runs on beyond the smaller one. An accumulating op
or a table takes the clamp for nothing. A graph input gets a Clip, unless the data never reach beyond the range; the
result of a last Conv or MatMul is clamped only where they do, since it loses the accumulator's precision by that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bpuc.ir import FIRST, Graph, Op, Tensor
from bpuc.ops.attrs import ConvAttrs, EltwiseAttrs, MatMulAttrs, Step, TableAttrs, UnaryAttrs
from bpuc.ops.table import function_of
from bpuc.passkit import Change, Numerics, Pass, PassContext
from bpuc.passkit.context import FileScale, Range

_MOVES = ("Reshape", "Transpose")


@dataclass(frozen=True)
class CutFileRanges(Pass):
    """Values end where an asymmetric range of the file ends, wherever that costs next to nothing."""

    name = "cut-file-ranges"
    numerics = Numerics.DECIDES

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for tensor in graph.tensors():
            known, op = ctx.cut_by_file.get(tensor.name), graph.producer(tensor)
            if known is None or tensor.const is not None:
                continue
            beyond = _beyond(tensor, known, ctx)
            if op is None:
                if beyond is not False and tensor not in graph.outputs and tensor.name not in ctx.images:
                    _clip_input(graph, tensor, known, ctx)
                    changes.append(Change(f"Clip to {_text(known)}", tensor.name, "range of the file"))
                continue
            leaves = isinstance(op.attrs, ConvAttrs | MatMulAttrs) and op.maybe(3) is None and _leaves(graph, tensor)
            if (beyond or not leaves) and _clamp(graph, op, known, ctx):
                changes.append(Change(f"clamped to {_text(known)}", op.name, "range of the file"))
                if leaves:
                    ctx.prefer_int16.add(tensor.name)
        return changes


def _beyond(tensor: Tensor, known: FileScale, ctx: PassContext) -> bool | None:
    """Whether calibration saw values that the file cuts off by more than its rounding; None without data."""
    seen = ctx.ranges.get(tensor.name)
    if seen is None or not ctx.samples:
        return None
    return seen.low < known.low - known.scale / 2 or seen.high > known.high + known.scale / 2


def _leaves(graph: Graph, tensor: Tensor) -> bool:
    """Whether nothing computes with the tensor any more."""
    readers = graph.consumers(tensor)
    return all(r.kind in _MOVES and _leaves(graph, r.out) for r in readers)


def _clamp(graph: Graph, op: Op, known: FileScale, ctx: PassContext) -> bool:
    """Give the op the clamp, if it is of a kind that has one."""
    attrs = op.attrs
    if isinstance(attrs, ConvAttrs | MatMulAttrs | EltwiseAttrs):
        low = known.low if attrs.low is None else max(known.low, attrs.low)
        high = known.high if attrs.high is None else min(known.high, attrs.high)
        if low > high:
            return False
        op.attrs = replace(attrs, low=low, high=high)
        return True
    if not isinstance(attrs, TableAttrs | UnaryAttrs) or not _reaches_beyond(op, known, ctx):
        return False
    steps = attrs.steps if isinstance(attrs, TableAttrs) else (Step(op.kind, ("x",), attrs.params),)
    table = TableAttrs((*steps, Step("Clip", (len(steps) - 1,), (("min", known.low), ("max", known.high)))))
    out = op.out
    graph.rebind(op, 0, graph.new_tensor(out, out.name))
    graph.add("Table", table, [op.input(0)], [out], name=op.name, origin=op.origin, onnx_type=op.onnx_type, like=op)
    graph.erase(op)
    return True


def _reaches_beyond(op: Op, known: FileScale, ctx: PassContext) -> bool:
    """Whether a function of one tensor leaves the smaller side of the range, for operands up to four times the seen."""
    seen = ctx.ranges.get(op.input(0).name)
    reach = 4 * seen.threshold if seen is not None else 1e3
    values = function_of(op)(np.linspace(-reach, reach, 4001))
    values = values[np.isfinite(values)]
    if -known.low <= known.high:
        return bool((values < known.low - known.scale / 2).any())
    return bool((values > known.high + known.scale / 2).any())


def _clip_input(graph: Graph, tensor: Tensor, known: FileScale, ctx: PassContext) -> None:
    """Put a Clip behind a graph input; its result has the input's scale and statistics."""
    cut = graph.new_tensor(tensor, f"{tensor.name}_cut")
    cut.observer = tensor.observer
    graph.replace_uses(tensor, cut)
    attrs = UnaryAttrs((("min", known.low), ("max", known.high)))
    graph.add("Clip", attrs, [tensor], [cut], name=graph.unique(f"Clip_{tensor.name}"), serial=FIRST)
    seen = ctx.ranges.get(tensor.name)
    if seen is not None:
        low, high = max(seen.low, known.low), min(seen.high, known.high)
        ctx.ranges[cut.name] = Range(low, high, seen.threshold, seen.observer)
    if tensor.name in ctx.file_scales:
        ctx.file_scales[cut.name] = ctx.file_scales[tensor.name]
    if tensor.name in ctx.calibrated_dtypes:
        ctx.calibrated_dtypes[cut.name] = ctx.calibrated_dtypes[tensor.name]


def _text(known: FileScale) -> str:
    return f"{known.low:.6g}..{known.high:.6g}"
