"""Which tensors are asked to be int8 or int16: --dtype, node_info, the qconfig and its templates."""

from __future__ import annotations

from collections.abc import Callable, Collection

from bpuc.base.errors import ConfigError, name_hint
from bpuc.config import NodeDtype
from bpuc.ir import Graph, Op, Tensor
from bpuc.passkit.context import PassContext
from bpuc.passkit.qconfig import of_op, of_result

_KNOWN = ("int8", "int16")
_GEMM_LIKE = ("Conv", "ConvTranspose", "MatMul")
Warn = Callable[[str, str, str], None]


def matching(graph: Graph, word: str) -> list[Op]:
    """Ops that the word names: by ONNX node, else by op type."""
    by_name = [op for op in graph if op.name == word or word in op.origin]
    return by_name or [op for op in graph if word in (op.onnx_type, op.kind)]


def asked_dtypes(graph: Graph, ctx: PassContext, quantized: Collection[Tensor], warn: Warn) -> dict[Tensor, str]:
    """Type asked for each of the `quantized` tensors.

    A tensor's name wins over a node's, a node's over an op type's; --dtype over node_info, that over the qconfig.

    Raises:
        ConfigError: a name matches nothing, or a type is none.
    """
    found: dict[Tensor, tuple[int, str]] = {}
    _by_option(graph, ctx, quantized, warn, found)
    for wish in ctx.options.node_dtypes:
        ops = matching(graph, wish.node)
        if not ops and wish.node not in ctx.fused and wish.node not in ctx.known_types:
            known = sorted({n for op in graph for n in (op.name, op.onnx_type)})
            raise ConfigError(f"{wish.node}: no node and no op type of that name", hint=name_hint(wish.node, known))
        for op in ops:
            rank = 1 if wish.node in (op.name, *op.origin) else 0
            for tensor in _side(op, wish):
                if tensor in quantized and found.get(tensor, (-1, ""))[0] <= rank:
                    found[tensor] = (rank, wish.dtype)
    for tensor in quantized:
        rule = of_result(ctx.matches, graph, tensor, "output")
        readers = [of_op(ctx.matches, op, "input") for op in graph.consumers(tensor)]
        types = [rule.output] if rule is not None else []
        types += [r.input for r in readers if r is not None]
        if types and tensor not in found and tensor.const is None:
            found[tensor] = (0, "int16" if "int16" in types else "int8")
    if ctx.options.output_dtype is not None:
        for tensor in graph.outputs:
            if tensor in quantized:
                found.setdefault(tensor, (0, ctx.options.output_dtype))
    return {t: dtype for t, (_, dtype) in found.items()}


def _by_option(
    graph: Graph, ctx: PassContext, quantized: Collection[Tensor], warn: Warn, found: dict[Tensor, tuple[int, str]]
) -> None:
    tensors = {t.name: t for t in graph.tensors()}
    for word, dtype in {**ctx.calibrated_dtypes, **ctx.options.dtypes}.items():
        if dtype not in _KNOWN:
            raise ConfigError(f"--dtype {word}={dtype}: no such type for activations", want="int8 or int16")
        if word in tensors:
            hits, rank = [tensors[word]], 2
            if tensors[word].const is not None and tensors[word] not in quantized:
                warn("dtype", f"--dtype {word}={dtype}: {word} is a weight; weights stay int8", word)
                continue
        else:
            ops = matching(graph, word)
            if not ops:
                if word in ctx.fused:
                    warn("dtype", f"--dtype {word}={dtype}: {word} was fused away and has no value of its own", word)
                    continue
                known = [*tensors, *(op.name for op in graph), *(op.onnx_type for op in graph)]
                raise ConfigError(
                    f"--dtype {word}={dtype}: no tensor, node or op type of that name", hint=name_hint(word, known)
                )
            named = word in {n for op in ops for n in op.origin}
            hits, rank = [t for op in ops for t in op.outputs], 1 if named else 0
        for tensor in hits:
            if tensor in quantized and found.get(tensor, (-1, ""))[0] < rank:
                found[tensor] = (rank, dtype)


def _side(op: Op, wish: NodeDtype) -> list[Tensor]:
    if wish.side == "output":
        return list(op.outputs)
    return [t for i, t in enumerate(op.inputs) if t is not None and t.const is None and wish.index in (None, i)]


def template_int16(graph: Graph, ctx: PassContext, quantized: Collection[Tensor]) -> dict[Tensor, None]:
    """What the template has in int16: everything, or from the grid of every GridSample back to where it is computed.

    The way back ends with the result of the first Conv, ConvTranspose or MatMul, or with an input of the model: a grid
    holds places, and an error of one step in 127 is a pixel in a row of 128.
    """
    if ctx.options.template == "int16":
        return dict.fromkeys(t for t in quantized if t.const is None)
    found: dict[Tensor, None] = {}
    todo = [op.input(1) for op in graph if op.onnx_type == "GridSample" and len(op.inputs) > 1]
    while todo:
        tensor = todo.pop()
        if tensor.const is not None or tensor in found:
            continue
        found[tensor] = None
        op = graph.producer(tensor)
        if op is not None and op.kind not in _GEMM_LIKE:
            todo += [t for t in op.inputs if t is not None and t.dtype.is_float]
    return {t: None for t in found if t in quantized}
