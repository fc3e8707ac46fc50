"""Take reductions apart that have no BPU form as a whole, but whose parts do.

    ReduceL2(x)                    ->  Sqrt(ReduceSum(x * x))
    ReduceL1(x)                    ->  ReduceSum(Abs(x))
    ReduceSumSquare(x)             ->  ReduceSum(x * x)
    ReduceLogSum(x)                ->  Log(ReduceSum(x))
    ReduceMean(x, axes 1, 2, 3)    ->  ReduceMean(ReduceMean(x, axes 2, 3), axis 1), likewise ReduceSum and ReduceMax

The public operator lists have these on the CPU, but no kernel of the vendor's stands against it: a composite is judged
by its parts, as Softmax and LayerNormalization are. Squares and sums want int16 inside (`PassContext.prefer_int16`),
for the root is steep where a sum is small. ReduceLogSumExp stays whole, since the range of exp(x) fits no table.
"""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.ir import Attrs, Graph, Op, Tensor
from bpuc.ops.attrs import EltwiseAttrs, ReduceAttrs, UnaryAttrs
from bpuc.ops.base import Shape
from bpuc.ops.reduce import reduced
from bpuc.passkit import Change, Numerics, Pass, PassContext
from bpuc.passkit.rewrite import reduction

# op type -> (what is done to each element, the reduction, what is done to its result)
_PARTS: dict[str, tuple[str, str, str]] = {
    "ReduceL1": ("Abs", "ReduceSum", ""),
    "ReduceL2": ("Mul", "ReduceSum", "Sqrt"),
    "ReduceSumSquare": ("Mul", "ReduceSum", ""),
    "ReduceLogSum": ("", "ReduceSum", "Log"),
    "ReduceMean": ("", "ReduceMean", ""),
    "ReduceSum": ("", "ReduceSum", ""),
    "ReduceMax": ("", "ReduceMax", ""),
}
_SUFFIX = {"Mul": "squares", "Abs": "magnitudes", "ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "max"}
# results that may be of another order of magnitude than what they are made of
_WIDE = ("Mul", "ReduceSum", "ReduceMean")


@dataclass(frozen=True)
class DecomposeReduce(Pass):
    """Norms become ReduceSum and tables; a reduction over several axes becomes several (height and width: one mean)."""

    name = "decompose-reduce"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            attrs = reduction(op) if op.onnx_type in _PARTS else None
            steps = [] if attrs is None or op.pin == "CPU" else _steps(op, attrs)
            if len(steps) < 2:
                continue
            parts = _replace(graph, op, steps)
            changes.append(Change(f"took {op.onnx_type} apart", op.name, f"into {', '.join(p.kind for p in parts)}"))
            ctx.prefer_int16 |= {part.out.name for part in parts[:-1] if part.kind in _WIDE}
        return changes


def _steps(op: Op, attrs: ReduceAttrs) -> list[tuple[str, Attrs, Shape]]:
    """Kind, attributes and shape of each part; the last axes go first, so that the numbers of the others stay."""
    each, reduction, last = _PARTS[op.onnx_type]
    shape = op.input(0).shape
    steps: list[tuple[str, Attrs, Shape]] = []
    if each:
        steps.append((each, EltwiseAttrs() if each == "Mul" else UnaryAttrs(), shape))
    axes = list(attrs.axes)
    while axes:
        plane = reduction == "ReduceMean" and len(shape) == 4 and axes[-2:] == [2, 3]
        part = tuple(axes[-2:] if plane else axes[-1:])
        axes = axes[: -len(part)]
        shape = reduced(shape, part, attrs.keepdims)
        steps.append((reduction, ReduceAttrs(part, attrs.keepdims), shape))
    if last:
        steps.append((last, UnaryAttrs(), shape))
    return steps


def _replace(graph: Graph, op: Op, steps: list[tuple[str, Attrs, Shape]]) -> list[Op]:
    """Put the parts in the op's place; the last of them gives the op's result and has its name."""
    x, out = op.input(0), op.out
    graph.rebind(op, 0, graph.new_tensor(out, out.name))
    parts = []
    for number, (kind, attrs, shape) in enumerate(steps, 1):
        final = number == len(steps)
        suffix = _SUFFIX.get(kind, "")
        result = out if final else Tensor(graph.unique(f"{out.name}_{suffix}"), shape, out.dtype)
        name = op.name if final else graph.unique(f"{op.name}_{suffix}")
        operands = [x, x] if kind == "Mul" else [x]
        part = graph.add(kind, attrs, operands, [result], name=name, origin=op.origin, like=op)
        parts.append(part)
        x = result
    graph.erase(op)
    return parts
