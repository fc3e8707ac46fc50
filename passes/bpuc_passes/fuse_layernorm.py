"""Recognise a LayerNormalization that was exported in pieces.

    d = x - mean(x);  v = mean(d^2), or mean(x^2) - mean(x)^2, at least 0 or not
    d / Sqrt(v + eps);  d * inv;  d * (inv * gain);  x * (inv * gain) + (offset - mean(x) * (inv * gain))

become LayerNormalization(x), with gain 1 and offset 0 where none is among the pieces; those behind it are folded by
fold-affine. A mean is a ReduceMean, or a ReduceSum times 1 / n; `inv` is the reciprocal of the root in any spelling.
Reshape and Expand may stand where a mean without its axes gets them back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from bpuc.base.dtypes import DType
from bpuc.ir import Graph, Op, Tensor
from bpuc.ir.types import Array
from bpuc.ops.attrs import AffineAttrs, EltwiseAttrs, NormAttrs, ReduceAttrs, UnaryAttrs
from bpuc.ops.common import along
from bpuc.passkit import Change, Numerics, Pass, PassContext
from bpuc.passkit.rewrite import before_placing, before_reshapes, fusable, is_scalar, merged_origin, scalar


@dataclass(frozen=True)
class FuseLayerNorm(Pass):
    """Mean, difference, variance and division by its root become one LayerNormalization."""

    name = "fuse-layernorm"
    numerics = Numerics.EXACT

    def run(self, graph: Graph, ctx: PassContext) -> list[Change]:
        changes = []
        for op in graph:
            found = _match(graph, op) if op in graph else None
            if found is None:
                continue
            _replace(graph, op, found)
            what = f"fused {len(found.parts)} ops into LayerNormalization"
            changes.append(Change(what, op.name, "mean and variance"))
        return changes


@dataclass
class _Norm:
    """What has been recognised of one normalization of `x` over `axes`, and the ops that were part of it."""

    graph: Graph
    x: Tensor
    axes: tuple[int, ...] = ()
    epsilon: float = 0.0
    gain: Array | None = None
    offset: Array | None = None
    parts: dict[Op, None] = field(default_factory=dict)

    def made_by(self, tensor: Tensor, *kinds: str) -> Op | None:
        """The producer where it is of one of these kinds; it becomes a part."""
        op = self.graph.producer(tensor)
        if op is None or op.kind not in kinds:
            return None
        self.parts[op] = None
        return op

    def bare(self, tensor: Tensor) -> Tensor:
        """The tensor in front of Reshapes."""
        source, reshapes = before_reshapes(self.graph, tensor)
        self.parts |= dict.fromkeys(reshapes)
        return source

    def statistic(self, tensor: Tensor) -> Tensor | None:
        """One value for all of `axes`, in front of what placed it so; None where it is none."""
        found = before_placing(self.graph, tensor, self.x, self.axes)
        self.parts |= dict.fromkeys(found[1] if found else ())
        return found[0] if found else None

    def averaged(self, tensor: Tensor) -> tuple[Tensor, tuple[int, ...]] | None:
        """(what, over which axes) where the tensor is a mean."""
        op = self.made_by(self.bare(tensor), "ReduceMean", "Mul", "Div")
        if op is None:
            return None
        reduce, factor = op, 1.0
        if op.kind != "ReduceMean":
            side = _scalar_side(op)
            if side is None or (op.kind == "Div" and side == 0):
                return None
            factor = scalar(op.input(side))
            factor = factor if op.kind == "Mul" else 1 / factor if factor else 0.0
            found = self.made_by(self.bare(op.input(1 - side)), "ReduceSum")
            if found is None:
                return None
            reduce = found
        if not isinstance(reduce.attrs, ReduceAttrs):
            return None
        source, axes = reduce.input(0), reduce.attrs.axes
        if reduce.kind == "ReduceSum" and not np.isclose(factor * _count(source, axes), 1.0, rtol=1e-6, atol=0):
            return None
        return source, axes

    def is_mean(self, tensor: Tensor) -> bool:
        """Whether the tensor is the mean of x over the axes; the first such mean says which these are."""
        found = self.averaged(tensor)
        if found is None or found[0] is not self.x:
            return False
        self.axes = self.axes or found[1]
        return found[1] == self.axes

    def is_placed_mean(self, tensor: Tensor) -> bool:
        expand = self.graph.producer(tensor)
        inner = expand.input(0) if expand is not None and expand.kind == "Expand" else tensor
        # the mean has to be known before it can be told whether it is placed well
        return self.is_mean(inner) and self.statistic(tensor) is not None

    def is_difference(self, tensor: Tensor) -> bool:
        op = self.made_by(tensor, "Sub")
        return op is not None and _plain(op) and op.input(0) is self.x and self.is_placed_mean(op.input(1))

    def squared(self, tensor: Tensor) -> Tensor | None:
        """What the tensor is the square of."""
        op = self.made_by(tensor, "Mul", "Pow")
        if op is None:
            return None
        square = _exponent(op) == 2.0 if op.kind == "Pow" else _plain(op) and op.input(0) is op.input(1)
        return op.input(0) if square else None

    def is_variance(self, tensor: Tensor) -> bool:
        tensor = self.bare(tensor)
        at_least = self.made_by(tensor, "Max", "Relu")
        if at_least is not None:
            side = _scalar_side(at_least)
            if at_least.kind == "Max" and (side is None or scalar(at_least.input(side)) != 0.0):
                return False
            tensor = self.bare(at_least.input(0 if side is None else 1 - side))
        sub = self.made_by(tensor, "Sub")
        if sub is not None:
            mean = self.squared(self.bare(sub.input(1)))
            squares = self.averaged(sub.input(0))
            if mean is None or squares is None or not _plain(sub) or sub.input(0).shape != sub.input(1).shape:
                return False
            return self.is_mean(mean) and squares[1] == self.axes and self.squared(squares[0]) is self.x
        found = self.averaged(tensor)
        base = None if found is None else self.squared(found[0])
        return found is not None and base is not None and self.is_difference(base) and found[1] == self.axes

    def is_safe_variance(self, tensor: Tensor) -> bool:
        """Variance plus epsilon."""
        add = self.made_by(self.bare(tensor), "Add")
        side = None if add is None else _scalar_side(add)
        if add is None or side is None or not _plain(add) or not self.is_variance(add.input(1 - side)):
            return False
        self.epsilon = scalar(add.input(side))
        return self.epsilon >= 0

    def is_deviation(self, tensor: Tensor) -> bool:
        op = self.made_by(self.bare(tensor), "Sqrt", "Pow")
        return op is not None and _exponent(op) == 0.5 and self.is_safe_variance(op.input(0))

    def is_inverse(self, tensor: Tensor) -> bool:
        """One through the deviation."""
        op = self.made_by(self.bare(tensor), "Reciprocal", "Div", "Pow", "Sqrt")
        if op is None:
            return False
        if op.kind == "Pow":
            return _exponent(op) == -0.5 and self.is_safe_variance(op.input(0))
        if op.kind == "Sqrt":
            under = self.made_by(self.bare(op.input(0)), "Reciprocal", "Div")
            below = None if under is None else _below_one(under)
            return below is not None and self.is_safe_variance(below)
        below = _below_one(op)
        return below is not None and self.is_deviation(below)

    def is_factor(self, tensor: Tensor) -> bool:
        """The inverse, times a constant gain or not."""
        op = self.graph.producer(tensor)
        scaled = None if op is None else _linear(op)
        if op is not None and scaled is not None and not scaled[2].any() and _fits(scaled[1], self.x):
            self.parts[op] = None
            tensor, self.gain = scaled[0], scaled[1]
        inverse = self.statistic(tensor)
        return inverse is not None and self.is_inverse(inverse)

    def is_shift(self, tensor: Tensor, factor: Tensor) -> bool:
        """A constant offset less mean(x) * factor."""
        op = self.made_by(tensor, "Sub", "Affine")
        shifted = None if op is None else _linear(op)
        if shifted is None or np.any(shifted[1] != -1.0) or not _fits(shifted[2], self.x):
            return False
        self.offset = shifted[2]
        return self.is_scaled_mean(shifted[0], factor)

    def is_scaled_mean(self, tensor: Tensor, factor: Tensor) -> bool:
        op = self.made_by(tensor, "Mul")
        side = next((i for i in (0, 1) if op is not None and op.input(i) is factor), None)
        return op is not None and side is not None and _plain(op) and self.is_placed_mean(op.input(1 - side))

    def closed(self, end: Op) -> bool:
        """Whether nothing else reads what is within, and the user lets the parts be one."""
        within = [t for p in self.parts if p is not end for t in p.outputs]
        alone = all(t not in self.graph.outputs and set(self.graph.consumers(t)) <= set(self.parts) for t in within)
        return alone and fusable(*self.parts)


def _match(graph: Graph, end: Op) -> _Norm | None:
    """The normalization whose last op is `end`."""
    for x, norm_of in _candidates(graph, end):
        norm = _Norm(graph, x, parts={end: None})
        whole = end.out.shape == x.shape and x.dtype is DType.FLOAT32 and x.const is None
        if whole and norm_of(norm) and norm.closed(end):
            order = {op: i for i, op in enumerate(graph)}
            norm.parts = dict.fromkeys(sorted(norm.parts, key=order.__getitem__))
            return norm
    return None


def _candidates(graph: Graph, end: Op) -> Iterator[tuple[Tensor, Callable[[_Norm], bool]]]:
    """What `end` may be the normalization of, and what has to hold then."""
    if end.kind not in ("Div", "Mul", "Add", "Sub") or not _plain(end):
        return
    for side in (0, 1) if end.kind in ("Mul", "Add") else (0,):
        one, other = end.input(side), end.input(1 - side)
        before = graph.producer(one)
        if before is None:
            continue
        if end.kind in ("Div", "Mul") and before.kind == "Sub":
            yield before.input(0), partial(_divided if end.kind == "Div" else _multiplied, one, other)
        elif end.kind in ("Add", "Sub") and before.kind == "Mul" and _plain(before):
            for i in (0, 1):
                yield before.input(i), partial(_shifted, before, end.kind, before.input(1 - i), other)


def _divided(difference: Tensor, deviation: Tensor, norm: _Norm) -> bool:
    if not norm.is_difference(difference):
        return False
    value = norm.statistic(deviation)
    return value is not None and norm.is_deviation(value)


def _multiplied(difference: Tensor, factor: Tensor, norm: _Norm) -> bool:
    return norm.is_difference(difference) and norm.is_factor(factor)


def _shifted(scaled: Op, kind: str, factor: Tensor, shift: Tensor, norm: _Norm) -> bool:
    """x * factor + (offset - mean * factor), or x * factor - mean * factor."""
    norm.parts[scaled] = None
    found = norm.is_shift(shift, factor) if kind == "Add" else norm.is_scaled_mean(shift, factor)
    return found and norm.is_factor(factor)


def _replace(graph: Graph, end: Op, norm: _Norm) -> None:
    """Put one LayerNormalization in the place of all parts."""
    x, out, parts = norm.x, end.out, list(norm.parts)
    shape = tuple(n if a in norm.axes else 1 for a, n in enumerate(x.shape))
    constants = []
    for name, value, neutral in (("gain", norm.gain, 1.0), ("offset", norm.offset, 0.0)):
        array = np.full(shape, neutral, np.float32) if value is None else value
        whole = np.ascontiguousarray(np.broadcast_to(array, np.broadcast_shapes(array.shape, shape)), np.float32)
        constants.append(Tensor(graph.unique(f"{end.name}_{name}"), whole.shape, DType.FLOAT32, whole))
    graph.rebind(end, 0, graph.new_tensor(out, out.name))
    attrs, origin = NormAttrs(norm.axes, norm.epsilon), merged_origin(parts)
    graph.add("LayerNormalization", attrs, [x, *constants], [out], name=end.name, origin=origin, like=end)
    for part in reversed(parts):
        graph.erase(part)


def _linear(op: Op) -> tuple[Tensor, Array, Array] | None:
    """(t, gain, offset) of t * gain + offset with constants."""
    if isinstance(op.attrs, AffineAttrs):
        gain, offset = (along(op.input(i).value(), op.attrs.axis, op.out.rank) for i in (1, 2))
        return op.input(0), gain, offset
    side = next((i for i in (0, 1) if op.maybe(i) is not None and op.input(i).const is not None), None)
    if side is None or not _plain(op):
        return None
    c, t = op.input(side).value(), op.input(1 - side)
    if op.kind == "Mul":
        return t, c, np.zeros_like(c)
    return (t, np.full_like(c, -1.0), c) if op.kind == "Sub" and side == 0 else None


def _plain(op: Op) -> bool:
    return isinstance(op.attrs, EltwiseAttrs) and op.attrs.low is None and op.attrs.high is None


def _scalar_side(op: Op) -> int | None:
    return next((i for i in (0, 1) if is_scalar(op.maybe(i))), None)


def _exponent(op: Op) -> float:
    if op.kind == "Sqrt":
        return 0.5
    return op.attrs.get("exponent", 0.0) if isinstance(op.attrs, UnaryAttrs) else 0.0


def _below_one(op: Op) -> Tensor | None:
    """t of 1 / t."""
    if op.kind == "Reciprocal":
        return op.input(0)
    return op.input(1) if op.kind == "Div" and is_scalar(op.input(0)) and scalar(op.input(0)) == 1.0 else None


def _count(x: Tensor, axes: tuple[int, ...]) -> int:
    return math.prod(x.shape[a] for a in axes)


def _fits(constant: Array, x: Tensor) -> bool:
    """Whether the constant broadcasts to x."""
    return constant.ndim <= x.rank and all(c in (1, n) for c, n in zip(constant.shape[::-1], x.shape[::-1]))
