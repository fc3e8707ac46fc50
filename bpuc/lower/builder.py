"""What the lowering functions write to: instructions, constants, operand views of tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.base.errors import BpucError, ModelError
from bpuc.base.rounding import Int64Array, round_half_up
from bpuc.frontend.onnx_export import export_op
from bpuc.ir import Op, QuantParams, Tensor
from bpuc.isa import Instruction, Ref, Space, contiguous_strides
from bpuc.isa.core import MAX_RANK
from bpuc.lower.certificate import Certificate
from bpuc.lower.memory import VirtualMemory, aligned

Array = np.ndarray[Any, np.dtype[Any]]


class Builder:
    """Collects the program while ops are lowered one by one; `op` is the index of the one at hand.

    Args:
        export: gives an op of the CPU as a serialized ONNX model.
    """

    def __init__(self, export: Callable[[Op], bytes] = export_op) -> None:
        self.export = export
        self.memory = VirtualMemory()
        self.instructions: list[Instruction] = []
        self.constants = bytearray()
        self.parts: list[bytes] = []
        self.certificates: list[Certificate] = []
        self.op = -1
        self.refs: dict[Tensor, Ref] = {}
        self.written: dict[Tensor, int] = {}
        self._pool: dict[tuple[str, bytes], int] = {}
        self._quantized: dict[tuple[Tensor, QuantParams], Ref] = {}

    def emit(self, ins: Instruction) -> None:
        self.instructions.append(ins)

    def packed(self, shape: tuple[int, ...], dtype: DType) -> Ref:
        """A new row-major buffer in the arena; a vector where `shape` has more axes than an operand may have."""
        if len(shape) > MAX_RANK:
            shape = (math.prod(shape),)
        n = dtype.itemsize
        for d in shape:
            n *= d
        return Ref(Space.ARENA, dtype, self.memory.allocate(n), shape, contiguous_strides(shape, dtype.itemsize))

    def constant(self, array: Array) -> Ref:
        """A constant in the read-only memory; equal ones are stored once."""
        array = np.ascontiguousarray(array).reshape(np.shape(array))  # numpy makes a vector of a scalar
        dtype = DType.of(array)
        raw = array.astype(dtype.numpy).tobytes()
        key = (dtype.value, raw)
        if key not in self._pool:
            self._pool[key] = len(self.constants)
            self.constants += raw.ljust(aligned(len(raw)), b"\0")
        return Ref(
            Space.CONST, dtype, self._pool[key], tuple(array.shape), contiguous_strides(array.shape, dtype.itemsize)
        )

    def ref(self, tensor: Tensor) -> Ref:
        """The operand view of a tensor: its buffer, or its integers where it is a constant."""
        if tensor.const is not None:
            if tensor.quant is None:
                return self.constant(tensor.const)
            key = (tensor, tensor.quant)
            if key not in self._quantized:
                self._quantized[key] = self.constant(quantize_constant(tensor))
            return self._quantized[key]
        if tensor not in self.refs:
            self.refs[tensor] = self.packed(tensor.shape, tensor.dtype)
        return self.refs[tensor]


def quantize_constant(tensor: Tensor) -> Array:
    """Integers of a constant that is read like an activation: clamp(floor(x / scale + 0.5))."""
    quant = quant_of(tensor)
    return saturated(tensor.value(), quant.step, quant.dtype.qmin, quant.dtype.qmax).astype(quant.dtype.numpy)


def saturated(real: Array | float, step: Array | float, lo: int, hi: int) -> Int64Array:
    """Integers of real values in steps, clamped to lo..hi; values may be infinite.

    Clamped before rounding, since what is beyond int64 has no integer.
    """
    return round_half_up(np.clip(np.asarray(real, np.float64) / step, lo, hi))


def quant_of(tensor: Tensor) -> QuantParams:
    """The scale of a tensor that must have one."""
    assert tensor.quant is not None, f"{tensor.name} has no scale"
    return tensor.quant


def step_of(tensor: Tensor) -> float:
    """The scale of a tensor; with one a channel the largest.

    That is right for all that reads or writes such a tensor but the writer that gives channels their scale: weights of
    a reader hold the ratio already, and other ops keep it from operand to result.
    """
    return quant_of(tensor).unit


def steps_of(tensor: Tensor) -> Array:
    """The scale of every channel, float64 [1] where there is one for all."""
    return np.asarray(quant_of(tensor).scale, np.float64)


def clamp_of(out: Tensor, low: float | None = None, high: float | None = None) -> tuple[int, int]:
    """Integer bounds of a result: the type's range, cut to the real bounds low..high.

    int32 results are symmetric in no sense: their bounds are the type's.
    """
    quant = quant_of(out)
    lo, hi = quant.dtype.qmin, quant.dtype.qmax
    if quant.dtype is DType.INT32:
        return lo, hi
    if low is not None:
        lo = int(saturated(low, quant.unit, lo, hi))
    if high is not None:
        hi = int(saturated(high, quant.unit, lo, hi))
    return lo, hi


def refuse(op: Op, why: str) -> BpucError:
    """The error for an op that no instruction can carry out although placement let it pass."""
    return ModelError(f"{op.name} ({op.onnx_type}): {why}", hint=f"--run-on-cpu {op.name}")
