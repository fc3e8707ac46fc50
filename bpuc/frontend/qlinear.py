"""QLinear operators as the float operators that they stand for, between Dequantize- and QuantizeLinear.

QLinearConv and QLinearMatMul are ONNX's own; onnxruntime's quantizer writes the others, in the domain com.microsoft.
The importer then takes over scales as from any Q/DQ model. Their integers may differ by rounding from the float form.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import GraphProto, NodeProto, TensorProto

from bpuc.frontend.types import attributes

MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Form:
    """Where a QLinear operator has its operands: positions of value, scale and zero point.

    plain: inputs that are passed on as they are. weights: position of the value whose scale may be per channel. bias:
    int32, with the product of the first two scales. drop: attributes that the float operator does not have.
    """

    op: str
    operands: tuple[tuple[int, int, int], ...]
    result: tuple[int, int]
    plain: tuple[int, ...] = ()
    weights: int | None = None
    bias: int | None = None
    drop: tuple[str, ...] = ()


_ONE, _TWO = ((0, 1, 2),), ((0, 1, 2), (3, 4, 5))
FORMS: dict[str, Form] = {
    "QLinearConv": Form("Conv", _TWO, (6, 7), weights=3, bias=8),
    "QLinearMatMul": Form("MatMul", _TWO, (6, 7), weights=3),
    "QLinearAdd": Form("Add", _TWO, (6, 7)),
    "QLinearMul": Form("Mul", _TWO, (6, 7)),
    "QLinearSigmoid": Form("Sigmoid", _ONE, (3, 4)),
    "QLinearLeakyRelu": Form("LeakyRelu", _ONE, (3, 4)),
    "QLinearSoftmax": Form("Softmax", _ONE, (3, 4), drop=("opset",)),
    "QLinearAveragePool": Form("AveragePool", _ONE, (3, 4), drop=("channels_last",)),
    "QLinearGlobalAveragePool": Form("GlobalAveragePool", _ONE, (3, 4), drop=("channels_last",)),
    "QLinearWhere": Form("Where", ((1, 2, 3), (4, 5, 6)), (7, 8), plain=(0,)),
    "QGemm": Form("Gemm", _TWO, (7, 8), weights=3, bias=6),
}


def to_float_ops(graph: GraphProto, opset: int, domains: Collection[str] = ("", MICROSOFT)) -> None:
    """Replace those of some domains in place; a form that Q/DQ cannot say stays as it is."""
    if not any(node.op_type.startswith("Q") for node in graph.node):
        return
    known = constants(graph)
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    nodes: list[NodeProto] = []
    for node in graph.node:
        if node.domain == MICROSOFT and node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            node.domain = ""
        form = _form(node, known, opset) if node.domain in domains else None
        nodes += [node] if form is None else _Parts(node, form, known, taken).made
    del graph.node[:]
    graph.node.extend(nodes)


def constants(graph: GraphProto) -> dict[str, TensorProto]:
    """Constants of a graph by name, those of Constant nodes among them."""
    found = {t.name: t for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            found[node.output[0]] = node.attribute[0].t
    return found


def _size(known: Mapping[str, TensorProto], name: str) -> int:
    """Elements of a constant; 0 where there is none."""
    size = 1 if name in known else 0
    for d in known[name].dims if name in known else ():
        size *= d
    return size


def _form(node: NodeProto, known: Mapping[str, TensorProto], opset: int) -> Form | None:
    """How to take the node apart, or None where that is not possible."""
    count, values = len(node.input), attributes(node) if node.op_type.startswith("Q") else {}
    if node.op_type == "QLinearConcat" and count >= 5 and (count - 2) % 3 == 0:
        form = Form("Concat", tuple((i, i + 1, i + 2) for i in range(2, count, 3)), (0, 1))
    elif node.op_type in FORMS and node.domain in ("", MICROSOFT):
        form = FORMS[node.op_type]
    else:
        return None
    scales = [s for v, s, _ in form.operands if v != form.weights]
    if max(*scales, form.result[0], *(v for v, _, _ in form.operands)) >= count:
        return None
    if any(_size(known, node.input[s]) != 1 for s in (*scales, form.result[0])):
        return None
    older = form.op == "Softmax" and (values.get("opset", opset) >= 13) != (opset >= 13)
    scaled = form.op == "Gemm" and values.get("alpha", 1.0) != 1.0
    if values.get("channels_last") or older or scaled:
        return None
    channels = _size(known, node.input[form.operands[1][1]]) if form.weights is not None else 1
    weights = known.get(node.input[form.weights]) if form.weights is not None else None
    rank = len(weights.dims) if weights is not None else 0
    return form if channels == 1 or (channels > 1 and (form.op == "Conv" or rank == 2)) else None


class _Parts:
    """The nodes that stand for one."""

    def __init__(self, node: NodeProto, form: Form, known: Mapping[str, TensorProto], taken: set[str]):
        self._node, self._taken = node, taken
        self._name = node.name or f"{node.op_type}_{node.output[0]}"
        self.made: list[NodeProto] = []
        attrs = attributes(node)
        operands = [node.input[i] for i in form.plain]
        axis = None
        for i, (value, scale, zero) in enumerate(form.operands):
            if value == form.weights and _size(known, node.input[scale]) > 1:
                axis = {"Conv": 0, "MatMul": 1}.get(form.op, 0 if attrs.get("transB") else 1)
            inputs = [node.input[j] for j in (value, scale, zero) if j < len(node.input)]
            operands.append(self._dequantize(inputs, f"operand{i}", axis))
        if form.bias is not None and len(node.input) > form.bias and node.input[form.bias]:
            scale_name = self._temp("bias_scale")
            factors = [node.input[s] for _, s, _ in form.operands[:2]]
            self.made.append(onnx.helper.make_node("Mul", factors, [scale_name], name=f"{self._name}/bias_scale"))
            operands.append(self._dequantize([node.input[form.bias], scale_name], "bias", None if axis is None else 0))
        result = self._temp("float")
        plain = NodeProto(op_type=form.op, name=self._name, input=operands, output=[result])
        plain.attribute.extend(a for a in node.attribute if a.name not in form.drop)
        written = [node.input[j] for j in form.result if j < len(node.input)]
        quantize = onnx.helper.make_node(
            "QuantizeLinear", [result, *written], list(node.output), name=f"{self._name}/quantize"
        )
        self.made += [plain, quantize]

    def _dequantize(self, inputs: Sequence[str], hint: str, axis: int | None) -> str:
        out = self._temp(hint)
        attrs = {} if axis is None else {"axis": axis}
        name = f"{self._name}/dequantize_{hint}"
        self.made.append(onnx.helper.make_node("DequantizeLinear", list(inputs), [out], name=name, **attrs))
        return out

    def _temp(self, hint: str) -> str:
        unique = f"{self._node.output[0]}_{hint}"
        while unique in self._taken:
            unique += "_"
        self._taken.add(unique)
        return unique
