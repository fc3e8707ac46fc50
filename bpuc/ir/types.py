"""Payloads of the graph: tensors, ops and quantization parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bpuc.base.dtypes import DType

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class QuantParams:
    """Symmetric quantization: real value = integer * scale, zero point 0.

    scale: one number, or one per index of `axis`; each finite and positive.
    """

    dtype: DType
    scale: tuple[float, ...]
    axis: int | None = None

    @property
    def step(self) -> float:
        """The scale of a tensor that has just one.

        Raises:
            ValueError: the scale is per channel.
        """
        if len(self.scale) != 1:
            raise ValueError("scale is per channel")
        return self.scale[0]

    @property
    def unit(self) -> float:
        """The largest scale. Readers of a tensor with one scale a channel have the ratio to it in their weights."""
        return max(self.scale)

    @property
    def threshold(self) -> float:
        """Largest real value that is kept: scale * qmax (of the largest channel)."""
        return max(self.scale) * self.dtype.qmax


@dataclass(frozen=True)
class Attrs:
    """Base of the attribute classes, one per kind of op (a misspelt attribute is a type error)."""


@dataclass(eq=False)
class Tensor:
    """A value: constant where `const` is set, else what an op gives.

    name: the ONNX name wherever one exists. dtype: of the stored elements (int8 once quantized).
    observer: the observer to calibrate with, "" where the tensor is not to be observed.
    gain: how many times larger the values are than those of the ONNX model, one number or one per index of `gain_axis`
        (equalization moves factors into weights).
    host: of a host value (dtype HOST, and shape () but for a constant), its ONNX type as text, such as ``string[2]``,
        ``seq(float[?,3])`` or ``int64[2,?]``: strings, sequences, optionals and tensors whose shape hangs on data.
        Only ops of kind Onnx read and give them; they are never observed, quantized or compiled.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    const: Array | None = None
    quant: QuantParams | None = None
    observer: str = ""
    gain: tuple[float, ...] = (1.0,)
    gain_axis: int | None = None
    host: str = ""

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def onnx_scale(self) -> tuple[tuple[float, ...], int | None] | None:
        """Scale and axis in the units of the ONNX model, or None where the tensor is not quantized."""
        if self.quant is None:
            return None
        if len(self.gain) == 1:
            return tuple(s / self.gain[0] for s in self.quant.scale), self.quant.axis
        return tuple(self.quant.step / g for g in self.gain), self.gain_axis

    def value(self) -> Array:
        """The constant's array.

        Raises:
            ValueError: the tensor is no constant.
        """
        if self.const is None:
            raise ValueError(f"{self.name} is no constant")
        return self.const

    def __repr__(self) -> str:
        return f"Tensor({self.name}: {self.host or f'{self.dtype}{list(self.shape)}'})"


@dataclass(eq=False)
class Op:
    """An operation. Wiring (`inputs`, `outputs`) is changed through `Graph` only.

    kind: name of its OpDef. onnx_type: the ONNX op type that rules and reports speak of. origin: names of the ONNX
    nodes that it carries out. device and reason are set by placement; pin is the device that the user asked for.
    """

    name: str
    kind: str
    attrs: Attrs
    onnx_type: str = ""
    origin: tuple[str, ...] = ()
    device: str = ""
    reason: str = ""
    pin: str = ""
    segment: int = -1
    serial: int = field(default=-1, repr=False)
    _inputs: list[Tensor | None] = field(default_factory=list, repr=False)
    _outputs: list[Tensor] = field(default_factory=list, repr=False)

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """Operands in order; None where an optional one is absent."""
        return tuple(self._inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return tuple(self._outputs)

    @property
    def out(self) -> Tensor:
        """The output of an op that has just one."""
        (tensor,) = self._outputs
        return tensor

    def input(self, index: int) -> Tensor:
        """Operand `index`, which must be present.

        Raises:
            ValueError: it is absent.
        """
        tensor = self._inputs[index] if index < len(self._inputs) else None
        if tensor is None:
            raise ValueError(f"{self.name} ({self.kind}) has no input {index}")
        return tensor

    def maybe(self, index: int) -> Tensor | None:
        """Operand `index`, or None where it is absent."""
        return self._inputs[index] if index < len(self._inputs) else None
