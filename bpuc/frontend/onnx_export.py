"""Graphs and single ops -> ONNX models in float32, for execution and for the files that users look at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import onnx
import onnx.version_converter
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from bpuc.base.errors import ModelError
from bpuc.frontend.order import subgraphs
from bpuc.frontend.types import elsewhere, tensor_proto, type_proto
from bpuc.ir import Graph, Op, Tensor
from bpuc.ops import registry
from bpuc.ops.attrs import OnnxAttrs
from bpuc.ops.base import Array

OPSET = 20  # the forms that the op files write
IR_VERSION = 9
MOST_BYTES = 2000 << 20  # of constants in one model: protobuf ends at 2 GB

LARGE = 1024  # bytes of a constant that may stay outside of the model
Arrays = dict[str, Array]


class Writer:
    """Collects nodes and initializers; it is the `Exporter` that `OpDef.export` talks to.

    Args:
        ops: that will be written. taken: names that are in use.
        arrays: takes large constants by name, in place of the model, which then only mentions them; None: no constant.
    """

    def __init__(self, ops: Sequence[Op], taken: Iterable[str], arrays: Arrays | None = None):
        self._arrays = arrays
        self.opset = _opset(ops)
        self.nodes: list[NodeProto] = []
        self.initializers: dict[str, TensorProto] = {}
        self._names = set(taken)
        self._operands: dict[Tensor, str] = {}
        self._op: Op | None = None
        self._count = self._bytes = 0

    def write(self, op: Op) -> None:
        """Append the nodes of one op."""
        self._op, self._count = op, 0
        registry.get(op.kind).export(op, self)

    def node(self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: Any) -> None:
        node = onnx.helper.make_node(op_type, list(inputs), list(outputs), name=self._node_name(op_type), **attrs)
        self.nodes.append(node)

    def raw(self, proto: bytes, inputs: Sequence[str], outputs: Sequence[str], opset: int) -> None:
        node = NodeProto.FromString(proto)
        captured = cast(OnnxAttrs, self._op.attrs).captures if self._op is not None else ()
        count = len(inputs) - len(captured)
        _rename(node, dict(zip(captured, inputs[count:])))
        del node.input[:], node.output[:]
        node.input.extend(inputs[:count])
        node.output.extend(outputs)
        node.name = self._node_name(node.op_type)
        if opset >= self.opset or _same_form(node.op_type, opset, self.opset):
            self.nodes.append(node)
            return
        # the converter lets an old meaning pass as the new one: Hardmax over all axes from `axis` on, Scan with a batch
        if node.op_type == "Hardmax":
            self._flat_hardmax(node)
            return
        if node.op_type == "Scan" and opset < 9:
            raise ModelError(
                f"node '{node.name}' ({node.op_type}) of opset {opset} has no form in opset {self.opset}",
                where=f"node '{node.name}'",
                hint="export the model for opset 9 or newer",
            )
        types = {n: type_proto(t) for n, t in zip(node.input, self._op.inputs if self._op else ()) if t is not None}
        model = _one_node(node, types, opset)
        try:
            new = onnx.version_converter.convert_version(model, self.opset).graph
        except Exception as e:  # the converter raises whatever its C++ code throws
            raise ModelError(
                f"node '{node.name}' ({node.op_type}) of opset {opset} cannot be written for opset {self.opset}: {e}",
                where=f"node '{node.name}'",
                hint=f"export the model for opset {self.opset} or newer",
            ) from e
        names = {t.name: self.temp(t.name) for t in new.initializer}
        names |= {o: self.temp(o) for part in new.node for o in part.output if o and o not in node.output}
        for tensor in new.initializer:
            tensor.name = names[tensor.name]
            self.initializers[tensor.name] = tensor
        for part in new.node:
            for operands in (part.input, part.output):
                for index, name in enumerate(operands):
                    operands[index] = names.get(name, name)
            part.name = part.name or self.temp(f"{node.name}_{part.op_type}")
            self.nodes.append(part)

    def _flat_hardmax(self, node: NodeProto) -> None:
        """Hardmax as before opset 13: of a matrix whose columns are all axes from `axis` on."""
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        matrix, result, shape = (self.temp(f"{node.output[0]}_{part}") for part in ("matrix", "hardmax", "shape"))
        self.nodes.append(onnx.helper.make_node("Flatten", node.input, [matrix], name=node.name, axis=axis))
        self.node("Hardmax", [matrix], [result], axis=1)
        self.node("Shape", node.input, [shape])
        self.node("Reshape", [result, shape], node.output)

    def operand(self, tensor: Tensor) -> str:
        if tensor.const is None:
            return tensor.name
        if tensor not in self._operands:
            self._operands[tensor] = self.const(tensor.const, tensor.name)
        return self._operands[tensor]

    def const(self, array: Array | float, hint: str) -> str:
        value: Array = np.array(array, np.float32) if isinstance(array, float) else array
        self._bytes += value.nbytes
        if self._bytes > MOST_BYTES:
            where = f"node '{self._op.name}'" if self._op is not None else None
            raise ModelError(
                f"constants of {self._bytes >> 20} MB are too much for one ONNX model; the last is '{hint}'",
                where=where,
                want=f"up to {MOST_BYTES >> 20} MB of float32 in a part that runs on the CPU",
                hint="leave this step out of the model, or split the constant",
            )
        name = self.temp(hint)
        if self._arrays is not None and value.nbytes >= LARGE and not value.dtype.hasobject:
            self._arrays[name] = np.ascontiguousarray(value)
            self.initializers[name] = elsewhere(value, name)
        else:
            self.initializers[name] = tensor_proto(value, name)
        return name

    def temp(self, hint: str) -> str:
        name, n = hint, 1
        while name in self._names:
            name, n = f"{hint}_{n}", n + 1
        self._names.add(name)
        return name

    def _node_name(self, op_type: str) -> str:
        """The op's name for its first node; the others tell what they are."""
        if self._op is None:
            return ""
        self._count += 1
        return self._op.name if self._count == 1 else f"{self._op.name}/{op_type}_{self._count - 1}"


def export_float(graph: Graph, outputs: Sequence[str] = (), arrays: Arrays | None = None) -> ModelProto:
    """The graph as an ONNX model.

    Args:
        graph: with float tensors.
        outputs: names of tensors (no inputs or constants) that become outputs too, behind the model's own.
        arrays: as for `Writer`.

    Raises:
        ModelError: `outputs` holds an unknown name.
    """
    ops = list(graph)
    produced = {t.name: t for op in ops for t in op.outputs}
    writer = Writer(ops, (*produced, *(t.name for t in graph.inputs), *graph.output_names), arrays)
    for op in ops:
        writer.write(op)
    results = []
    for name, tensor in zip(graph.output_names, graph.outputs):
        # an output that is an input needs no node, and may not have one of that name
        if name != tensor.name and name not in {t.name for t in graph.inputs}:
            writer._op = None
            writer.node("Identity", [writer.operand(tensor)], [name])
        results.append(onnx.helper.make_value_info(name, type_proto(tensor)))
    there = set(graph.output_names)
    for name in outputs:
        if name in there:
            continue
        if name not in produced:
            raise ModelError(f"there is no tensor '{name}' to look at")
        there.add(name)
        results.append(onnx.helper.make_value_info(name, type_proto(produced[name])))
    return assemble(graph.name, writer, graph.inputs, results)


def export_part(ops: Sequence[Op], results: Sequence[Tensor], arrays: Arrays | None = None) -> bytes:
    """Some ops, in order, as a serialized ONNX model.

    Its inputs are all non-constant operands that none of the ops gives, its outputs the `results` of the ops. `arrays`
    is as for `Writer`.
    """
    given = {t for op in ops for t in op.outputs}
    inputs = list(
        dict.fromkeys(t for op in ops for t in op.inputs if t is not None and t.const is None and t not in given)
    )
    writer = Writer(ops, [t.name for t in (*inputs, *given)], arrays)
    for op in ops:
        writer.write(op)
    infos = [onnx.helper.make_value_info(t.name, type_proto(t)) for t in results]
    return bytes(assemble("part", writer, inputs, infos).SerializeToString(deterministic=True))


def export_op(op: Op, whole: bool = True) -> bytes:
    """One op as a serialized ONNX model: its non-constant operands, each once, are the inputs.

    Args:
        whole: with the values of large constants, which a model that is never run need not hold.
    """
    inputs = list(dict.fromkeys(t for t in op.inputs if t is not None and t.const is None))
    writer = Writer([op], [t.name for t in (*inputs, *op.outputs)], None if whole else {})
    writer.write(op)
    results = [onnx.helper.make_value_info(t.name, type_proto(t)) for t in op.outputs]
    return bytes(assemble(op.name, writer, inputs, results).SerializeToString(deterministic=True))


def assemble(name: str, writer: Writer, inputs: Sequence[Tensor], results: Sequence[onnx.ValueInfoProto]) -> ModelProto:
    """The model of all that the writer collected; takes its constants, which may be large."""
    infos = [onnx.helper.make_value_info(t.name, type_proto(t)) for t in inputs]
    graph = onnx.helper.make_graph(writer.nodes, name or "graph", infos, list(results))
    imports = [onnx.helper.make_opsetid("", writer.opset)]
    ir_version = IR_VERSION if writer.opset <= OPSET else max(IR_VERSION, 10)
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=ir_version, producer_name="bpuc")
    while writer.initializers:  # one at a time, into the model at once: every step copies them
        model.graph.initializer.append(writer.initializers.pop(next(iter(writer.initializers))))
    return model


def _opset(ops: Sequence[Op]) -> int:
    """The opset to write: that of the op files, or a newer one where an opaque node needs it."""
    needed = [OPSET]
    for op in ops:
        if isinstance(op.attrs, OnnxAttrs):
            opset = dict(op.attrs.opsets)[""]
            needed.append(int(onnx.defs.get_schema(op.onnx_type, opset, "").since_version))
    return max(needed)


def _same_form(op_type: str, old: int, new: int) -> bool:
    schemas = [onnx.defs.get_schema(op_type, opset, "") for opset in (old, new)]
    return bool(schemas[0].since_version == schemas[1].since_version)


def _one_node(node: NodeProto, types: dict[str, onnx.TypeProto], opset: int) -> ModelProto:
    infos = [onnx.helper.make_value_info(n, t) for n, t in types.items()]
    outputs = [onnx.helper.make_empty_tensor_value_info(n) for n in node.output if n]
    graph = onnx.helper.make_graph([node], "node", infos, outputs)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=IR_VERSION)


def _rename(node: NodeProto, names: dict[str, str]) -> None:
    """Let the node's subgraphs read outer values under other names."""
    if not names:
        return
    for graph in subgraphs(node):
        _rename_in(graph, names)


def _rename_in(graph: GraphProto, names: dict[str, str]) -> None:
    for node in graph.node:
        for index, operand in enumerate(node.input):
            if operand in names:
                node.input[index] = names[operand]
        _rename(node, names)
    for output in graph.output:
        output.name = names.get(output.name, output.name)
