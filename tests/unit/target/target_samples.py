"""Short ways to write the facts of an operator."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpuc.support.facts import OpFacts, TensorFacts

Shape = tuple[int, ...]


def tensor(shape: Shape, const: Any = False, dtype: str = "float32", name: str = "t") -> TensorFacts:
    """`const`: False, True, or the value of the constant."""
    values = None if isinstance(const, bool) else np.asarray(const)
    return TensorFacts(name, shape, dtype, const is not False, values)


def op(kind: str, *inputs: Shape | TensorFacts, out: Shape | None = None, **attrs: Any) -> OpFacts:
    """A plain tuple is an activation; the output has the first input's shape unless given."""
    facts = tuple(i if isinstance(i, TensorFacts) else tensor(i) for i in inputs)
    return OpFacts("n", kind, facts, (tensor(out if out is not None else facts[0].shape, name="y"),), attrs)


def conv(x: Shape, w: Shape, **attrs: Any) -> OpFacts:
    """A convolution; the spatial size of the output is not computed."""
    return op("Conv", x, tensor(w, True), out=(x[0], w[0], *x[2:]), kernel_shape=w[2:], **attrs)
