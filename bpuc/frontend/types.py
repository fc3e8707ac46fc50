"""Element types and attributes of ONNX in the terms of bpuc; half and double precision become float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

from bpuc.base.dtypes import DType
from bpuc.ir import Tensor
from bpuc.ops.base import Array

FLOATS = (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
ELEMENT: dict[int, DType] = {
    TensorProto.FLOAT: DType.FLOAT32,
    TensorProto.INT8: DType.INT8,
    TensorProto.INT16: DType.INT16,
    TensorProto.INT32: DType.INT32,
    TensorProto.INT64: DType.INT64,
    TensorProto.UINT8: DType.UINT8,
    TensorProto.UINT16: DType.UINT16,
    TensorProto.UINT32: DType.UINT32,
    TensorProto.UINT64: DType.UINT64,
    TensorProto.BOOL: DType.BOOL,
} | dict.fromkeys(FLOATS, DType.FLOAT32)
ONNX_TYPE: dict[DType, int] = {dtype: element for element, dtype in ELEMENT.items() if element not in FLOATS}


def type_name(element: int) -> str:
    """ONNX's own name of an element type."""
    try:
        return str(TensorProto.DataType.Name(element))
    except ValueError:
        return f"number {element}"


def array_of(tensor: TensorProto) -> Array:
    """A constant's array, in float32 where it is of another floating type."""
    return in_float32(onnx.numpy_helper.to_array(tensor), tensor.data_type)


def in_float32(array: Array, element: int) -> Array:
    """An array of an ONNX element type, in float32 where it is another floating type; larger values become its ends."""
    if element in FLOATS:
        if element == TensorProto.DOUBLE:
            limit = np.finfo(np.float32).max
            array = np.where(np.isfinite(array), np.clip(array, -limit, limit), array)
        array = array.astype(np.float32)
    return np.asarray(array)


def tensor_proto(array: Array, name: str) -> TensorProto:
    """A constant as ONNX stores it."""
    return onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(np.shape(array)), name)


def elsewhere(array: Array, name: str) -> TensorProto:
    """A constant that the model only mentions; whoever runs it brings the values."""
    kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    proto = TensorProto(name=name, dims=array.shape, data_type=kind, data_location=TensorProto.EXTERNAL)
    proto.external_data.add(key="location", value="memory")
    return proto


def type_proto(tensor: Tensor) -> onnx.TypeProto:
    """A tensor's type and shape."""
    if tensor.host:
        return onnx.parser.parse_graph(f"g ({tensor.host} x) => () {{}}").input[0].type
    return onnx.helper.make_tensor_type_proto(ONNX_TYPE[tensor.dtype], tensor.shape)


def host_value(name: str, proto: onnx.TypeProto) -> Tensor | None:
    """A host value of this type; None where the type is incomplete, or one that nothing here reads."""
    text = _type_text(proto)
    return None if text is None else Tensor(name, (), DType.HOST, host=text)


def _type_text(proto: onnx.TypeProto) -> str | None:
    """As ONNX's text format has it; dimensions that are not known are ``?``."""
    kind = proto.WhichOneof("value")
    if kind in ("sequence_type", "optional_type"):
        inner = _type_text(getattr(proto, kind).elem_type)
        return None if inner is None else f"{'seq' if kind == 'sequence_type' else 'optional'}({inner})"
    element = proto.tensor_type.elem_type
    if element not in ELEMENT and element != TensorProto.STRING:
        return None
    if not proto.tensor_type.HasField("shape"):
        return f"{type_name(element).lower()}[]"
    dims = [str(d.dim_value) if d.HasField("dim_value") else "?" for d in proto.tensor_type.shape.dim]
    return type_name(element).lower() + (f"[{','.join(dims)}]" if dims else "")


def in_float32_type(proto: onnx.TypeProto) -> None:
    """Let a type speak of float32 in place of other floating types, in place."""
    kind = proto.WhichOneof("value")
    if kind in ("sequence_type", "optional_type"):
        in_float32_type(getattr(proto, kind).elem_type)
    elif kind == "tensor_type" and proto.tensor_type.elem_type in FLOATS:
        proto.tensor_type.elem_type = TensorProto.FLOAT


def attributes(node: NodeProto) -> dict[str, Any]:
    """A node's attributes by name: numbers, strings, lists of them; tensors and graphs as protobuf."""
    found: dict[str, Any] = {}
    for attribute in node.attribute:
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        elif attribute.type == AttributeProto.STRINGS:
            value = [v.decode("utf-8", "replace") for v in value]
        found[attribute.name] = value
    return found


def fields(values: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The plain ones among a node's attributes, hashable."""
    plain: list[tuple[str, Any]] = []
    for name, value in sorted(values.items()):
        if isinstance(value, (int, float, str)):
            plain.append((name, value))
        elif isinstance(value, (list, tuple)) and all(isinstance(v, (int, float, str)) for v in value):
            plain.append((name, tuple(value)))
    return tuple(plain)


def to_float32(graph: GraphProto) -> None:
    """Let nodes (not initializers, see `array_of`) of a graph and its subgraphs speak of float32 alone, in place."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype") and attribute.i in FLOATS and node.op_type != "QuantizeLinear":
                attribute.i = TensorProto.FLOAT
            elif attribute.type == AttributeProto.TENSOR and attribute.t.data_type in FLOATS:
                attribute.t.CopyFrom(tensor_proto(array_of(attribute.t), attribute.t.name))
            elif attribute.type == AttributeProto.GRAPH:
                _subgraph_to_float32(attribute.g)
            elif attribute.type == AttributeProto.TYPE_PROTO:
                in_float32_type(attribute.tp)


def _subgraph_to_float32(graph: GraphProto) -> None:
    to_float32(graph)
    for tensor in graph.initializer:
        if tensor.data_type in FLOATS:
            tensor.CopyFrom(tensor_proto(array_of(tensor), tensor.name))
    for info in (*graph.input, *graph.output, *graph.value_info):
        in_float32_type(info.type)
