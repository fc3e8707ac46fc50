"""MaxPool and AveragePool."""

from __future__ import annotations

from typing import Any, cast

from bpuc.ir import Op
from bpuc.ops.attrs import PoolAttrs
from bpuc.ops.base import Behaviour, Builder, Exporter, OnnxNode, Opaque, OpDef, Shape
from bpuc.ops.common import ints, window_out, window_pads


class Pool(OpDef):
    """The largest or the mean value of each window."""

    attrs = PoolAttrs

    def __init__(self, kind: str, behaviour: Behaviour):
        self.kind, self.onnx, self.behaviour = kind, (kind,), behaviour

    def parse(self, node: OnnxNode, build: Builder) -> None:
        x = node.operand(0)
        if len(node.outputs) > 1:
            raise Opaque("MaxPool whose indices are read")
        if not 1 <= x.rank - 2 <= 3:
            raise Opaque(f"{node.op_type} with {x.rank - 2} spatial axes")
        kernel = ints(node, "kernel_shape", ())
        ones = (1,) * len(kernel)
        strides, dilations = ints(node, "strides", ones), ints(node, "dilations", ones)
        pads = window_pads(node, x.shape[2:], kernel, strides, dilations)
        ceil = bool(node.attrs.get("ceil_mode", 0))
        attrs = PoolAttrs(kernel, strides, pads, dilations, ceil, bool(node.attrs.get("count_include_pad", 0)))
        build.op(self.kind, attrs, [x], node.outputs)

    def infer(self, op: Op) -> list[Shape]:
        a, x = cast(PoolAttrs, op.attrs), op.input(0).shape
        rank, size = len(a.kernel), []
        for i in range(rank):
            n, begin, end = x[2 + i], a.pads[i], a.pads[rank + i]
            out = window_out(n, a.kernel[i], a.strides[i], a.dilations[i], begin + end, ceil=a.ceil_mode)
            # a last window that would start behind the padded begin is left out
            if a.ceil_mode and (out - 1) * a.strides[i] >= n + begin:
                out -= 1
            size.append(out)
        return [(*x[:2], *size)]

    def export(self, op: Op, to: Exporter) -> None:
        facts = self.facts(op)
        facts["ceil_mode"] = int(facts["ceil_mode"])
        if self.kind == "AveragePool":
            facts["count_include_pad"] = int(facts["count_include_pad"])
        to.node(self.kind, [to.operand(op.input(0))], [op.out.name], **facts)

    def facts(self, op: Op) -> dict[str, Any]:
        a = cast(PoolAttrs, op.attrs)
        facts = {
            "kernel_shape": a.kernel,
            "strides": a.strides,
            "pads": a.pads,
            "dilations": a.dilations,
            "ceil_mode": a.ceil_mode,
        }
        return facts if self.kind == "MaxPool" else facts | {"count_include_pad": a.count_include_pad}


DEFS = (Pool("MaxPool", Behaviour.MOVES), Pool("AveragePool", Behaviour.COMPUTES))
