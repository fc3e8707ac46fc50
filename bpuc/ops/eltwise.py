"""Add, Sub, Mul, Div, Max, Min of two operands, and Sum and Mean as chains of Add."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from bpuc.ir import Op, Tensor
from bpuc.ops.attrs import AffineAttrs, EltwiseAttrs
from bpuc.ops.base import Array, Behaviour, Builder, Exporter, OnnxNode, Opaque, OpDef, Shape
from bpuc.ops.common import clamp, clamp_out, varying_axes


class Eltwise(OpDef):
    """One of the binary kinds; a constant operand comes second where the order does not matter."""

    attrs = EltwiseAttrs
    behaviour = Behaviour.COMPUTES

    def __init__(self, kind: str, onnx: tuple[str, ...]):
        self.kind, self.onnx = kind, onnx

    def parse(self, node: OnnxNode, build: Builder) -> None:
        out = node.outputs[0]
        operands = _binding(self.kind, [t for t in node.inputs if t is not None], out)
        if len(operands) == 1:
            build.alias(out, operands[0])
            return
        if len(operands) > 2 or node.op_type in ("Sum", "Mean"):
            _chain(self.kind, operands, out, node.op_type == "Mean", build)
            return
        x, y = operands
        if self.kind in ("Add", "Mul", "Max", "Min") and x.const is not None:
            x, y = y, x
        constant = y if y.const is not None else x
        if constant.const is None:
            build.op(self.kind, EltwiseAttrs(), [x, y], [out])
        else:
            _with_constant(self.kind, x, y, out, build)

    def infer(self, op: Op) -> list[Shape]:
        return [np.broadcast_shapes(op.input(0).shape, op.input(1).shape)]

    def export(self, op: Op, to: Exporter) -> None:
        a = cast(EltwiseAttrs, op.attrs)
        out = clamp_out(op, to, a.low, a.high)
        to.node(self.kind, [to.operand(op.input(0)), to.operand(op.input(1))], [out])
        clamp(out, op, to, a.low, a.high)


def _binding(kind: str, operands: list[Tensor], out: Tensor) -> list[Tensor]:
    """The operands of a Max or Min without bounds that hold for every value, such as the -Inf a maximum starts from.

    Raises:
        Opaque: a bound is infinite and cannot be left out, as in part it is not, or it gives the result its shape.
    """
    never = {"Max": -np.inf, "Min": np.inf}.get(kind)
    if never is None:
        return operands
    kept = [t for t in operands if t.const is None or not t.dtype.is_float or not np.all(t.const == never)]
    if any(t.const is not None and t.dtype.is_float and np.isinf(t.const).any() for t in kept):
        raise Opaque(f"{kind} with a bound that is infinite in part")
    if len(kept) < len(operands) and (not kept or np.broadcast_shapes(*(t.shape for t in kept)) != out.shape):
        raise Opaque(f"{kind} with an infinite bound that gives the result its shape")
    return kept


def _chain(kind: str, operands: Sequence[Tensor], out: Tensor, mean: bool, build: Builder) -> None:
    total = operands[0]
    for index, operand in enumerate(operands[1:], 1):
        last = index == len(operands) - 1 and not mean
        shape = np.broadcast_shapes(total.shape, operand.shape)
        result = out if last else build.temp(shape, out.dtype, f"{out.name}_part")
        build.op(kind, EltwiseAttrs(), [total, operand], [result], kind)
        total = result
    if mean:
        count = build.const(1 / len(operands), f"{out.name}_count")
        build.op("Mul", EltwiseAttrs(), [total, count], [out], "Mul")


def _with_constant(kind: str, x: Tensor, y: Tensor, out: Tensor, build: Builder) -> None:
    """One operand is constant: subtraction becomes addition, division multiplication, per channel becomes Affine."""
    left = x.const is not None  # c - x or c / x; commutative kinds have the constant at the right
    array = (x if left else y).value().astype(np.float32)
    tensor, name = (y, x.name) if left else (x, y.name)
    if not left and kind == "Sub":
        kind, array = "Add", -array
    elif not left and kind == "Div" and np.all(array != 0):
        kind, array = "Mul", (1.0 / array.astype(np.float64)).astype(np.float32)
    if tensor.shape == out.shape and array.size > 1 and kind in ("Add", "Mul", "Sub"):
        axes = varying_axes(array, tensor.rank)
        if len(axes) == 1 and (axes[0] == 1 or (axes[0] == tensor.rank - 1 and tensor.rank <= 3)):
            gain, bias = _gain_bias(kind, array.reshape(-1))
            operands = [tensor, build.const(gain, f"{name}_gain" if kind != "Mul" else name)]
            operands.append(build.const(bias, f"{name}_bias" if kind == "Mul" else name))
            build.op("Affine", AffineAttrs(axes[0]), operands, [out])
            return
    if array.size == 1 and tensor.shape == out.shape:
        array = array.reshape(())
    constant = build.const(array, name)
    build.op(kind, EltwiseAttrs(), [constant, tensor] if left else [tensor, constant], [out])


def _gain_bias(kind: str, c: Array) -> tuple[Array, Array]:
    """Gain and bias of x + c, x * c or c - x."""
    if kind == "Mul":
        return c, np.zeros_like(c)
    return np.full_like(c, -1.0 if kind == "Sub" else 1.0), c


DEFS = tuple(
    Eltwise(kind, onnx)
    for kind, onnx in (
        ("Add", ("Add", "Sum", "Mean")),
        ("Sub", ("Sub",)),
        ("Mul", ("Mul",)),
        ("Div", ("Div",)),
        ("Max", ("Max",)),
        ("Min", ("Min",)),
    )
)
