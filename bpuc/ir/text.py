"""The text form of a graph: printed by ``--dump-dir``, read by tests and bug reports.

::

    graph cat_demo stage=quantized
      input %x: int8[1,16,64,64] scale=0.0078
      const %w: int8[16,16,3,3] = @5f0c
      %a: int8[1,16,64,64] scale=0.0113 = Conv(%x, %w, _) {strides=(1, 1) ...} !BPU name="conv_a" origin="conv_a"
      output %a as "y"

Small constants are written out, larger ones by the start of their SHA-256; reading those back needs the arrays.
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
_REF = r'%("(?:[^"\\]|\\.)*"|[A-Za-z0-9_./:\-]+)'
_TYPE = re.compile(rf"{_REF}: (\w+)\[([\d,]*)\](?: scale=(\S+?)(?:@(\d+))?(?= |$))?")


def digest(array: Array) -> str:
    """Name of a constant in the text form."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def print_graph(graph: Graph, stage: str = "") -> str:
    """The graph as text, one op a line in topological order."""
    lines = [f"graph {_name(graph.name)[1:]}" + (f" stage={stage}" if stage else "")]
    lines += [f"  input {_typed(t)}" for t in graph.inputs]
    for tensor in graph.tensors():
        if tensor.const is not None:
            value = tensor.const
            text = json.dumps(value.tolist()) if value.size <= _SMALL else f"@{digest(value)}"
            lines.append(f"  const {_typed(tensor)} = {text}")
    for op in graph:
        args = ", ".join("_" if t is None else _name(t.name) for t in op.inputs)
        attrs = " ".join(
            f"{f.name}={getattr(op.attrs, f.name)!r}".replace(" ", "") for f in dataclasses.fields(op.attrs)
        )
        tail = f" !{op.device}" if op.device else ""
        tail += f" name={json.dumps(op.name)}"
        if op.onnx_type != op.kind:
            tail += f" onnx={op.onnx_type}"
        if op.origin:
            tail += f" origin={json.dumps(list(op.origin), ensure_ascii=False).replace(' ', chr(0xA0))}"
        lines.append(f"  {', '.join(map(_typed, op.outputs))} = {op.kind}({args}) {{{attrs}}}{tail}")
    for tensor, name in zip(graph.outputs, graph.output_names):
        lines.append(f"  output {_name(tensor.name)} as {json.dumps(name, ensure_ascii=False)}")
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
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        try:
            if line.startswith("graph "):
                graph.name = _unquote(line.split(" stage=")[0][6:])
            elif line.startswith("input "):
                tensor = _declare(line[6:], tensors)
                graph.inputs.append(tensor)
            elif line.startswith("const "):
                head, value = line[6:].split(" = ", 1)
                tensor = _declare(head, tensors)
                array = (constants or {})[value[1:]] if value.startswith("@") else np.array(json.loads(value))
                tensor.const = array.astype(tensor.dtype.numpy).reshape(tensor.shape)
            elif line.startswith("output "):
                found = re.fullmatch(rf"output {_REF} as (.+)", line)
                assert found is not None
                graph.outputs.append(tensors[_unquote(found[1])])
                graph.output_names.append(json.loads(found[2]))
            elif line and not line.startswith("#"):
                _parse_op(line, graph, tensors, attrs_of)
        except (AssertionError, KeyError, ValueError, SyntaxError, TypeError) as e:
            raise FileError(f"text form, line {number}: cannot read {line!r} ({type(e).__name__}: {e})") from e
    return graph


def _name(name: str) -> str:
    return "%" + (name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False))


def _unquote(text: str) -> str:
    return str(json.loads(text)) if text.startswith('"') else text


def _typed(t: Tensor) -> str:
    text = f"{_name(t.name)}: {t.dtype}[{','.join(map(str, t.shape))}]"
    if t.quant is not None:
        text += " scale=" + ";".join(map(repr, t.quant.scale))
        text += f"@{t.quant.axis}" if t.quant.axis is not None else ""
    return text


def _declare(text: str, tensors: dict[str, Tensor]) -> Tensor:
    found = _TYPE.fullmatch(text.strip())
    assert found is not None, "not a typed name"
    dtype = DType(found[2])
    shape = tuple(int(d) for d in found[3].split(",") if d)
    tensor = Tensor(_unquote(found[1]), shape, dtype)
    if found[4]:
        axis = None if found[5] is None else int(found[5])
        tensor.quant = QuantParams(dtype, tuple(float(s) for s in found[4].split(";")), axis)
    tensors[tensor.name] = tensor
    return tensor


def _parse_op(line: str, graph: Graph, tensors: dict[str, Tensor], attrs_of: Mapping[str, type[Attrs]]) -> Op:
    found = re.fullmatch(r"(.*?) = (\w+)\((.*?)\) \{(.*)\}(.*)", line)
    assert found is not None, "not an op"
    heads, kind, args, attrs, tail = found.groups()
    outputs = [_declare(m[0], tensors) for m in _TYPE.finditer(heads)]
    inputs = [
        None if m[0] == "_" else tensors[_unquote(m[1])] for m in re.finditer(rf"{_REF}|(?<![^ ,])_(?![^ ,])", args)
    ]
    values: dict[str, Any] = {}
    for item in attrs.split():
        key, value = item.split("=", 1)
        values[key] = _literal(value)
    extra = dict(re.findall(r"(name|onnx|origin)=(\"(?:[^\"\\]|\\.)*\"|\[[^\]]*\]|\S+)", tail))
    op = graph.add(
        kind,
        attrs_of[kind](**values),
        inputs,
        outputs,
        name=_unquote(extra["name"]),
        onnx_type=str(extra.get("onnx", kind)),
        origin=tuple(json.loads(extra["origin"].replace("\xa0", " "))) if "origin" in extra else (),
    )
    device = re.match(r" !(\w+)", tail)
    op.device = device[1] if device else ""
    return op


def _literal(text: str) -> Any:
    """A Python literal, or a nest of attribute classes such as Step(fn='Add',...)."""
    try:
        return ast.literal_eval(text)
    except ValueError:
        from bpuc.ir.types import Attrs as Base

        classes = {c.__name__: c for c in Base.__subclasses__()}

        def build(node: ast.expr) -> Any:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                return classes[node.func.id](**{str(k.arg): build(k.value) for k in node.keywords})
            if isinstance(node, ast.Tuple):
                return tuple(build(e) for e in node.elts)
            return ast.literal_eval(node)

        return build(ast.parse(text, mode="eval").body)
