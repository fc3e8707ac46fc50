"""Division of two activations as a table and a product.

a / b  ->  a * Reciprocal(b)
"""

from __future__ import annotations

from dataclasses import dataclass

from bpuc.ir import Graph
from bpuc.ops.attrs import EltwiseAttrs, UnaryAttrs
from bpuc.passkit import Change, Numerics, Pass, PassContext


@dataclass(frozen=True)
class SplitDiv(Pass):
    """The BPU divides by table look-up (public operator list: "lowered to reciprocal LUT + Mul")."""

    name = "split-div"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            if op.kind != "Div" or op.pin == "CPU" or op.input(1).const is not None:
                continue
            a, b, out = op.input(0), op.input(1), op.out
            inverse = graph.new_tensor(b, f"{b.name}_reciprocal")
            name = graph.unique(f"{op.name}_reciprocal")
            graph.add("Reciprocal", UnaryAttrs(), [b], [inverse], name=name, origin=op.origin, like=op)
            graph.rebind(op, 0, graph.new_tensor(out, out.name))
            attrs = op.attrs if isinstance(op.attrs, EltwiseAttrs) else EltwiseAttrs()
            graph.add("Mul", attrs, [a, inverse], [out], name=op.name, origin=op.origin, onnx_type="Div", like=op)
            graph.erase(op)
            changes.append(Change("split Div into Reciprocal and Mul", op.name, "no divider in the vector unit"))
        return changes
