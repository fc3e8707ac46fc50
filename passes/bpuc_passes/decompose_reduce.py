"""Take reductions apart that have no BPU form as a whole, but whose parts do.

    ReduceL2(x)         ->  Sqrt(ReduceSum(x * x))
    ReduceL1(x)         ->  ReduceSum(Abs(x))
    ReduceSumSquare(x)  ->  ReduceSum(x * x)
    ReduceLogSum(x)     ->  Log(ReduceSum(x))

The public operator lists have these on the CPU, but no kernel of the vendor's stands against it: a composite is judged
by its parts, as Softmax and LayerNormalization are. Squares and sums want int16 inside (`PassContext.prefer_int16`),
for the root is steep where a sum is small. ReduceLogSumExp stays whole, since the range of exp(x) fits no table, and so
does what reduces several axes, since the lists have ReduceSum over one only.
"""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.ir import Attrs, Graph, Op, Tensor
from bpuc.ops.attrs import EltwiseAttrs, OnnxAttrs, ReduceAttrs, UnaryAttrs
from bpuc.ops.base import Shape
from bpuc.passkit import Change, Numerics, Pass, PassContext

# op type -> (what is done to each element, what to the sum)
_PARTS: dict[str, tuple[str, str]] = {
    "ReduceL1": ("Abs", ""),
    "ReduceL2": ("Mul", "Sqrt"),
    "ReduceSumSquare": ("Mul", ""),
    "ReduceLogSum": ("", "Log"),
}


@dataclass(frozen=True)
class DecomposeReduce(Pass):
    """ReduceL1, ReduceL2, ReduceSumSquare, ReduceLogSum over one axis become ReduceSum and a product or tables."""

    name = "decompose-reduce"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            attrs = _reduction(op)
            if attrs is None or op.pin == "CPU":
                continue
            parts = _replace(graph, op, attrs)
            changes.append(Change(f"took {op.onnx_type} apart", op.name, f"into {', '.join(p.kind for p in parts)}"))
            ctx.prefer_int16 |= {part.out.name for part in parts[:-1] if part.kind != "Abs"}
        return changes


def _reduction(op: Op) -> ReduceAttrs | None:
    """Axes of a reduction that can be taken apart; None for any other op."""
    if op.kind != "Onnx" or op.onnx_type not in _PARTS or not isinstance(op.attrs, OnnxAttrs):
        return None
    x, axes, fields = op.maybe(0), op.maybe(1), dict(op.attrs.fields)
    if x is None or x.const is not None or not x.dtype.is_float or (axes is not None and axes.const is None):
        return None
    given = fields.get("axes", ()) if axes is None else tuple(int(a) for a in axes.value().reshape(-1))
    assert isinstance(given, tuple), "axes is a list of integers"
    if not given and fields.get("noop_with_empty_axes", 0):
        return None
    chosen = tuple(sorted({int(a) % x.rank for a in given})) or tuple(range(x.rank))
    return ReduceAttrs(chosen, bool(fields.get("keepdims", 1))) if len(chosen) == 1 else None


def _replace(graph: Graph, op: Op, attrs: ReduceAttrs) -> list[Op]:
    """Put the parts in the op's place; the last of them gives the op's result and has its name."""
    each, last = _PARTS[op.onnx_type]
    x, out = op.input(0), op.out
    steps: list[tuple[str, Attrs, str, Shape]] = [("ReduceSum", attrs, "sum", out.shape)]
    if each:
        own: Attrs = EltwiseAttrs() if each == "Mul" else UnaryAttrs()
        steps.insert(0, (each, own, "squares" if each == "Mul" else "magnitudes", x.shape))
    if last:
        steps.append((last, UnaryAttrs(), "", out.shape))
    graph.rebind(op, 0, graph.new_tensor(out, out.name))
    parts = []
    for number, (kind, own, suffix, shape) in enumerate(steps, 1):
        final = number == len(steps)
        result = out if final else Tensor(graph.unique(f"{out.name}_{suffix}"), shape, out.dtype)
        name = op.name if final else graph.unique(f"{op.name}_{suffix}")
        operands = [x, x] if kind == "Mul" else [x]
        part = graph.add(kind, own, operands, [result], name=name, origin=op.origin, like=op)
        parts.append(part)
        x = result
    graph.erase(op)
    return parts
