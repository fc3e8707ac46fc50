"""What an op declares: attributes, how it comes from ONNX and goes back, its shape rule, what it does to scales."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Protocol

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.ir import Attrs, Op, Tensor

Shape = tuple[int, ...]


class Behaviour(str, Enum):
    """What an op does with integers; scale sharing, placement and lowering start from it."""

    MOVES = "moves"  # values pass unchanged: inputs and output share one scale
    ACCUMULATES = "accumulates"  # products are summed in an accumulator, then requantized to any output scale
    MAPS = "maps"  # a function of one variable: by table, any output scale
    COMPUTES = "computes"  # own integer arithmetic with its own output scale
    BORDER = "border"  # Quantize, Dequantize, Rescale: inserted by the compiler
    FLOAT = "float"  # no integer form: CPU only


@dataclass(frozen=True)
class OnnxNode:
    """One ONNX node as the op files see it (they do not import onnx).

    inputs: operands, None where absent; constants carry their array. outputs: the result tensors, already with shape
    and dtype, "" names dropped from the end. opset: version of the domain's operator set.
    """

    name: str
    op_type: str
    opset: int
    attrs: Mapping[str, Any]
    inputs: Sequence[Tensor | None]
    outputs: Sequence[Tensor]

    def operand(self, index: int) -> Tensor:
        """Operand `index`, which the ONNX schema says is there."""
        tensor = self.inputs[index]
        assert tensor is not None, f"{self.name}: schema-checked operand {index} is absent"
        return tensor

    def const(self, index: int) -> np.ndarray[Any, np.dtype[Any]] | None:
        """The array of operand `index`, or None where it is absent or not constant."""
        tensor = self.inputs[index] if index < len(self.inputs) else None
        return None if tensor is None else tensor.const


class Builder(Protocol):
    """What `OpDef.parse` may call to put ops into the graph."""

    def op(
        self, kind: str, attrs: Attrs, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor], onnx_type: str = ""
    ) -> Op:
        """Add an op that carries out the ONNX node at hand."""

    def const(self, array: np.ndarray[Any, np.dtype[Any]], name: str) -> Tensor:
        """A constant; `name` is made unique."""

    def temp(self, shape: Shape, dtype: DType, name: str) -> Tensor:
        """An intermediate tensor; `name` is made unique."""


class Exporter(Protocol):
    """What `OpDef.export` may call to write ONNX nodes (opset 17 or newer)."""

    def node(self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: Any) -> None:
        """Append a node."""

    def const(self, array: np.ndarray[Any, np.dtype[Any]], hint: str) -> str:
        """An initializer; returns its name."""

    def temp(self, hint: str) -> str:
        """A new tensor name."""


class OpDef(ABC):
    """Declaration of one kind of op; instances are listed by `bpuc.ops.registry`."""

    kind: ClassVar[str]
    attrs: ClassVar[type[Attrs]]
    onnx: ClassVar[tuple[str, ...]] = ()
    behaviour: ClassVar[Behaviour]

    def parse(self, node: OnnxNode, build: Builder) -> bool:
        """Add the node to the graph; False where this form of it has no op here (it then stays an opaque ONNX op)."""
        raise NotImplementedError

    @abstractmethod
    def infer(self, op: Op) -> list[Shape]:
        """Shapes of the outputs from the shapes of the inputs and the attributes.

        Raises:
            ValueError: the operands do not fit.
        """

    @abstractmethod
    def export(self, op: Op, to: Exporter) -> None:
        """Write the op as ONNX nodes on float tensors; tensor names are those of the graph."""

    def facts(self, op: Op) -> dict[str, Any]:  # noqa: ARG002
        """Attributes under their ONNX names, as the target rules ask for them."""
        return {}
