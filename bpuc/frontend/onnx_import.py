"""ONNX file -> float graph: constants folded, shapes static, every node an op of `bpuc.ops` or an opaque one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnx
from onnx import GraphProto, NodeProto

from bpuc.base.dtypes import DType
from bpuc.base.errors import ModelError
from bpuc.frontend.builder import GraphBuilder
from bpuc.frontend.checks import (
    NodeChecker,
    check_finite,
    check_tensor,
    constant,
    contradictions,
    initializer,
    is_mask,
    is_variadic,
)
from bpuc.frontend.fold import fold, runs_long
from bpuc.frontend.inputs import Warnings, fixed_inputs, input_tensors
from bpuc.frontend.load import Source, load
from bpuc.frontend.order import captures, name_nodes, ordered
from bpuc.frontend.qdq import QuantInfo, Signs, quant_info
from bpuc.frontend.qlinear import MICROSOFT, to_float_ops
from bpuc.frontend.qmoves import move_in_float
from bpuc.frontend.shapes import Inference
from bpuc.frontend.types import ELEMENT, FLOATS, array_of, attributes, fields, to_float32
from bpuc.frontend.work import UNFORESEEN, Budget, check_run
from bpuc.ir import Graph, Tensor
from bpuc.ops import registry
from bpuc.ops.attrs import OnnxAttrs, UnaryAttrs
from bpuc.ops.base import Array, OnnxNode, Opaque

ShapeSource = Callable[[Sequence[str]], Mapping[str, Sequence[int]]]
Operands = Sequence[Tensor | None]
RENAMES = ("Identity", "Dropout", "Cast", "CastLike")  # nothing but another name, where the type stays
TARGETS = {"Reshape": 1, "Resize": 3}  # operand with the shape of the result
GROWING = ("Expand", "Tile", "ConstantOfShape", "Range", "Pad", "Resize", "OneHot", "EyeLike")


@dataclass(frozen=True)
class ImportedModel:
    """A model as read from its file.

    graph: float32 (integers and booleans stay what they are). sha256: of the file and its external data.
    warnings: (code, message, where). quantized: what Q/DQ nodes in the file say, by tensor name. input_types: element
    types that the file gives its inputs, before everything became float32.
    """

    path: Path
    graph: Graph
    sha256: str
    opset: int
    warnings: Warnings = field(default_factory=list)
    quantized: dict[str, QuantInfo] = field(default_factory=dict)
    input_types: dict[str, DType | None] = field(default_factory=dict)


def import_model(
    path: str | Path,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    more_shapes: ShapeSource | None = None,
    symbols: Mapping[str, int] | None = None,
    host_values: bool = False,
    batch: int = 1,
    rounding: bool = False,
    input_values: Mapping[str, float] | None = None,
) -> ImportedModel:
    """Read an ONNX file.

    Args:
        path: of the file.
        input_shapes: static shapes by input name, where the file leaves them open.
        more_shapes: the same from a source that must first know the model's inputs; `input_shapes` wins.
        symbols: sizes of dimensions that the file names.
        host_values: take what has no static shape or is no tensor (`Tensor.host`), which no compiled program can hold.
        batch: first size of the inputs where `input_shapes` has it in place of 1: constant targets of Reshape and
            Resize grow by it too.
        rounding: keep the file's QuantizeLinear and DequantizeLinear, so that the graph rounds as the file does; else
            they only say what the scales are.
        input_values: inputs of one element that become constants.

    Raises:
        FileError: the file cannot be read.
        ModelError: it cannot be compiled; the message names the node, tensor or initializer.
    """
    source = load(path)
    importer = _Importer(source, host_values, batch, rounding)
    importer.fix_inputs(input_values or {})
    importer.inputs(input_shapes or {}, more_shapes, symbols or {})
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
    """Goes through the nodes of a model and its inlined branches."""

    def __init__(self, source: Source, host_values: bool, batch: int, rounding: bool):
        self._host_values, self._batch, self._rounding = host_values, batch, rounding
        self.opset, self.proto = source.opset, source.model.graph
        ir_version = min(source.model.ir_version or 8, onnx.IR_VERSION)
        to_float32(self.proto)
        to_float_ops(self.proto, self.opset, (MICROSOFT,) if rounding else ("", MICROSOFT))
        if not rounding:
            move_in_float(self.proto)
        self.graph = Graph(self.proto.name or "graph")
        self._signs = Signs(self.graph)
        self.build = GraphBuilder(self.graph, self.proto.node)
        self.warnings: Warnings = []
        self.quantized: dict[str, QuantInfo] = {}
        self.input_types: dict[str, DType | None] = {}
        # Q/DQ nodes only ever gained types and axes: in old files newer forms of them are meant, and found, as well
        pairs = max(self.opset, min(21, int(onnx.defs.onnx_opset_version())))
        self._opsets: dict[str, int] = {"QuantizeLinear": pairs, "DequantizeLinear": pairs}
        self._infer = {opset: Inference(opset, ir_version, host_values) for opset in (self.opset, pairs)}
        self._checker = {opset: NodeChecker(opset, ir_version) for opset in (self.opset, pairs)}
        self._quantizers: dict[Tensor, tuple[Tensor, QuantInfo]] = {}
        self._reads = Counter(o.name for o in self.proto.output)
        for node in self.proto.node:
            self._reads.update((*node.input, *captures(node)))
        self._budget, self._large = Budget(), source.large
        self._branch = ""  # name of the If whose branch is being inlined
        self._initializers(self.proto)

    # -- the whole
    def fix_inputs(self, values: Mapping[str, float]) -> None:
        """Make constants of the inputs whose value the user gives; call it before `inputs`."""
        infos = [info for info in self.proto.input if info.name not in self.build.values]
        for name, tensor in fixed_inputs(infos, values).items():
            self._constant(name, tensor)

    def inputs(
        self, shapes: Mapping[str, Sequence[int]], more_shapes: ShapeSource | None, symbols: Mapping[str, int]
    ) -> None:
        """Give the graph its inputs; an initializer that is listed as one is none."""
        infos = [info for info in self.proto.input if info.name not in self.build.values]
        if more_shapes is not None:
            shapes = {**more_shapes([info.name for info in infos]), **shapes}
        for info in infos:
            if self._batch > 1 and info.type.tensor_type.shape.dim:
                info.type.tensor_type.shape.dim[0].dim_value = self._batch
            element = info.type.tensor_type.elem_type
            half = element == onnx.TensorProto.FLOAT16
            self.input_types[info.name] = DType.FLOAT16 if half else ELEMENT.get(element)
        self.graph.inputs = input_tensors(infos, shapes, self.warnings, symbols, self._host_values)
        self.build.values |= {t.name: t for t in self.graph.inputs}

    def run(self) -> None:
        """Import every node that an output needs."""
        self.build.reserve([*self.build.values, *(o for node in self.proto.node for o in node.output)])
        left_out = self._nodes(self.proto)
        if left_out:
            self.warnings.append(("unused-nodes", f"{left_out} nodes lead to no output and are left out", ""))
        self.warnings += contradictions(self.proto, self.build.values)
        self._bind_outputs()
        self.graph.prune()
        for op in self.graph:
            for tensor in op.inputs:
                if op.kind != "Onnx" and tensor is not None and tensor.const is not None:
                    check_finite(tensor.const, tensor.name)

    def _nodes(self, graph: GraphProto) -> int:
        """Import the nodes of the model or of a branch; returns how many were not needed."""
        names = name_nodes(graph)
        order = ordered(graph, names, self.build.values)
        read = {i for node in graph.node for i in (*node.input, *captures(node))} | {o.name for o in graph.output}
        for index in order:
            name = f"{self._branch}/{names[index]}" if self._branch else names[index]
            node = graph.node[index]
            self._checker[self._opset(node)].check(node, name)
            schema = onnx.defs.get_schema(node.op_type, self._opset(node), "")
            # how many outputs a Split, an If or a Loop has is part of what it does
            while len(node.output) > max(1, schema.min_output) and not is_variadic(schema):
                if node.output[-1] in read:
                    break
                node.output.pop()
            self._node(node, name)
        return len(names) - len(order)

    def _initializers(self, graph: GraphProto) -> None:
        if graph.sparse_initializer:
            raise ModelError("the model has sparse initializers, which are not supported")
        readers: dict[str, set[str]] = {}
        for node in graph.node:
            for name in node.input:
                readers.setdefault(name, set()).add(node.op_type)
        seen: set[str] = set()
        for proto in graph.initializer:
            if proto.name in seen:
                raise ModelError(f"initializer '{proto.name}' is there twice", where=f"initializer '{proto.name}'")
            seen.add(proto.name)
            tensor = initializer(
                proto, frozenset(readers.get(proto.name, ())), self._large.get(proto.name), self._host_values
            )
            self._budget.stored += tensor.elements * tensor.dtype.itemsize
            self._constant(proto.name, tensor)
        if any(proto.data_type in FLOATS for proto in graph.initializer):
            self.warnings.append(("float-type", "float16, bfloat16 or float64 weights are read as float32", ""))

    def _bind_outputs(self) -> None:
        """Set the graph outputs; a tensor that is one gets its name, and inputs and constants get a copy."""
        names = [o.name for o in self.proto.output]
        if len(set(names)) < len(names):
            raise ModelError(f"a graph output is listed twice: {', '.join(names)}", want="outputs of different names")
        inputs = set(self.graph.inputs)
        for output in self.proto.output:
            if not self._host_values and output.type.WhichOneof("value") not in (None, "tensor_type"):
                raise ModelError(
                    f"output '{output.name}' is no tensor",
                    where=f"output '{output.name}'",
                    want="outputs that are tensors",
                )
        file_names = name_nodes(self.proto)
        makers = {o: own for own, node in zip(file_names, self.proto.node) for o in node.output}
        for name in names:
            tensor = self.build.values[name]
            if tensor in inputs or tensor.const is not None:
                copy = Tensor(name, tensor.shape, tensor.dtype, host=tensor.host)
                if tensor.name == name:
                    copy.name = self.graph.unique(f"{name}_copy")
                node = onnx.helper.make_node("Identity", [tensor.name], [name], name=f"Identity_{name}")
                self.build.begin(node, node.name, [copy], (makers[name],) if name in makers else ())
                self._opaque(node, [tensor], [copy], "a graph output that no node computes", {})
                tensor = copy
            elif tensor.name not in names:
                if tensor.name in self.quantized:
                    self.quantized[name] = self.quantized.pop(tensor.name)
                tensor.name = name
            self.graph.outputs.append(tensor)
        self.graph.output_names = names

    def _opset(self, node: NodeProto) -> int:
        """The operator set by which a node is read."""
        return self._opsets.get(node.op_type, self.opset)

    # -- one node
    def _node(self, node: NodeProto, name: str) -> None:
        for index, output in enumerate(node.output):
            node.output[index] = output or self.graph.unique(f"{name}_unused")
        values = self.build.values
        inputs = [values[i] if i else None for i in node.input]
        outer = {i: values[i] for i in captures(node)}
        constant_inputs = all(t is None or t.const is not None for t in (*inputs, *outer.values()))
        if node.op_type == "If" and inputs and inputs[0] is not None and inputs[0].const is not None:
            self._inline(node, name, inputs)
        elif not self._shape_only(node, inputs) and not (constant_inputs and self._folded(node, name, inputs, outer)):
            self._computed(node, name, inputs, outer)

    def _computed(self, node: NodeProto, name: str, inputs: Operands, outer: Mapping[str, Tensor]) -> None:
        """A node whose result hangs on the inputs; results without elements are constants all the same."""
        outputs, empty = [], {}
        if self._batch > 1:
            inputs = self._with_batch(node, inputs)
        for tensor in self._infer[self._opset(node)].outputs(node, name, inputs, outer):
            output = tensor.name
            tensor.name = self.graph.unique(output) if self._branch else output
            check_tensor(tensor, f"node '{name}' ({node.op_type})")
            if not tensor.elements:
                empty[output] = constant(tensor.name, _no_elements(tensor, name, node.op_type))
                tensor.name = self.graph.unique(f"{output}_empty")
            outputs.append(tensor)
        check_run(node, name, inputs, outputs)
        self.build.begin(node, name, outputs)
        self.build.values |= empty
        if len(empty) < len(outputs) and not self._renamed(node, inputs, outputs):
            self._op(node, inputs, outputs, outer)

    def _with_batch(self, node: NodeProto, inputs: Operands) -> Operands:
        """Operands with the batch in a constant target shape: in place of a leading 1, or times the first size."""
        index = TARGETS.get(node.op_type, len(inputs))
        operand, x = inputs[index] if index < len(inputs) else None, inputs[0] if inputs else None
        target = None if operand is None else operand.const
        if target is None or not target.size or x is None:
            return inputs
        sizes = [int(n) for n in target.reshape(-1)]
        lacks = node.op_type == "Reshape" and min(sizes) > 0 and math.prod(sizes) * self._batch == x.elements
        if sizes[0] != 1 and not lacks:
            return inputs
        array = np.array([self._batch * sizes[0], *sizes[1:]], np.int64)
        changed = constant(self.graph.unique(f"{node.output[0]}_target"), array)
        return [changed if i == index else t for i, t in enumerate(inputs)]

    def _inline(self, node: NodeProto, name: str, inputs: Operands) -> None:
        """Put the branch that a constant condition chooses in the place of an If."""
        condition = inputs[0]
        taken = "then_branch" if condition is not None and bool(condition.value().reshape(-1)[0]) else "else_branch"
        branch = attributes(node)[taken]
        outside, before = self.build.values, self._branch
        self.build.values, self._branch = dict(outside), name
        self._initializers(branch)
        self._nodes(branch)
        results = [self.build.values[output.name] for output in branch.output]
        self.build.values, self._branch = outside, before
        self.build.values |= dict(zip(node.output, results))

    def _shape_only(self, node: NodeProto, inputs: Operands) -> bool:
        """Shape and Size are constants, since shapes are static."""
        if node.op_type not in ("Shape", "Size") or inputs[0] is None or inputs[0].host:
            return False
        values = attributes(node)
        dims = inputs[0].shape[slice(values.get("start"), values.get("end"))]
        result = np.array(dims if node.op_type == "Shape" else inputs[0].elements, np.int64)
        self._constant(node.output[0], constant(node.output[0], result))
        return True

    def _constant(self, name: str, tensor: Tensor) -> None:
        self.build.values[name] = tensor
        if self._branch:
            self.build.inner.add(tensor)

    def _folded(self, node: NodeProto, name: str, inputs: Operands, outer: Mapping[str, Tensor]) -> bool:
        if node.op_type == "Constant" and "value" in attributes(node):
            tensor = constant(node.output[0], array_of(attributes(node)["value"]), self._host_values)
            self._budget.stored += tensor.elements * tensor.dtype.itemsize
            self._constant(node.output[0], tensor)
            return True
        if node.op_type == "Loop" and runs_long(inputs[0] if inputs else None):
            return False
        given = {n: t for n, t in zip(node.input, inputs) if t is not None}
        results_of = self._foreseen(node, name, inputs, outer)
        if any(t.host.startswith(("seq", "optional")) or (t.host and node.op_type in GROWING) for t in results_of):
            return False
        foreseen = [] if any(t.host for t in results_of) else [(t.shape, t.dtype.itemsize) for t in results_of]
        self._budget.spend(node, name, inputs, foreseen)
        if not foreseen and sum(t.elements * t.dtype.itemsize for t in given.values()) > UNFORESEEN:
            return False
        results = fold(node, self._opset(node), {**given, **outer})
        if results is None:
            return False
        if not foreseen:
            self._budget.spend(node, name, (), [(a.shape, a.itemsize) for a in results])
        for output, array in zip(node.output, results):
            self._constant(output, constant(output, array, self._host_values))
        if node.op_type == "DequantizeLinear" and inputs[0] is not None:
            info = quant_info(inputs, attributes(node), inputs[0].dtype)
            if info is not None:
                self.quantized[node.output[0]] = info
        return True

    def _foreseen(self, node: NodeProto, name: str, inputs: Operands, outer: Mapping[str, Tensor]) -> list[Tensor]:
        """The results without their values; empty where only computing them tells."""
        with nullcontext() if node.op_type in GROWING else suppress(ModelError):
            return self._infer[self._opset(node)].outputs(node, name, inputs, outer)
        return []

    def _renamed(self, node: NodeProto, inputs: Operands, outputs: Sequence[Tensor]) -> bool:
        """Whether the node is nothing but another name for its operand, or the second half of a Q/DQ pair."""
        x = inputs[0] if inputs else None
        if x is None:
            return False
        if node.op_type == "Dropout" and len(inputs) > 2 and inputs[2] is not None:
            mode = inputs[2].const
            if mode is None or bool(mode.reshape(-1)[0]):
                raise ModelError(
                    f"node '{self.build.name}' (Dropout) is in training mode",
                    where=f"node '{self.build.name}'",
                    hint="export the model in evaluation mode",
                )
        if x.host:
            return False
        if node.op_type in RENAMES and x.dtype == outputs[0].dtype and len(outputs) == 1:
            self.build.alias(outputs[0], x)
            return True
        if node.op_type == "QuantizeLinear" and x.dtype.is_float:
            info = quant_info(inputs, attributes(node), outputs[0].dtype)
            if info is not None:
                self._quantizers[outputs[0]] = (x, info)
        elif node.op_type == "DequantizeLinear":
            info = quant_info(inputs, attributes(node), x.dtype)
            if not self._rounding and x in self._quantizers and info == self._quantizers[x][1]:
                self._pair(*self._quantizers[x], outputs[0])
                return True
            if info is not None:
                self.quantized[outputs[0].name] = info
        return False

    def _pair(self, source: Tensor, info: QuantInfo, out: Tensor) -> None:
        """A Q/DQ pair is dropped; where its range starts at 0 it may stand for a Relu or Relu6, and stays as Clip."""
        low, high = info.range
        producer = self.graph.producer(source)
        positive = self._signs.never_negative(source)
        if low == 0.0 and producer is not None and not positive:
            self.build.op("Clip", UnaryAttrs((("min", low), ("max", high))), [source], [out], "Clip")
            self.quantized[out.name] = info
        else:
            within = positive and low <= 0 and -low <= high  # a threshold ends the larger side as it is
            cuts = self._reads[source.name] == 1 and info.axis is None and not within
            self.build.alias(out, source)
            self.quantized[source.name] = replace(info, cuts=cuts)

    def _op(self, node: NodeProto, inputs: Operands, outputs: Sequence[Tensor], outer: Mapping[str, Tensor]) -> None:
        """An op of its own where there is one for this form of the node, else an opaque one."""
        definition, why = registry.by_onnx(node.op_type), f"there is no operator {node.op_type}"
        first = next((t for t in inputs if t is not None), None)
        integers = [t for t in (*inputs, *outputs[:1]) if t is not None and t.const is None and not t.dtype.is_float]
        if any(t is not None and t.host for t in (*inputs, *outputs)):
            why = f"{node.op_type} of values without a static shape, or that are no tensors of numbers"
        elif definition is not None and first is not None:
            if integers and not (node.op_type in ("ArgMax", "ArgMin") and first.dtype.is_float):
                why = f"{node.op_type} of {integers[0].dtype} values"
            elif is_mask(node, inputs):
                why = "a constant mask that holds -Inf"
            else:
                seen = OnnxNode(self.build.name, node.op_type, self.opset, attributes(node), inputs, outputs)
                try:
                    definition.parse(seen, self.build)
                    return
                except Opaque as e:
                    why = str(e)
                except (ArithmeticError, LookupError, TypeError, ValueError) as e:
                    raise ModelError(
                        f"node '{self.build.name}' ({node.op_type}) does not fit its operands: {e}",
                        where=f"node '{self.build.name}'",
                        want="attributes and operands that fit together",
                    ) from e
        self._opaque(node, inputs, outputs, why, outer)

    def _opaque(
        self, node: NodeProto, inputs: Operands, outputs: Sequence[Tensor], why: str, outer: Mapping[str, Tensor]
    ) -> None:
        plain = NodeProto()
        plain.CopyFrom(node)
        plain.ClearField("doc_string")
        plain.ClearField("metadata_props")
        count = len(inputs) - next((i for i, t in enumerate(reversed(inputs)) if t is not None), len(inputs))
        attrs = OnnxAttrs(
            plain.SerializeToString(deterministic=True),
            (("", self._opset(node)),),
            why,
            fields(attributes(node)),
            tuple(outer),
        )
        self.build.op("Onnx", attrs, [*inputs[:count], *outer.values()], outputs)


def _no_elements(tensor: Tensor, name: str, op_type: str) -> Array:
    """The value of a tensor without elements, whose other dimensions may be too large for an array."""
    try:
        return np.zeros(tensor.shape, tensor.dtype.numpy)
    except ValueError as e:
        raise ModelError(
            f"the result of node '{name}' ({op_type}) has shape {list(tensor.shape)}",
            where=f"node '{name}'",
            want="dimensions whose product an array can have, those of no elements aside",
        ) from e
