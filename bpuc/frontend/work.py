"""How much arithmetic a node is: an upper bound from shapes and attributes, before any of it is done."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import NodeProto

from bpuc.base.errors import ModelError
from bpuc.frontend.types import attributes
from bpuc.ir import Tensor

Shape = tuple[int, ...]
LIMIT = 256 << 20  # bytes of one computed constant
FILLED = 512 << 20  # of one that repeats values: needs nothing beside itself, and stands for weights in test models
TOTAL = 640 << 20  # bytes of all of them, beside eight times what the file holds
UNFORESEEN = 64 << 20  # bytes of operands of a node whose results have the size that their values say
FOLDED = 3 * 10**10  # multiply-adds of all computed constants: some seconds
RUN = 10**14  # multiply-adds of one node in one run of the model: hours


@dataclass
class Budget:
    """What the constants of a model may still take; `stored`: bytes of the constants in its file."""

    stored: int = 0
    computed: int = 0
    work: int = 0

    def spend(
        self, node: NodeProto, name: str, inputs: Sequence[Tensor | None], results: Sequence[tuple[Shape, int]]
    ) -> None:
        """Take what a node with constant operands needs.

        Args:
            node: the ONNX node.
            name: how to call it in errors.
            inputs: its operands.
            results: shape and bytes an element of each result, as far as they are known.

        Raises:
            ModelError: it would be a constant of more than 256 MB, or all of them too much memory or time.
        """
        sizes = [math.prod(shape) * itemsize for shape, itemsize in results]
        self.computed += sum(sizes)
        self.work += work(node, inputs, [shape for shape, _ in results])
        limit = FILLED if node.op_type in ("ConstantOfShape", "Expand") else LIMIT
        where, hint = f"node '{name}'", "compute the constants before export, or look for a wrong size in the model"
        if max(sizes, default=0) > limit:
            raise ModelError(
                f"node '{name}' ({node.op_type}) gives a constant of {max(sizes) >> 20} MB",
                where=where,
                want=f"constants up to {limit >> 20} MB",
                hint=hint,
            )
        if self.computed > TOTAL + 8 * self.stored:
            raise ModelError(
                f"the constants up to node '{name}' ({node.op_type}) would have {self.computed >> 20} MB",
                where=where,
                want=f"up to {(TOTAL >> 20)} MB beside eight times what the file holds",
                hint=hint,
            )
        if self.work > FOLDED:
            raise ModelError(
                f"the constants up to node '{name}' ({node.op_type}) take {self.work:.1e} multiply-adds to compute",
                where=where,
                want=f"up to {FOLDED:.0e}",
                hint=hint,
            )


def check_run(node: NodeProto, name: str, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor]) -> None:
    """Refuse a node that no processor finishes.

    Raises:
        ModelError: it takes more than 10^14 multiply-adds.
    """
    need = work(node, inputs, [t.shape for t in outputs])
    if need > RUN:
        raise ModelError(
            f"node '{name}' ({node.op_type}) takes {need:.1e} multiply-adds in one run",
            where=f"node '{name}'",
            want=f"up to {RUN:.0e}",
            hint="look for a wrong size in its attributes or in --input-shape",
        )


def work(node: NodeProto, inputs: Sequence[Tensor | None], outputs: Sequence[Shape]) -> int:
    """Multiply-adds, or comparisons where there are none: at least the elements of operands and results."""
    shapes = [() if t is None else t.shape for t in inputs]
    elements = sum(map(math.prod, shapes)) + sum(map(math.prod, outputs))
    result = math.prod(outputs[0]) if outputs else 0
    count = _COUNTS.get(node.op_type)
    try:
        return elements if count is None else max(elements, count(shapes, result, attributes(node)))
    except (LookupError, TypeError, ValueError):  # operands that do not fit; what computes them says so
        return elements


Count = Callable[[Sequence[Shape], int, Mapping[str, Any]], int]


def _rows(x: int) -> Count:
    return lambda s, result, _: result * s[x][-1]


def _gemm(s: Sequence[Shape], result: int, a: Mapping[str, Any]) -> int:
    return result * s[0][0 if a.get("transA") else 1]


def _conv(w: int) -> Count:
    return lambda s, result, _: result * math.prod(s[w][1:])


def _transposed(s: Sequence[Shape], _: int, __: Mapping[str, Any]) -> int:
    return math.prod(s[0]) * math.prod(s[1][1:])


def _window(_: Sequence[Shape], result: int, a: Mapping[str, Any]) -> int:
    return result * math.prod(map(int, a["kernel_shape"]))


def _recurrent(s: Sequence[Shape], _: int, __: Mapping[str, Any]) -> int:
    return s[0][0] * s[0][1] * (math.prod(s[1]) + math.prod(s[2]))


def _attention(s: Sequence[Shape], _: int, __: Mapping[str, Any]) -> int:
    return 2 * math.prod(s[0]) * s[1][-2]


def _overlaps(s: Sequence[Shape], _: int, __: Mapping[str, Any]) -> int:
    return math.prod(s[1][:2]) * s[0][1] ** 2


def _transform(s: Sequence[Shape], result: int, _: Mapping[str, Any]) -> int:
    return (result + math.prod(s[0])) * max(s[0])


def _regions(_: Sequence[Shape], result: int, a: Mapping[str, Any]) -> int:
    return result * max(1, int(a.get("sampling_ratio", 0))) ** 2


def _einsum(s: Sequence[Shape], result: int, a: Mapping[str, Any]) -> int:
    """Operands are contracted from left to right; letters that nothing behind needs are summed on the way."""
    left, _, right = str(a["equation"]).replace(" ", "").replace(".", "").partition("->")
    terms = left.split(",")
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, s):
        for letter, size in zip(reversed(term), reversed(shape)):
            sizes[letter] = max(size, sizes.get(letter, 1))
    held, total = set(terms[0]), result
    for i, term in enumerate(terms[1:], 2):
        together = held | set(term)
        total += math.prod(sizes[letter] for letter in together)
        held = together & (set(right) | set("".join(terms[i:])))
    return total


_COUNTS: dict[str, Count] = {
    "MatMul": _rows(0),
    "MatMulInteger": _rows(0),
    "QLinearMatMul": _rows(0),
    "Gemm": _gemm,
    "Det": lambda s, _, __: math.prod(s[0]) * s[0][-1],
    "Conv": _conv(1),
    "ConvInteger": _conv(1),
    "QLinearConv": _conv(3),
    "DeformConv": _conv(1),
    "ConvTranspose": _transposed,
    "MaxPool": _window,
    "AveragePool": _window,
    "LpPool": _window,
    "LRN": lambda _, result, a: result * int(a["size"]),
    "RNN": _recurrent,
    "GRU": _recurrent,
    "LSTM": _recurrent,
    "Attention": _attention,
    "NonMaxSuppression": _overlaps,
    "DFT": _transform,
    "RoiAlign": _regions,
    "Einsum": _einsum,
}
