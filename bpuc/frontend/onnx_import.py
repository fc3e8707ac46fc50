"""ONNX file -> float graph: constants folded, shapes static, every node an op of `bpuc.ops` or an opaque one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto

from bpuc.base.dtypes import DType
from bpuc.base.errors import ModelError
from bpuc.frontend.fold import RANDOM, check_size, fold
from bpuc.frontend.inputs import Warnings, input_tensors
from bpuc.frontend.load import Source, load
from bpuc.frontend.order import captures, name_nodes, ordered
from bpuc.frontend.shapes import Inference
from bpuc.frontend.types import ELEMENT, FLOATS, array_of, attributes, fields, to_float32
from bpuc.ir import Attrs, Graph, Op, Tensor
from bpuc.ops import registry
from bpuc.ops.attrs import OnnxAttrs, UnaryAttrs
from bpuc.ops.base import Array, OnnxNode, Opaque, Shape

ShapeSource = Callable[[Sequence[str]], Mapping[str, Sequence[int]]]

# constants of these may be infinite: a bound that never holds
UNBOUNDED = frozenset({"Clip", "Min", "Max", "Where", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"})
# ops whose results are never below 0
NOT_NEGATIVE = frozenset({"Relu", "Sigmoid", "HardSigmoid", "Softmax", "Clip"})


@dataclass(frozen=True)
class QuantInfo:
    """Scale and zero point that the model file itself gives a tensor by Q/DQ nodes; axis None: one scale."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    dtype: DType
    axis: int | None = None

    @property
    def range(self) -> tuple[float, float]:
        """Least and largest real value that the integers reach (of the widest channel)."""
        limits = np.iinfo(self.dtype.value)
        ends = [[(int(end) - z) * s for s, z in zip(self.scale, self.zero_point)] for end in (limits.min, limits.max)]
        return min(ends[0]), max(ends[1])


@dataclass(frozen=True)
class ImportedModel:
    """A model as read from its file.

    graph: float32 (integers and booleans stay what they are). sha256: of the file and its external data.
    warnings: (code, message, where). quantized: what Q/DQ nodes in the file say, by tensor name.
    """

    path: Path
    graph: Graph
    sha256: str
    opset: int
    warnings: Warnings = field(default_factory=list)
    quantized: dict[str, QuantInfo] = field(default_factory=dict)
    # element types that the file gives its inputs, before everything became float32
    input_types: dict[str, DType | None] = field(default_factory=dict)


def import_model(
    path: str | Path,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    more_shapes: ShapeSource | None = None,
) -> ImportedModel:
    """Read an ONNX file.

    Args:
        path: of the file.
        input_shapes: static shapes by input name, where the file leaves them open.
        more_shapes: the same from a source that must first know the model's inputs; `input_shapes` wins.

    Raises:
        FileError: the file cannot be read.
        ModelError: it cannot be compiled; the message names the node, tensor or initializer.
    """
    source = load(path)
    importer = _Importer(source, input_shapes or {}, more_shapes)
    importer.run()
    return ImportedModel(
        source.path,
        importer.graph,
        source.sha256,
        source.opset,
        importer.warnings,
        importer.quantized,
        importer.input_types,
    )


class _Importer:
    """Builds the graph node by node; it is the `Builder` that `OpDef.parse` talks to."""

    def __init__(self, source: Source, shapes: Mapping[str, Sequence[int]], more_shapes: ShapeSource | None):
        self.source, self.proto = source, source.model.graph
        self.graph = Graph(self.proto.name or "graph")
        self.warnings: Warnings = []
        self.quantized: dict[str, QuantInfo] = {}
        self.infer = Inference(source.opset, min(source.model.ir_version or 8, onnx.IR_VERSION))
        self.values: dict[str, Tensor] = {}
        self._quantizers: dict[Tensor, tuple[Tensor, QuantInfo]] = {}
        self._uses = Counter(name for node in self.proto.node for name in (*node.input, *captures(node)))
        self._reused: set[str] = set()
        self._name = ""
        self._origin = self._op_type = ""
        self._outputs: Sequence[Tensor] = ()
        to_float32(self.proto)
        self._initializers()
        infos = [info for info in self.proto.input if info.name not in self.values]
        if more_shapes is not None:
            shapes = {**more_shapes([info.name for info in infos]), **shapes}
        half = onnx.TensorProto.FLOAT16
        self.input_types = {
            i.name: DType.FLOAT16 if e == half else ELEMENT.get(e)
            for i in infos
            for e in [i.type.tensor_type.elem_type]
        }
        for tensor in input_tensors(infos, shapes, self.warnings):
            self.values[tensor.name] = tensor
            self.graph.inputs.append(tensor)

    # -- the whole
    def run(self) -> None:
        names = name_nodes(self.proto)
        order = ordered(self.proto, names, self.values)
        for name in (*self.values, *(o for node in self.proto.node for o in node.output)):
            self.graph.unique(name)
        if len(order) < len(self.proto.node):
            message = f"{len(self.proto.node) - len(order)} nodes lead to no output and are left out"
            self.warnings.append(("unused-nodes", message, ""))
        for index in order:
            self._node(self.proto.node[index], names[index])
        self._bind_outputs()
        self.graph.prune()
        self._check_constants()

    def _initializers(self) -> None:
        readers: dict[str, set[str]] = {}
        for node in self.proto.node:
            for name in node.input:
                readers.setdefault(name, set()).add(node.op_type)
        floats = False
        for proto in self.proto.initializer:
            if proto.data_type not in ELEMENT:
                kind = onnx.TensorProto.DataType.Name(proto.data_type)
                raise ModelError(f"initializer '{proto.name}' has element type {kind}, which is not supported")
            try:
                array = array_of(proto)
            except (ValueError, TypeError) as e:
                raise ModelError(
                    f"initializer '{proto.name}' is damaged: {e}", where=f"initializer '{proto.name}'"
                ) from e
            floats |= proto.data_type in FLOATS
            if not readers.get(proto.name, {""}) <= UNBOUNDED:
                _check_finite(array, proto.name)
            self.values[proto.name] = Tensor(proto.name, array.shape, DType.of(array), array)
        if floats:
            self.warnings.append(("float-type", "float16, bfloat16 or float64 weights are read as float32", ""))
        if self.proto.sparse_initializer:
            raise ModelError("the model has sparse initializers, which are not supported")

    def _bind_outputs(self) -> None:
        """Set the graph outputs; a tensor that is one gets its name, and inputs and constants get a copy."""
        names = [o.name for o in self.proto.output]
        inputs = set(self.graph.inputs)
        for name in names:
            tensor = self.values[name]
            if tensor in inputs or tensor.const is not None:
                copy = Tensor(name, tensor.shape, tensor.dtype)
                if tensor.name == name:
                    copy.name = self.graph.unique(f"{name}_copy")
                node = onnx.helper.make_node("Identity", [tensor.name], [name], name=f"Identity_{name}")
                self._name, self._origin, self._op_type = node.name, node.name, "Identity"
                self._outputs = [copy]
                self._opaque(node, [tensor], [copy], "a graph output that no node computes", ())
                tensor = copy
            elif tensor.name not in names:
                tensor.name = name
            self.graph.outputs.append(tensor)
        self.graph.output_names = names

    def _check_constants(self) -> None:
        for op in self.graph:
            if op.kind == "Onnx":
                continue
            for tensor in op.inputs:
                if tensor is not None and tensor.const is not None and tensor.dtype.is_float:
                    _check_finite(tensor.const, tensor.name)

    # -- one node
    def _node(self, node: NodeProto, name: str) -> None:
        if node.domain not in ("", "ai.onnx"):
            raise ModelError(
                f"node '{name}' has op {node.op_type} of domain '{node.domain}', which is not part of ONNX",
                where=f"node '{name}'",
                want="operators of the ONNX standard (domain ai.onnx)",
                hint="export the model without custom or runtime-specific operators",
            )
        self._check_schema(node, name)
        if node.op_type in RANDOM:
            raise ModelError(f"node '{name}' ({node.op_type}) draws random numbers", where=f"node '{name}'")
        while node.output and not node.output[-1]:
            node.output.pop()
        inputs = [self.values[i] if i else None for i in node.input]
        outer = {i: self.values[i] for i in captures(node)}
        if self._shape_only(node, inputs):
            return
        constant = all(t is None or t.const is not None for t in (*inputs, *outer.values()))
        if constant and not outer and self._folded(node, name, inputs):
            return
        types = iter(self.infer.outputs(node, name, inputs, outer))
        outputs = []
        for output in node.output:
            if output:
                element, shape = next(types)
                outputs.append(Tensor(output, shape, ELEMENT[element]))
            else:
                outputs.append(Tensor(self.graph.unique(f"{name}_unused"), (), DType.FLOAT32))
        self.values |= {n: t for n, t in zip(node.output, outputs) if n}
        for tensor in outputs:
            if not tensor.elements:
                tensor.const = np.zeros(tensor.shape, tensor.dtype.numpy)
        if all(t.const is not None for t in outputs):
            return
        self._name, self._origin, self._op_type, self._outputs = name, node.name or name, node.op_type, outputs
        if not self._aliased(node, inputs, outputs):
            self._op(node, inputs, outputs, outer)

    def _check_schema(self, node: NodeProto, name: str) -> None:
        try:
            schema = onnx.defs.get_schema(node.op_type, self.source.opset, "")
        except onnx.defs.SchemaError as e:
            raise ModelError(
                f"node '{name}' has op {node.op_type}, which opset {self.source.opset} of domain ai.onnx does not have",
                where=f"node '{name}'",
                want="operators of the ONNX standard",
            ) from e
        count = len(node.input)
        if not schema.min_input <= count <= schema.max_input or len(node.output) > schema.max_output:
            raise ModelError(
                f"node '{name}' ({node.op_type}) has {count} inputs and {len(node.output)} outputs",
                where=f"node '{name}'",
                want=f"{schema.min_input} to {schema.max_input} inputs, up to {schema.max_output} outputs",
            )
        single = onnx.defs.OpSchema.FormalParameterOption.Single
        for index, parameter in enumerate(schema.inputs):
            if parameter.option == single and not node.input[index]:
                raise ModelError(f"node '{name}' ({node.op_type}) lacks operand {index}", where=f"node '{name}'")

    def _shape_only(self, node: NodeProto, inputs: Sequence[Tensor | None]) -> bool:
        """Shape and Size are constants, since shapes are static."""
        if node.op_type not in ("Shape", "Size") or inputs[0] is None:
            return False
        values = attributes(node)
        shape = np.array(inputs[0].shape, np.int64)
        if node.op_type == "Size":
            self._constant(node.output[0], np.array(inputs[0].elements, np.int64))
        else:
            self._constant(node.output[0], shape[slice(values.get("start"), values.get("end"))])
        return True

    def _folded(self, node: NodeProto, name: str, inputs: Sequence[Tensor | None]) -> bool:
        if node.op_type == "Constant":
            value = attributes(node).get("value")
            if value is not None:
                self._constant(node.output[0], array_of(value))
                return True
        elif node.op_type in ("Expand", "Tile", "ConstantOfShape", "Range", "Pad", "Resize", "OneHot"):
            try:
                found = self.infer.outputs(node, name, inputs, {})
            except ModelError:
                found = []
            for element, shape in found:
                check_size(node, name, shape, ELEMENT[element].itemsize)
        results = fold(node, self.source.opset, inputs)
        if results is None:
            return False
        for output, array in zip((o for o in node.output if o), results):
            check_size(node, name, array.shape, array.itemsize)
            self._constant(output, array)
        if node.op_type == "DequantizeLinear":
            info = _quant_info(inputs, attributes(node), DType.of(_value(inputs[0])))
            if info is not None:
                self.quantized[node.output[0]] = info
        return True

    def _constant(self, name: str, array: Array) -> None:
        self.values[name] = Tensor(name, array.shape, DType.of(array), array)

    def _aliased(self, node: NodeProto, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor]) -> bool:
        """Whether the node is nothing but another name for its operand, or half of a Q/DQ pair."""
        x, values = inputs[0] if inputs else None, attributes(node)
        if x is None:
            return False
        op_type = node.op_type
        same = x.dtype == outputs[0].dtype
        if op_type == "Dropout":
            training = inputs[2] if len(inputs) > 2 else None
            if training is not None and (training.const is None or bool(training.const.reshape(-1)[0])):
                raise ModelError(
                    f"node '{self._name}' (Dropout) is in training mode",
                    where=f"node '{self._name}'",
                    hint="export the model in evaluation mode",
                )
            same = same and len(outputs) == 1
        if op_type in ("Identity", "Dropout", "Cast", "CastLike") and same:
            self.alias(outputs[0], x)
            return True
        if op_type == "QuantizeLinear" and x.dtype.is_float:
            info = _quant_info(inputs, values, outputs[0].dtype)
            if info is not None:
                self._quantizers[outputs[0]] = (x, info)
        elif op_type == "DequantizeLinear" and x in self._quantizers:
            source, info = self._quantizers[x]
            if _quant_info(inputs, values, x.dtype) == info:
                self._pair(source, info, outputs[0])
                return True
        return False

    def _pair(self, source: Tensor, info: QuantInfo, out: Tensor) -> None:
        """A Q/DQ pair is dropped; where its range starts at 0 it may stand for a Relu or Relu6, and stays as Clip."""
        low, high = info.range
        producer = self.graph.producer(source)
        if low == 0.0 and (producer is None or producer.kind not in NOT_NEGATIVE):
            self.op("Clip", UnaryAttrs((("min", low), ("max", high))), [source], [out])
        else:
            self.alias(out, source)
        self.quantized[self.values[out.name].name] = info

    def _op(
        self,
        node: NodeProto,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        outer: Mapping[str, Tensor],
    ) -> None:
        definition, why = registry.by_onnx(node.op_type), f"there is no operator {node.op_type}"
        first = next((t for t in inputs if t is not None), None)
        integers = [t for t in (*inputs, *outputs) if t is not None and t.const is None and not t.dtype.is_float]
        if definition is not None and first is not None:
            if integers and not (node.op_type in ("ArgMax", "ArgMin") and first.dtype.is_float):
                why = f"{node.op_type} of {integers[0].dtype} values"
            else:
                present = list(inputs)
                while present and present[-1] is None:
                    present.pop()
                seen = OnnxNode(self._name, node.op_type, self.source.opset, attributes(node), present, outputs)
                try:
                    definition.parse(seen, self)
                    return
                except Opaque as e:
                    why = str(e)
        self._opaque(node, inputs, outputs, why, tuple(outer.items()))

    def _opaque(
        self,
        node: NodeProto,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        why: str,
        outer: Sequence[tuple[str, Tensor]],
    ) -> None:
        plain = NodeProto()
        plain.CopyFrom(node)
        plain.ClearField("doc_string")
        plain.ClearField("metadata_props")
        attrs = OnnxAttrs(
            plain.SerializeToString(deterministic=True),
            (("", self.source.opset),),
            why,
            fields(attributes(node)),
            tuple(name for name, _ in outer),
        )
        self.op("Onnx", attrs, [*inputs, *(t for _, t in outer)], outputs, node.op_type)

    # -- Builder
    def op(
        self, kind: str, attrs: Attrs, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor], onnx_type: str = ""
    ) -> Op:
        """Add an op; the one that gives the node's own outputs has the node's name."""
        own = any(t in self._outputs for t in outputs)
        name = self._name if own else self.graph.unique(f"{self._name}_{kind}")
        onnx_type = onnx_type or self._op_type
        operands = list(inputs)
        while operands and operands[-1] is None:
            operands.pop()
        return self.graph.add(kind, attrs, operands, outputs, name=name, origin=(self._origin,), onnx_type=onnx_type)

    def const(self, array: Array | float, name: str) -> Tensor:
        """A constant under its ONNX name where only one node reads that, else under a unique one."""
        value: Array = np.array(array, np.float32) if isinstance(array, float) else array
        if self._uses[name] == 1 and name not in self._reused:
            self._reused.add(name)
        else:
            name = self.graph.unique(name)
        return Tensor(name, value.shape, DType.of(value), value)

    def temp(self, shape: Shape, dtype: DType, name: str) -> Tensor:
        return Tensor(self.graph.unique(name), tuple(int(d) for d in shape), dtype)

    def alias(self, output: Tensor, source: Tensor) -> None:
        self.values[output.name] = source


def _value(tensor: Tensor | None) -> Array:
    assert tensor is not None
    return tensor.value()


def _quant_info(inputs: Sequence[Tensor | None], values: Mapping[str, Any], dtype: DType) -> QuantInfo | None:
    """Scale and zero point of a Q or DQ node, None where they are not constant."""
    scale = inputs[1].const if inputs[1] is not None else None
    zero = inputs[2] if len(inputs) > 2 else None
    if scale is None or (zero is not None and zero.const is None) or values.get("block_size"):
        return None
    points = np.zeros(scale.shape, np.int64) if zero is None or zero.const is None else zero.const
    axis = None if scale.size == 1 else int(values.get("axis", 1))
    rank = inputs[0].rank if inputs[0] is not None else 0
    return QuantInfo(
        tuple(float(s) for s in scale.reshape(-1)),
        tuple(int(z) for z in points.reshape(-1)),
        dtype,
        axis if axis is None or axis >= 0 else axis + rank,
    )


def _check_finite(array: Array, name: str) -> None:
    """Refuse NaN and infinite values in constants.

    Raises:
        ModelError: naming the constant, the first bad value and its place.
    """
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return
    place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
    value = "NaN" if np.isnan(array[place]) else "Inf"
    raise ModelError(
        f"initializer '{name}' holds {value} at {list(place)}",
        where=f"initializer '{name}'",
        want="finite values",
        hint="the model was damaged in training or export: check its weights",
    )
