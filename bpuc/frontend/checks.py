"""Checks of a model's parts before they enter the graph: nodes against their schema, constants for finite values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto

from bpuc.base.dtypes import DType
from bpuc.base.errors import ModelError
from bpuc.frontend.order import subgraphs
from bpuc.frontend.types import ELEMENT, array_of, attributes, in_float32, type_name
from bpuc.ir import Tensor
from bpuc.ops.base import Array

# constants that only these read may be infinite: a bound that never holds, or a mask (see `is_mask`)
UNBOUNDED = frozenset(
    {"Clip", "Min", "Max", "Where", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal", "Add", "Pad"}
)
LARGEST = 1 << 30  # bytes of one tensor in float; strides of operands must fit in 31 bits
RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial")


class NodeChecker:
    """Holds a node against the operator set of its model."""

    def __init__(self, opset: int, ir_version: int):
        self._opset = opset
        self._context = onnx.checker.C.CheckerContext()
        self._context.ir_version = ir_version
        self._context.opset_imports = {"": opset}

    def check(self, node: NodeProto, name: str) -> None:
        """Refuse what is not ONNX, and what has no fixed result.

        Raises:
            ModelError: another domain, an unknown op, operands or attributes that the schema does not allow.
        """
        where = f"node '{name}'"
        if node.domain not in ("", "ai.onnx"):
            raise ModelError(
                f"node '{name}' has op {node.op_type} of domain '{node.domain}', which is not part of ONNX",
                where=where,
                want="operators of the ONNX standard (domain ai.onnx)",
                hint="export the model without custom or runtime-specific operators",
            )
        if not onnx.defs.has(node.op_type, self._opset, ""):
            raise ModelError(
                f"node '{name}' has op {node.op_type}, which opset {self._opset} of domain ai.onnx does not have",
                where=where,
                want="operators of the ONNX standard",
            )
        # deprecated from its first version to opset 20, for a flaw of its definition; onnxruntime runs it
        withdrawn = node.op_type == "GroupNormalization" and self._opset < 21
        if next(subgraphs(node), None) is None and not withdrawn:
            try:
                onnx.checker.check_node(node, self._context)
            except onnx.checker.ValidationError as e:
                reason = str(e).strip().splitlines()[0]
                raise ModelError(f"node '{name}' ({node.op_type}) is not valid: {reason}", where=where) from e
        else:
            self._check_attributes(node, name)
        if node.op_type == "BatchNormalization" and self._trains(node):
            raise ModelError(
                f"node '{name}' (BatchNormalization) is in training mode: its result depends on the whole batch",
                where=where,
                want="BatchNormalization in inference mode (training_mode 0)",
                hint="export the model in evaluation mode, for instance after model.eval() in PyTorch",
            )
        if node.op_type in RANDOM:
            raise ModelError(
                f"node '{name}' ({node.op_type}) draws random numbers",
                where=where,
                want="a model that gives the same result each time",
            )

    def _check_attributes(self, node: NodeProto, name: str) -> None:
        """What onnx's checker says of attributes; it would also want all that a body reads from outside."""
        known = onnx.defs.get_schema(node.op_type, self._opset, "").attributes
        given = {a.name: a.type for a in node.attribute}
        for attribute, kind in given.items():
            if attribute not in known or int(known[attribute].type.value) != kind:
                reason = f"its attribute '{attribute}' is none of its kind"
                raise ModelError(f"node '{name}' ({node.op_type}) is not valid: {reason}", where=f"node '{name}'")
        lacking = [a for a, schema in known.items() if schema.required and a not in given]
        if lacking:
            reason = f"it has no attribute '{lacking[0]}'"
            raise ModelError(f"node '{name}' ({node.op_type}) is not valid: {reason}", where=f"node '{name}'")

    def _trains(self, node: NodeProto) -> bool:
        """Before opset 14 more than one output meant training."""
        if self._opset < 14:
            return sum(1 for output in node.output if output) > 1
        return bool(attributes(node).get("training_mode", 0))


def is_variadic(schema: onnx.defs.OpSchema) -> bool:
    """Whether an operator has any number of outputs."""
    return any(o.option == onnx.defs.OpSchema.FormalParameterOption.Variadic for o in schema.outputs)


def check_tensor(tensor: Tensor, where: str) -> None:
    """Refuse what no BPU has room for, before anything computes it.

    Raises:
        ModelError: naming the tensor and its giver.
    """
    size = tensor.elements * tensor.dtype.itemsize
    if size > LARGEST:
        raise ModelError(
            f"tensor '{tensor.name}' {list(tensor.shape)} would have {size >> 20} MB",
            where=where,
            want=f"tensors up to {LARGEST >> 20} MB",
            hint="look for a wrong size in the model or in --input-shape",
        )


def constant(name: str, array: Array, strings: bool = False) -> Tensor:
    """A constant tensor; `strings`: its elements may be strings.

    Raises:
        ModelError: its element type is not supported.
    """
    if array.dtype in (np.float16, np.float64):
        array = array.astype(np.float32)
    if strings and array.dtype.kind in "OU":
        host = f"string[{','.join(map(str, array.shape))}]" if array.shape else "string"
        return Tensor(name, array.shape, DType.HOST, array.astype(object), host=host)
    try:
        return Tensor(name, array.shape, DType.of(array), array)
    except ValueError as e:
        raise ModelError(
            f"constant '{name}' has element type {array.dtype}, which is not supported", where=f"tensor '{name}'"
        ) from e


def initializer(
    proto: TensorProto, readers: frozenset[str], stored: Array | None = None, strings: bool = False
) -> Tensor:
    """A constant from its protobuf.

    Args:
        proto: the initializer.
        readers: op types that read it.
        stored: its values, where the protobuf does not hold them.
        strings: whether its elements may be strings.

    Raises:
        ModelError: its type is not supported, its data are damaged, or it holds NaN or infinite values.
    """
    where = f"initializer '{proto.name}'"
    if any(d < 0 for d in proto.dims):
        raise ModelError(f"{where} is damaged: its shape is {list(proto.dims)}", where=where, want="sizes from 0 up")
    if proto.data_type not in ELEMENT and not (strings and proto.data_type == TensorProto.STRING):
        raise ModelError(f"{where} has element type {type_name(proto.data_type)}, which is not supported", where=where)
    try:
        array = array_of(proto) if stored is None else in_float32(stored, proto.data_type)
    except (ValueError, TypeError) as e:
        raise ModelError(f"{where} is damaged: {e}", where=where, want=f"data for shape {list(proto.dims)}") from e
    check_finite(array, proto.name, bounds=bool(readers) and readers <= UNBOUNDED)
    return constant(proto.name, array, strings)


def is_mask(node: NodeProto, inputs: Sequence[Tensor | None]) -> bool:
    """Whether the node adds a constant with -Inf in it, as attention does to hide positions from a Softmax."""
    arrays = [t.const for t in inputs if t is not None and t.const is not None and t.dtype.is_float]
    return node.op_type == "Add" and any(
        np.isneginf(a).any() and not (a > 0).any() and not np.isnan(a).any() for a in arrays
    )


def check_finite(array: Array, name: str, bounds: bool = False) -> None:
    """Refuse NaN and infinite values in constants; in `bounds` and masks NaN alone.

    Raises:
        ModelError: naming the constant, the first bad value and its place.
    """
    good = True if array.dtype.kind != "f" else ~np.isnan(array) if bounds else np.isfinite(array)
    if np.all(good):
        return
    place = tuple(int(i) for i in np.argwhere(~np.asarray(good))[0])
    value = "NaN" if np.isnan(array[place]) else "Inf"
    raise ModelError(
        f"initializer '{name}' holds {value} at {list(place)}",
        where=f"initializer '{name}'",
        want="finite values",
        hint="the model was damaged in training or export: check its weights",
    )


def contradictions(graph: GraphProto, found: Mapping[str, Tensor]) -> list[tuple[str, str, str]]:
    """A warning where declared static shapes are not those that inference finds; inference is believed."""
    wrong = []
    for info in (*graph.value_info, *graph.output):
        tensor = found.get(info.name)
        if tensor is None or tensor.host or not info.type.tensor_type.HasField("shape"):
            continue
        dims = [d.dim_value if d.HasField("dim_value") else "?" for d in info.type.tensor_type.shape.dim]
        if len(dims) != tensor.rank or any(d not in ("?", n) for d, n in zip(dims, tensor.shape)):
            wrong.append((info.name, dims, list(tensor.shape)))
    if not wrong:
        return []
    name, dims, shape = wrong[0]
    more = f" (and {len(wrong) - 1} shapes like it)" if len(wrong) > 1 else ""
    return [("declared-shape", f"the file declares shape {dims} for '{name}', but it is {shape}{more}", name)]
