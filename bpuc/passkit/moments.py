"""What an op computes, as a polynomial in a tensor and its moments: the algebra behind recognising normalizations.

With m the mean of x over some axes, q the mean of x^2, and r = (q - m^2 + eps)^(-1/2) (or (q + eps)^(-1/2)), exporters
write one normalization in many ways: mean((x - m)^2) or q - m^2, Div by Sqrt or Mul by Reciprocal or Pow -0.5, the gain
in r, the offset as bias - m*r*gain. All of them multiply out to the same polynomial, so that is what is compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bpuc.ir import Op, Tensor
from bpuc.ops.attrs import EltwiseAttrs, OnnxAttrs, UnaryAttrs
from bpuc.passkit.rewrite import is_scalar, reduction, scalar

# powers of x, m, q and r
Monomial = tuple[int, int, int, int]
ONE: Monomial = (0, 0, 0, 0)
X: Monomial = (1, 0, 0, 0)
M: Monomial = (0, 1, 0, 0)
Q: Monomial = (0, 0, 1, 0)
MM: Monomial = (0, 2, 0, 0)
# coefficients (float64) broadcast to the shape of x
Polynomial = dict[Monomial, np.ndarray]

# coefficients are made of float32 constants, such as 1/n
_NEAR = 1e-6


@dataclass(frozen=True)
class Root:
    """r = (q - m^2 + eps)^(-1/2) where centered, else (q + eps)^(-1/2)."""

    centered: bool
    epsilon: float


@dataclass
class Moments:
    """Tensors that are polynomials in `x` and its moments over `axes` (sorted, non-negative); `read` ops in order."""

    x: Tensor
    axes: tuple[int, ...]
    root: Root | None = None
    known: dict[Tensor, Polynomial] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.known[self.x] = {X: np.array(1.0)}

    def read(self, op: Op) -> Polynomial | None:
        """What the op gives, kept in `known`; None where it is no such polynomial or its axes do not line up."""
        rule = _RULES.get(op.kind, Moments._reduce if is_moment(op) else None)
        operands = [t for t in op.inputs if t is not None]
        if rule is None or len(op.outputs) != 1 or not any(t in self.known for t in operands):
            return None
        found = rule(self, op)
        if found is not None:
            self.known[op.out] = found
        return found

    # -- shapes
    def aligned(self, shape: tuple[int, ...]) -> bool:
        """Whether elements of this shape meet those of x that they belong to: 1 or all along `axes`, all elsewhere."""
        full = self.x.shape
        padded = (1,) * (len(full) - len(shape)) + shape
        return len(padded) == len(full) and all(
            n == full[i] or (n == 1 and i in self.axes) for i, n in enumerate(padded)
        )

    def _value(self, tensor: Tensor) -> Polynomial | None:
        """A known tensor or a constant (one number where all elements are equal)."""
        if tensor in self.known:
            return self.known[tensor]
        if tensor.const is None or not tensor.dtype.is_float:
            return None
        array = tensor.value().astype(np.float64)
        if array.size and np.all(array == array.flat[0]):
            return {ONE: np.array(array.flat[0])}
        return {ONE: array} if array.ndim <= self.x.rank else None

    def _pair(self, op: Op) -> tuple[Polynomial, Polynomial] | None:
        """The operands of an element-wise op, where all that is known lines up."""
        clamped = isinstance(op.attrs, EltwiseAttrs) and (op.attrs.low is not None or op.attrs.high is not None)
        a, b = (self._value(op.input(i)) for i in (0, 1))
        if clamped or a is None or b is None:
            return None
        shapes = [t.shape for t in (op.input(0), op.input(1)) if t in self.known]
        plain = all(_flat(p) for p in (a, b)) and all(s == op.out.shape for s in shapes)
        return (a, b) if plain or all(self.aligned(s) for s in (*shapes, op.out.shape)) else None

    # -- rules
    def _reduce(self, op: Op) -> Polynomial | None:
        attrs, p = reduction(op), self.known.get(op.input(0))
        if p is None or attrs is None or attrs.axes != self.axes or op.input(0).shape != self.x.shape or not _flat(p):
            return None
        if op.kind == "ReduceMean":
            return _mean(p)
        count = float(math.prod(self.x.shape[a] for a in self.axes))
        sums = _mean(p if op.kind == "ReduceSum" else _product(p, p))
        if sums is None:
            return None
        total = _product(sums, {ONE: np.array(count)})
        return self._power(total, 0.5) if op.onnx_type == "ReduceL2" else total

    def _reshape(self, op: Op) -> Polynomial | None:
        p, before, after = self.known[op.input(0)], op.input(0).shape, op.out.shape
        rows = math.prod(n for i, n in enumerate(self.x.shape) if i not in self.axes)
        # one value for each mean, in the order of the means, whatever the shape
        return p if before == after or (_flat(p) and op.out.elements == rows and _reduced(p)) else None

    def _expand(self, op: Op) -> Polynomial | None:
        lined = self.aligned(op.input(0).shape) and self.aligned(op.out.shape)
        return self.known[op.input(0)] if lined else None

    def _affine(self, op: Op) -> Polynomial | None:
        if not self.aligned(op.input(0).shape):
            return None
        shape = [1] * op.out.rank
        shape[getattr(op.attrs, "axis", 1)] = -1
        gain, bias = ({ONE: op.input(i).value().astype(np.float64).reshape(shape)} for i in (1, 2))
        return _sum(_product(self.known[op.input(0)], gain), bias)

    def _add(self, op: Op) -> Polynomial | None:
        pair = self._pair(op)
        return pair and _sum(*pair)

    def _sub(self, op: Op) -> Polynomial | None:
        pair = self._pair(op)
        return pair and _sum(pair[0], _product(pair[1], {ONE: np.array(-1.0)}))

    def _mul(self, op: Op) -> Polynomial | None:
        pair = self._pair(op)
        return pair and _product(*pair)

    def _div(self, op: Op) -> Polynomial | None:
        pair = self._pair(op)
        inverse = pair and self._power(pair[1], -1.0)
        return _product(pair[0], inverse) if pair and inverse else None

    def _unary(self, op: Op) -> Polynomial | None:
        if op.kind == "Neg":
            return _product(self.known[op.input(0)], {ONE: np.array(-1.0)})
        exponent = op.attrs.get("exponent", 0.0) if isinstance(op.attrs, UnaryAttrs) else 0.0
        return self._power(self.known[op.input(0)], {"Sqrt": 0.5, "Reciprocal": -1.0}.get(op.kind, exponent))

    def _floor(self, op: Op) -> Polynomial | None:
        """Max, Relu, Abs and Clip of a variance that is no lower than their bound."""
        source = next(t for t in op.inputs if t in self.known)
        low, high = 0.0, math.inf
        if op.kind == "Clip" and isinstance(op.attrs, UnaryAttrs):
            low, high = op.attrs.get("min", -math.inf), op.attrs.get("max", math.inf)
        elif op.kind == "Max":
            other = op.input(1) if op.input(0) is source else op.input(0)
            if not is_scalar(other) or op.out.shape != source.shape:
                return None
            low = scalar(other)
        spread = self._spread(self.known[source])
        return self.known[source] if spread and low <= spread[0] * spread[1].epsilon and high == math.inf else None

    def _spread(self, p: Polynomial) -> tuple[float, Root] | None:
        """(factor > 0, root) where p is factor * (variance or mean square + epsilon)."""
        if not _flat(p) or Q not in p or not set(p) <= {ONE, Q, MM} or float(p[Q]) <= 0.0:
            return None
        factor, epsilon = float(p[Q]), float(p.get(ONE, 0.0)) / float(p[Q])
        if epsilon < 0.0 or (MM in p and abs(float(p[MM]) + factor) > _NEAR * factor):
            return None
        return factor, Root(MM in p, epsilon)

    def _power(self, p: Polynomial, exponent: float) -> Polynomial | None:
        if exponent == 2.0:
            return _product(p, p)
        if exponent not in (-1.0, -0.5, 0.5):
            return None
        if len(p) == 1:
            ((x, m, q, r), c) = next(iter(p.items()))
            even = exponent == -1.0 or (r % 2 == 0 and np.all(c > 0.0))
            if (x, m, q) == (0, 0, 0) and even and np.all(c != 0.0):
                return {(0, 0, 0, int(r * exponent)): c**exponent}
        spread = self._spread(p)
        if spread is None or (self.root is not None and self.root != spread[1]):
            return None
        self.root = spread[1]
        return {(0, 0, 0, int(-2 * exponent)): np.array(spread[0] ** exponent)}


REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceSumSquare", "ReduceL2")
_Rule = Callable[[Moments, Op], "Polynomial | None"]
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(REDUCTIONS, Moments._reduce),
    **dict.fromkeys(("Sqrt", "Reciprocal", "Pow", "Neg"), Moments._unary),
    **dict.fromkeys(("Max", "Relu", "Abs", "Clip"), Moments._floor),
    "Reshape": Moments._reshape,
    "Expand": Moments._expand,
    "Affine": Moments._affine,
    "Add": Moments._add,
    "Sub": Moments._sub,
    "Mul": Moments._mul,
    "Div": Moments._div,
}


def is_moment(op: Op) -> bool:
    """Whether the op is a sum or a mean of its operand or of squares, also where the importer left it opaque."""
    return op.kind in REDUCTIONS or (isinstance(op.attrs, OnnxAttrs) and op.onnx_type in REDUCTIONS)


def near(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal but for the rounding of float32 constants."""
    return bool(np.all(np.abs(a - b) <= _NEAR * np.maximum(np.abs(a), np.abs(b))))


def _flat(p: Polynomial) -> bool:
    return all(c.ndim == 0 for c in p.values())


def _reduced(p: Polynomial) -> bool:
    return all(monomial[0] == 0 for monomial in p)


def _sum(a: Polynomial, b: Polynomial) -> Polynomial:
    total = dict(a)
    for monomial, c in b.items():
        old = total.pop(monomial, np.array(0.0))
        if not near(old, -c):
            total[monomial] = np.asarray(old + c)
    return total


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for (x, m, q, r), c in a.items():
        for (x2, m2, q2, r2), d in b.items():
            total = _sum(total, {(x + x2, m + m2, q + q2, r + r2): np.asarray(c * d)})
    return total


def _mean(p: Polynomial) -> Polynomial | None:
    """The mean over the axes, along which all but x is constant; None where it takes a higher moment."""
    total: Polynomial = {}
    for (x, m, q, r), c in p.items():
        if x > 2:
            return None
        total = _sum(total, {(0, m + (x == 1), q + (x == 2), r): c})
    return total
