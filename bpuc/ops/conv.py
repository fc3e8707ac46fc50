"""Conv and ConvTranspose with constant weights."""

from __future__ import annotations

from typing import Any, cast

from bpuc.ir import Op
from bpuc.ops.attrs import ConvAttrs
from bpuc.ops.base import Behaviour, Builder, Exporter, OnnxNode, Opaque, OpDef, Shape
from bpuc.ops.common import add_all, clamp, clamp_out, ints, window_out, window_pads


class Conv(OpDef):
    """Sums of products over a sliding window, with bias, residual and clamp."""

    kind = "Conv"
    attrs = ConvAttrs
    onnx = ("Conv",)
    behaviour = Behaviour.ACCUMULATES

    def parse(self, node: OnnxNode, build: Builder) -> None:
        x, w = node.operand(0), node.operand(1)
        rank = x.rank - 2
        _check(node, rank)
        kernel = w.shape[2:]
        strides, dilations = ints(node, "strides", (1,) * rank), ints(node, "dilations", (1,) * rank)
        pads = window_pads(node, x.shape[2:], kernel, strides, dilations)
        attrs = ConvAttrs(strides, pads, dilations, int(node.attrs.get("group", 1)))
        build.op(self.kind, attrs, node.inputs[:3], node.outputs)

    def infer(self, op: Op) -> list[Shape]:
        a, x, w = cast(ConvAttrs, op.attrs), op.input(0).shape, op.input(1).shape
        _check_ranks(op, w[0])
        if x[1] != w[1] * a.group or w[0] % a.group:
            raise ValueError(f"{op.name}: {x[1]} channels do not fit weights {list(w)} in {a.group} groups")
        rank = len(x) - 2
        size = [
            window_out(x[2 + i], w[2 + i], a.strides[i], a.dilations[i], a.pads[i] + a.pads[rank + i])
            for i in range(rank)
        ]
        return [(x[0], w[0], *size)]

    def export(self, op: Op, to: Exporter) -> None:
        a = cast(ConvAttrs, op.attrs)
        bias, residual = op.maybe(2), op.maybe(3)
        out = clamp_out(op, to, a.low, a.high)
        result = out if residual is None else to.temp(f"{op.out.name}_conv")
        operands = [to.operand(t) for t in (op.input(0), op.input(1), bias) if t is not None]
        to.node(self.kind, operands, [result], **self.facts(op))
        if residual is not None:
            add_all(result, [to.operand(residual)], out, to)
        clamp(out, op, to, a.low, a.high)

    def facts(self, op: Op) -> dict[str, Any]:
        a = cast(ConvAttrs, op.attrs)
        return {
            "kernel_shape": op.input(1).shape[2:],
            "strides": a.strides,
            "pads": a.pads,
            "dilations": a.dilations,
            "group": a.group,
        }


class ConvTranspose(Conv):
    """The transposed convolution; its weights are [C, O / group, *kernel]."""

    kind = "ConvTranspose"
    onnx = ("ConvTranspose",)

    def parse(self, node: OnnxNode, build: Builder) -> None:
        x, w = node.operand(0), node.operand(1)
        rank = x.rank - 2
        _check(node, rank)
        strides, dilations = ints(node, "strides", (1,) * rank), ints(node, "dilations", (1,) * rank)
        extra = ints(node, "output_padding", (0,) * rank)
        mode = str(node.attrs.get("auto_pad", "NOTSET"))
        pads = ints(node, "pads", (0,) * (2 * rank)) if mode == "NOTSET" else (0,) * (2 * rank)
        if "output_shape" in node.attrs or mode.startswith("SAME"):
            wanted = node.outputs[0].shape[2:]
            begins, ends = [], []
            for i in range(rank):
                full = strides[i] * (x.shape[2 + i] - 1) + extra[i] + (w.shape[2 + i] - 1) * dilations[i] + 1
                total = full - wanted[i]
                # operator text of ConvTranspose: SAME_UPPER puts the odd element at the end
                begin = total // 2 if mode == "SAME_UPPER" else total - total // 2
                begins.append(begin)
                ends.append(total - begin)
            pads = (*begins, *ends)
        if min(pads, default=0) < 0:
            raise Opaque("ConvTranspose with negative pads")
        attrs = ConvAttrs(strides, pads, dilations, int(node.attrs.get("group", 1)), extra)
        build.op(self.kind, attrs, node.inputs[:3], node.outputs)

    def infer(self, op: Op) -> list[Shape]:
        a, x, w = cast(ConvAttrs, op.attrs), op.input(0).shape, op.input(1).shape
        _check_ranks(op, w[1] * a.group)
        if x[1] != w[0] or x[1] % a.group:
            raise ValueError(f"{op.name}: {x[1]} channels do not fit weights {list(w)} in {a.group} groups")
        rank = len(x) - 2
        extra = a.output_padding or (0,) * rank
        size = [
            a.strides[i] * (x[2 + i] - 1)
            + extra[i]
            + (w[2 + i] - 1) * a.dilations[i]
            + 1
            - a.pads[i]
            - a.pads[rank + i]
            for i in range(rank)
        ]
        return [(x[0], w[1] * a.group, *size)]

    def facts(self, op: Op) -> dict[str, Any]:
        a = cast(ConvAttrs, op.attrs)
        return super().facts(op) | {"output_padding": a.output_padding or (0,) * (op.input(0).rank - 2)}


def _check(node: OnnxNode, rank: int) -> None:
    """Refuse what the attribute class cannot say."""
    if node.const(1) is None:
        raise Opaque(f"{node.op_type} whose weights are not constant")
    if len(node.inputs) > 2 and node.inputs[2] is not None and node.const(2) is None:
        raise Opaque(f"{node.op_type} whose bias is not constant")
    if not 1 <= rank <= 3:
        raise Opaque(f"{node.op_type} with {rank} spatial axes")


def _check_ranks(op: Op, channels: int) -> None:
    a, rank = cast(ConvAttrs, op.attrs), op.input(0).rank
    bias = op.maybe(2)
    if op.input(1).rank != rank or (len(a.strides), len(a.dilations), len(a.pads)) != (
        rank - 2,
        rank - 2,
        2 * rank - 4,
    ):
        raise ValueError(f"{op.name}: weights, strides, dilations or pads are not for {rank - 2} spatial axes")
    if bias is not None and bias.shape != (channels,):
        raise ValueError(f"{op.name}: bias {list(bias.shape)} is not for {channels} channels")


DEFS = (Conv(), ConvTranspose())
