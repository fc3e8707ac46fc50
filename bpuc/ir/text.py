"""The text form of a graph: printed by ``--dump-dir``, read by tests and bug reports.

::

    graph cat_demo stage=quantized
      input %x_float32: float32[1,16,64,64] as "x"
      const %w: float32[16,16,3,3] scale=0.1;0.2@0/int8 = @5f0c9d3a12e4b6f7
      %a: int8[1,16,64,64] scale=0.0113 = Conv(%x, %w, _) !BPU name="conv_a" origin=["conv_a"] {strides=(1, 1), ...}
      output %a as "y"

A name of other than plain characters is quoted; attributes that have their default are left out.
``scale=steps@axis/dtype``; the dtype only where the elements are not stored in it yet. Small constants are written out,
larger ones by the start of their SHA-256; reading those back needs the arrays.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.base.errors import FileError
from bpuc.ir.graph import Graph
from bpuc.ir.types import Array, Attrs, Op, QuantParams, Tensor

_SMALL = 16
_PLAIN = re.compile(r"[A-Za-z0-9_./:\-]+")
_NAME = r'(?:[A-Za-z0-9_./:\-]+|"(?:[^"\\]|\\.)*")'
_JSON = r'(?:"(?:[^"\\]|\\.)*"|\[(?:[^"\]]|"(?:[^"\\]|\\.)*")*\]|[A-Za-z0-9_.\-]+)'
_HEAD = re.compile(
    rf"%(?P<name>{_NAME}): (?P<dtype>\w+)\[(?P<shape>[\d,]*)\]"
    r"(?: type=(?P<host>\"[^\"]*\"))?"
    r"(?: scale=(?P<scale>[^\s@/,]+)(?:@(?P<axis>\d+))?(?:/(?P<stored>\w+))?)?(?: observer=(?P<observer>\w+))?"
    r"(?: gain=(?P<gain>[^\s@,]+)(?:@(?P<gain_axis>\d+))?)?"
)
_OPERAND = re.compile(rf"%({_NAME})|_")
_FIELD = re.compile(rf" (\w+)=({_JSON})")


def digest(array: Array) -> str:
    """Name of a constant in the text form."""
    data = json.dumps(array.tolist()).encode() if array.dtype.hasobject else np.ascontiguousarray(array).tobytes()
    return hashlib.sha256(data).hexdigest()[:16]


def print_graph(graph: Graph, stage: str = "") -> str:
    """The graph as text, one op a line in topological order."""
    lines = [f"graph {_quoted(graph.name)}" + (f" stage={stage}" if stage else "")]
    names = graph.input_names or [t.name for t in graph.inputs]
    for tensor, name in zip(graph.inputs, names):
        lines.append(f"  input {_typed(tensor)}" + (f" as {_json(name)}" if name != tensor.name else ""))
    for tensor in graph.tensors():
        if tensor.const is not None:
            lines.append(f"  const {_typed(tensor)} = {_values(tensor.const)}")
    lines += [f"  {_op(op)}" for op in graph]
    for tensor, name in zip(graph.outputs, graph.output_names):
        lines.append(f"  output %{_quoted(tensor.name)} as {_json(name)}")
    return "\n".join(lines) + "\n"


def parse_graph(text: str, attrs_of: Mapping[str, type[Attrs]], constants: Mapping[str, Array] | None = None) -> Graph:
    """Read the text form back.

    Args:
        attrs_of: attribute class of each kind of op (the op registry knows them).
        constants: arrays of large constants by `digest`.

    Raises:
        FileError: naming the line that cannot be read.
    """
    graph = Graph()
    tensors: dict[str, Tensor] = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        try:
            _parse_line(line, graph, tensors, attrs_of, constants or {})
        except (AssertionError, KeyError, ValueError, SyntaxError, TypeError) as e:
            raise FileError(f"text form, line {number}: cannot read {line!r} ({type(e).__name__}: {e})") from e
    return graph


def _values(array: Array) -> str:
    if array.size > _SMALL:
        return f"@{digest(array)}"
    if array.dtype.kind == "f":
        # the fewest digits that tell this number from others of its type
        array = np.array([float(str(v)) for v in array.reshape(-1)]).reshape(array.shape)
    return json.dumps(array.tolist())


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else _json(name)


def _unquoted(text: str) -> str:
    return str(json.loads(text)) if text.startswith('"') else text


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _typed(t: Tensor) -> str:
    text = f"%{_quoted(t.name)}: {t.dtype}[{','.join(map(str, t.shape))}]"
    text += f" type={_json(t.host)}" if t.host else ""
    if t.quant is not None:
        text += " scale=" + ";".join(map(repr, t.quant.scale))
        text += f"@{t.quant.axis}" if t.quant.axis is not None else ""
        text += f"/{t.quant.dtype}" if t.quant.dtype is not t.dtype else ""
    text += f" observer={t.observer}" if t.observer else ""
    if t.gain != (1.0,):
        text += " gain=" + ";".join(map(repr, t.gain)) + (f"@{t.gain_axis}" if t.gain_axis is not None else "")
    return text


def _op(op: Op) -> str:
    args = ", ".join("_" if t is None else f"%{_quoted(t.name)}" for t in op.inputs)
    fields = {
        "name": op.name,
        "onnx": op.onnx_type if op.onnx_type != op.kind else "",
        "origin": list(op.origin),
        "pin": op.pin,
        "segment": "" if op.segment < 0 else op.segment,
        "reason": op.reason,
    }
    tail = f" !{op.device}" if op.device else ""
    tail += "".join(f" {key}={_json(value)}" for key, value in fields.items() if value not in ("", []))
    attrs = ", ".join(
        f"{f.name}={value!r}" for f in dataclasses.fields(op.attrs) if (value := getattr(op.attrs, f.name)) != f.default
    )
    return f"{', '.join(map(_typed, op.outputs))} = {op.kind}({args}){tail} {{{attrs}}}"


def _parse_line(
    line: str,
    graph: Graph,
    tensors: dict[str, Tensor],
    attrs_of: Mapping[str, type[Attrs]],
    constants: Mapping[str, Array],
) -> None:
    if not line or line.startswith("#"):
        return
    word, _, rest = line.partition(" ")
    if word == "graph":
        found = re.fullmatch(rf"({_NAME})(?: stage=\w*)?", rest)
        assert found is not None, "no name"
        graph.name = _unquoted(found[1])
    elif word == "input":
        tensor, rest = _declare(rest, tensors)
        graph.inputs.append(tensor)
        graph.input_names.append(str(json.loads(rest.removeprefix(" as "))) if rest else tensor.name)
    elif word == "const":
        tensor, rest = _declare(rest, tensors)
        assert rest.startswith(" = "), "no value"
        value = rest[3:]
        array = constants[value[1:]] if value.startswith("@") else np.array(json.loads(value))
        tensor.const = array.astype(tensor.dtype.numpy).reshape(tensor.shape)
    elif word == "output":
        found = re.fullmatch(rf"%({_NAME}) as (.+)", rest)
        assert found is not None, "no output"
        graph.outputs.append(tensors[_unquoted(found[1])])
        graph.output_names.append(str(json.loads(found[2])))
    else:
        _parse_op(line, graph, tensors, attrs_of)


def _declare(text: str, tensors: dict[str, Tensor]) -> tuple[Tensor, str]:
    """The tensor that `text` starts with, and what stands behind it."""
    found = _HEAD.match(text)
    assert found is not None, "not a typed name"
    dtype = DType(found["dtype"])
    shape = tuple(int(d) for d in found["shape"].split(",") if d)
    tensor = Tensor(_unquoted(found["name"]), shape, dtype, observer=found["observer"] or "")
    tensor.host = _unquoted(found["host"] or "")
    if found["gain"]:
        tensor.gain = tuple(float(g) for g in found["gain"].split(";"))
        tensor.gain_axis = None if found["gain_axis"] is None else int(found["gain_axis"])
    if found["scale"]:
        axis = None if found["axis"] is None else int(found["axis"])
        scale = tuple(float(s) for s in found["scale"].split(";"))
        tensor.quant = QuantParams(DType(found["stored"]) if found["stored"] else dtype, scale, axis)
    assert tensor.name not in tensors, f"{tensor.name} is declared twice"
    tensors[tensor.name] = tensor
    return tensor, text[found.end() :]


def _parse_op(line: str, graph: Graph, tensors: dict[str, Tensor], attrs_of: Mapping[str, type[Attrs]]) -> None:
    outputs = []
    separator, rest = ", ", line
    while separator == ", ":
        tensor, rest = _declare(rest, tensors)
        outputs.append(tensor)
        separator, rest = rest[:2], rest[2:] if rest.startswith(", ") else rest
    call = re.match(r" = (\w+)\(", rest)
    assert call is not None, "not an op"
    kind, rest = call[1], rest[call.end() :]
    inputs: list[Tensor | None] = []
    while (found := _OPERAND.match(rest)) is not None:
        inputs.append(tensors[_unquoted(found[1])] if found[1] else None)
        rest = rest[found.end() :].removeprefix(", ")
    device = re.match(r"\)(?: !(\w+))?", rest)
    assert device is not None, "operands do not end"
    rest = rest[device.end() :]
    fields: dict[str, Any] = {}
    while (found := _FIELD.match(rest)) is not None:
        fields[found[1]], rest = json.loads(found[2]), rest[found.end() :]
    assert rest.startswith(" {"), "no attributes"
    assert rest.endswith("}"), "attributes do not end"
    op = graph.add(
        kind,
        attrs_of[kind](**_keywords(rest[2:-1])),
        inputs,
        outputs,
        name=fields["name"],
        onnx_type=str(fields.get("onnx", kind)),
        origin=tuple(fields.get("origin", ())),
    )
    op.device, op.pin = device[1] or "", fields.get("pin", "")
    op.reason, op.segment = fields.get("reason", ""), fields.get("segment", -1)


def _keywords(text: str) -> dict[str, Any]:
    """``strides=(1, 1), group=1``: Python literals, and nests of attribute classes such as Step(fn='Add', ...)."""
    classes = {c.__name__: c for c in Attrs.__subclasses__()}

    def keywords(call: ast.Call) -> dict[str, Any]:
        return {str(k.arg): build(k.value) for k in call.keywords}

    def build(node: ast.expr) -> Any:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return classes[node.func.id](**keywords(node))
        if isinstance(node, ast.Tuple):
            return tuple(build(e) for e in node.elts)
        if isinstance(node, ast.Name):
            return {"inf": float("inf"), "nan": float("nan")}[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -build(node.operand)
        return ast.literal_eval(node)

    call = ast.parse(f"_({text})", mode="eval").body
    assert isinstance(call, ast.Call), "attributes are no list of keywords"
    return keywords(call)
