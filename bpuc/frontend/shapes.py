"""Shapes and element types of a node's results, by ONNX's own inference, one node after the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import onnx
import onnx.shape_inference
from onnx import NodeProto, OperatorSetIdProto, TensorProto, TypeProto

from bpuc.base.errors import ModelError
from bpuc.frontend.fold import RUN_LIMIT, types_by_running
from bpuc.frontend.types import ELEMENT, host_value, tensor_proto, type_name, type_proto
from bpuc.ir import Tensor

# ops whose result's size is found in the values of their operands
DATA_DEPENDENT = ("NonZero", "NonMaxSuppression", "Compress", "Unique", "StringSplit")
# results like the first operand; ONNX defines them by other ops, and infers nothing
SAME_SHAPE = ("GroupNormalization", "MeanVarianceNormalization")
# their results' shapes are found by running them where inference finds none, see `types_by_running`
RUNNABLE = ("Loop", "Scan", "Attention")  # and STFT always: onnx finds one frame less or more
LARGEST = 2**31 - 1  # dimension of a result without elements; numpy makes none beyond
SMALL = 4096  # elements of a constant that inference may want to see


class Inference:
    """Infers results; types of operands are kept, so that each is written once.

    Args:
        host_values: whether results may be no tensors of static shape.
    """

    def __init__(self, opset: int, ir_version: int, host_values: bool = False):
        self.opset = opset
        self._host_values = host_values
        self._imports: list[OperatorSetIdProto] = [onnx.helper.make_opsetid("", opset)]
        self._ir_version = ir_version
        self._types: dict[Tensor, TypeProto] = {}
        self._data: dict[Tensor, TensorProto] = {}

    def outputs(
        self, node: NodeProto, name: str, inputs: Sequence[Tensor | None], outer: Mapping[str, Tensor]
    ) -> list[Tensor]:
        """The outputs, not yet given by an op.

        Args:
            node: the ONNX node.
            name: how to call it in errors.
            inputs: its operands.
            outer: the values that its subgraphs read.

        Raises:
            ModelError: the operands do not fit, or a result has no static shape.
        """
        given = {n: t for n, t in zip(node.input, inputs) if t is not None} | dict(outer)
        types = {n: self._type(t) for n, t in given.items()}
        data = {n: self._constant(t) for n, t in given.items() if t.const is not None and t.elements <= SMALL}
        if node.op_type == "Range":  # onnxruntime takes vectors of one element too
            given_1 = [n for n, t in given.items() if t.shape == (1,)]
            types |= {n: onnx.helper.make_tensor_type_proto(types[n].tensor_type.elem_type, ()) for n in given_1}
            data |= {n: tensor_proto(given[n].value().reshape(()), n) for n in given_1 if n in data}
        # before 22 onnx counts a last window that lies on the border as a whole, which no runtime computes
        rounds_up = node.op_type in ("MaxPool", "AveragePool") and any(
            a.name == "ceil_mode" and a.i for a in node.attribute
        )
        schema = onnx.defs.get_schema(node.op_type, max(self.opset, 22) if rounds_up else self.opset, "")
        if node.op_type in SAME_SHAPE:
            same = {node.output[0]: types[node.input[0]]}
            return [self._checked(node, name, output, same.get(output), given) for output in node.output if output]
        try:
            found = onnx.shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=self._imports, ir_version=self._ir_version
            )
        except Exception as e:  # InferenceError, and whatever else the C++ code throws
            raise ModelError(
                f"the operands of node '{name}' ({node.op_type}) do not fit: {str(e).strip()}",
                where=f"node '{name}'",
                want=_operands(given),
            ) from e
        unknown = any(_static(found.get(output)) is None for output in node.output if output)
        if (node.op_type == "STFT" and _elements(found) < RUN_LIMIT) or (unknown and node.op_type in RUNNABLE):
            found = types_by_running(node, self.opset, given) or found
        return [self._checked(node, name, output, found.get(output), given) for output in node.output if output]

    def _checked(
        self, node: NodeProto, name: str, output: str, proto: TypeProto | None, given: Mapping[str, Tensor]
    ) -> Tensor:
        where = f"node '{name}'"
        plain = _static(proto) is not None and proto is not None and proto.tensor_type.elem_type in ELEMENT
        if self._host_values and proto is not None and not plain:
            value = host_value(output, proto)
            if value is not None:
                return value
        if proto is not None and proto.WhichOneof("value") not in (None, "tensor_type"):
            raise ModelError(f"node '{name}' ({node.op_type}) gives no tensor", where=where, want="tensors only")
        shape = _static(proto)
        if shape is not None and 0 in shape and max(shape) > LARGEST:
            raise ModelError(
                f"the result of node '{name}' ({node.op_type}) has shape {list(shape)}",
                where=where,
                want=f"dimensions up to {LARGEST}",
            )
        if proto is not None and shape is not None:
            element = proto.tensor_type.elem_type
            if element not in ELEMENT:
                raise ModelError(
                    f"node '{name}' ({node.op_type}) gives elements of type {type_name(element)}", where=where
                )
            return Tensor(output, shape, ELEMENT[element])
        below = [d.dim_value for d in proto.tensor_type.shape.dim] if proto is not None else []
        if any(d < 0 for d in below):
            raise ModelError(
                f"the result of node '{name}' ({node.op_type}) would have shape {below}",
                where=where,
                want=f"sizes from 0 up; here {_listed(given)}",
                hint="a window or a crop is larger than what it is taken from",
            )
        variable = [n for n, t in given.items() if t.const is None]
        reason = "it hangs on the values" if node.op_type in DATA_DEPENDENT else "it cannot be found without running it"
        raise ModelError(
            f"the result of node '{name}' ({node.op_type}) has no static shape: {reason} of "
            f"{', '.join(map(repr, variable)) or 'its operands'}",
            where=where,
            want="shapes that are known before the model runs",
            hint=(
                "fix the input that chooses the branch with --input-value NAME=NUMBER, or "
                if node.op_type == "If"
                else ""
            )
            + "end the model before this node (output_nodes), or do this step after the model",
        )

    def _type(self, tensor: Tensor) -> TypeProto:
        if tensor not in self._types:
            self._types[tensor] = type_proto(tensor)
        return self._types[tensor]

    def _constant(self, tensor: Tensor) -> TensorProto:
        if tensor not in self._data:
            self._data[tensor] = tensor_proto(tensor.value(), tensor.name)
        return self._data[tensor]


def _static(proto: TypeProto | None) -> tuple[int, ...] | None:
    """The shape where all of it is known."""
    if proto is None or not proto.HasField("tensor_type") or not proto.tensor_type.HasField("shape"):
        return None
    dims = [d.dim_value if d.HasField("dim_value") else -1 for d in proto.tensor_type.shape.dim]
    return tuple(int(d) for d in dims) if all(d >= 0 for d in dims) else None


def _elements(found: Mapping[str, TypeProto]) -> int:
    return sum(math.prod(_static(proto) or ()) for proto in found.values())


def _operands(given: Mapping[str, Tensor]) -> str:
    return f"operands that fit each other; here {_listed(given)}"


def _listed(given: Mapping[str, Tensor]) -> str:
    return ", ".join(f"{n} {t.dtype}{list(t.shape)}" for n, t in given.items())
