"""MatMul and Gemm: products of matrices, with bias, residual and clamp."""

from __future__ import annotations

from typing import cast

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.ir import Op, Tensor
from bpuc.ops.attrs import EltwiseAttrs, MatMulAttrs, ShapeAttrs, TransposeAttrs
from bpuc.ops.base import Behaviour, Builder, Exporter, OnnxNode, OpDef, Shape
from bpuc.ops.common import add_all, clamp, clamp_out


class MatMul(OpDef):
    """a [..., M, K] @ b [..., K, N]."""

    kind = "MatMul"
    attrs = MatMulAttrs
    onnx = ("MatMul", "Gemm")
    behaviour = Behaviour.ACCUMULATES

    def parse(self, node: OnnxNode, build: Builder) -> None:
        if node.op_type == "Gemm":
            _parse_gemm(node, build)
        else:
            _parse_matmul(node, build)

    def infer(self, op: Op) -> list[Shape]:
        a, b = op.input(0).shape, op.input(1).shape
        if a[-1] != b[-2]:
            raise ValueError(f"{op.name}: inner sizes {a[-1]} and {b[-2]} differ")
        return [(*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])]

    def export(self, op: Op, to: Exporter) -> None:
        attrs = cast(MatMulAttrs, op.attrs)
        more = [to.operand(t) for t in (op.maybe(2), op.maybe(3)) if t is not None]
        out = clamp_out(op, to, attrs.low, attrs.high)
        product = to.temp(f"{op.out.name}_product") if more else out
        to.node("MatMul", [to.operand(op.input(0)), to.operand(op.input(1))], [product])
        if more:
            add_all(product, more, out, to)
        clamp(out, op, to, attrs.low, attrs.high)


def _parse_matmul(node: OnnxNode, build: Builder) -> None:
    """A vector becomes a matrix of one row (left) or column (right), as numpy's matmul defines it."""
    a, b, out = node.operand(0), node.operand(1), node.outputs[0]
    if a.rank >= 2 and b.rank >= 2:
        build.op("MatMul", MatMulAttrs(), [a, b], [out])
        return
    result = out.shape
    if a.rank == 1:
        a = _reshaped(a, (1, a.shape[0]), build)
    if b.rank == 1:
        b = _reshaped(b, (b.shape[0], 1), build)
    full = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    product = build.temp(full, out.dtype, f"{out.name}_matrix")
    build.op("MatMul", MatMulAttrs(), [a, b], [product])
    build.op("Reshape", ShapeAttrs(result), [product], [out], "Reshape")


def _parse_gemm(node: OnnxNode, build: Builder) -> None:
    """alpha * a' @ b' + beta * c, with the factors moved into constants where there are any."""
    a, b, out = node.operand(0), node.operand(1), node.outputs[0]
    alpha, beta = float(node.attrs.get("alpha", 1.0)), float(node.attrs.get("beta", 1.0))
    if node.attrs.get("transA", 0):
        a = _transposed(a, build)
    if b.const is not None:
        array = b.const.T if node.attrs.get("transB", 0) else b.const
        if array is not b.const or alpha != 1.0:
            b = build.const(np.ascontiguousarray(array * np.float32(alpha)), b.name)
        alpha = 1.0
    elif node.attrs.get("transB", 0):
        b = _transposed(b, build)

    c = node.inputs[2] if len(node.inputs) > 2 else None
    if beta == 0.0:
        c = None
    columns = out.shape[1]
    bias = None
    if c is not None and c.const is not None:
        array = (c.const * np.float32(beta)).astype(np.float32)
        beta = 1.0
        if (
            b.const is not None
            and array.ndim <= 2
            and array.size in (1, columns)
            and array.shape[-1:] != (out.shape[0], 1)
        ):
            flat = array.reshape(-1) if array.shape[-1:] == (columns,) or array.size == 1 else None
            if flat is not None:
                bias, c = build.const(np.ascontiguousarray(np.broadcast_to(flat, (columns,))), c.name), None
        if c is not None and array is not c.const:
            c = build.const(array, c.name)

    product = out if alpha == 1.0 and c is None else build.temp(out.shape, out.dtype, f"{out.name}_product")
    build.op("MatMul", MatMulAttrs(), [a, b] if bias is None else [a, b, bias], [product])
    if alpha != 1.0:
        product = _scaled(product, alpha, out if c is None else None, build)
    if c is not None:
        if beta != 1.0:
            c = _scaled(c, beta, None, build)
        build.op("Add", EltwiseAttrs(), [product, c], [out], "Add")


def _scaled(x: Tensor, factor: float, out: Tensor | None, build: Builder) -> Tensor:
    result = out or build.temp(x.shape, x.dtype, f"{x.name}_scaled")
    build.op("Mul", EltwiseAttrs(), [x, build.const(factor, f"{x.name}_factor")], [result], "Mul")
    return result


def _transposed(x: Tensor, build: Builder) -> Tensor:
    if x.const is not None:
        return build.const(np.ascontiguousarray(x.const.T), x.name)
    result = build.temp(x.shape[::-1], DType.FLOAT32, f"{x.name}_transposed")
    build.op("Transpose", TransposeAttrs((1, 0)), [x], [result], "Transpose")
    return result


def _reshaped(x: Tensor, shape: Shape, build: Builder) -> Tensor:
    if x.const is not None:
        return build.const(x.const.reshape(shape), x.name)
    result = build.temp(shape, x.dtype, f"{x.name}_matrix")
    build.op("Reshape", ShapeAttrs(shape), [x], [result], "Reshape")
    return result


DEFS = (MatMul(),)
