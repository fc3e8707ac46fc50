"""What must be known of an operator to judge it: shapes, types, attributes, constants. No graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class TensorFacts:
    """One tensor of an operator.

    Attributes:
        shape: static shape in ONNX order.
        dtype: name of the element type in the float model or, once quantized, of the integers.
        constant: whether its values are known at compile time.
        values: the values of a small constant that matters for limits (an exponent, a slope), else None.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    constant: bool = False
    values: np.ndarray | None = None


@dataclass(frozen=True)
class OpFacts:
    """An operator with canonical ONNX attributes (``kernel_shape``, ``strides``, ``pads`` begin..end, ``axes`` ...).

    Three attributes that ONNX does not know may be given: ``fused_add`` (an Add was fused into this convolution),
    ``last`` (the last operator of its BPU segment) and ``feeds_output`` (its result is a model output). Where they are
    absent the limit that needs them counts as held.
    """

    name: str
    op_type: str
    inputs: tuple[TensorFacts | None, ...]
    outputs: tuple[TensorFacts, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def input(self, index: int) -> TensorFacts | None:
        """The input at `index`, None when it is absent."""
        return self.inputs[index] if index < len(self.inputs) else None

    @property
    def activations(self) -> tuple[TensorFacts, ...]:
        """The inputs that are not constant."""
        return tuple(t for t in self.inputs if t is not None and not t.constant)
