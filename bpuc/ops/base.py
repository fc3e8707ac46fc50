"""What an op declares: attributes, how it comes from ONNX and goes back, its shape rule, what it does to scales."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.ir import Attrs, Op, Tensor

Shape = tuple[int, ...]
Array = np.ndarray[Any, np.dtype[Any]]


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

    def const(self, index: int) -> Array | None:
        """The array of operand `index`, or None where it is absent or not constant."""
        tensor = self.inputs[index] if index < len(self.inputs) else None
        return None if tensor is None else tensor.const


class Opaque(Exception):  # noqa: N818 - no error: a way out of `parse`
    """Raised by `OpDef.parse`, before it builds anything: this form of the node has no op here; the text says why."""


class Builder(Protocol):
    """What `OpDef.parse` may call to put ops into the graph."""

    def op(
        self, kind: str, attrs: Attrs, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor], onnx_type: str = ""
    ) -> Op:
        """Add an op that carries out the ONNX node at hand, whose op type is the default of `onnx_type`."""

    def const(self, array: Array | float, name: str) -> Tensor:
        """A constant (a float: a float32 scalar); `name` is made unique."""

    def temp(self, shape: Shape, dtype: DType, name: str) -> Tensor:
        """An intermediate tensor; `name` is made unique."""

    def alias(self, output: Tensor, source: Tensor) -> None:
        """The node's output is nothing but `source`: no op is needed."""


class Exporter(Protocol):
    """What `OpDef.export` may call to write ONNX nodes."""

    opset: int  # of the default domain, 20 or newer

    def node(self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: Any) -> None:
        """Append a node."""

    def raw(self, proto: bytes, inputs: Sequence[str], outputs: Sequence[str], opset: int) -> None:
        """Append a serialized NodeProto of that opset with other operand and result names."""

    def operand(self, tensor: Tensor) -> str:
        """The name of an operand; a constant becomes an initializer."""

    def const(self, array: Array | float, hint: str) -> str:
        """An initializer (a float: a float32 scalar); returns its name."""

    def temp(self, hint: str) -> str:
        """A new tensor name."""


class OpDef(ABC):
    """Declaration of one kind of op; every module of this package lists its own in `DEFS`.

    onnx: the ONNX op types that `parse` takes.
    """

    kind: str
    attrs: type[Attrs]
    onnx: tuple[str, ...] = ()
    behaviour: Behaviour

    def behaves(self, op: Op) -> Behaviour:  # noqa: ARG002 - for kinds whose behaviour hangs on the attributes
        """What this op does with integers."""
        return self.behaviour

    def parse(self, node: OnnxNode, build: Builder) -> None:  # noqa: ARG002
        """Add the node to the graph.

        Raises:
            Opaque: this form of the node has no op here; it then stays an opaque ONNX op.
        """
        raise Opaque(f"{node.op_type} is not imported")

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
