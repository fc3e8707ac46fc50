"""Operators made of others: the facts of each part, so that the part's own rules can judge it."""

from __future__ import annotations

from dataclasses import replace

from bpuc.support.facts import OpFacts, TensorFacts
from bpuc.support.views import main_shape
from bpuc.target.model import OpRule

_BINARY = {"Add", "Sub", "Mul", "Div", "Max", "Min"}


def chain_parts(rule: OpRule, facts: OpFacts) -> list[OpFacts]:
    """The parts of a ``Table`` that must be judged by their own rules.

    In a chain of two or more, the operators listed by the table's rule are free: the table holds their result,
    whatever the march does with them alone. A table of one operator is that operator.
    """
    names = [str(p) for p in facts.attrs.get("parts", ())]
    free = rule.parts if len(names) > 1 else ()
    return [_elementwise(facts, n) for n in dict.fromkeys(names) if n not in free]


def part_facts(rule: OpRule, facts: OpFacts) -> list[OpFacts]:
    """The parts of a composite operator with the shapes that they get.

    In a normalization the mean is taken over the normalized axes and the arithmetic is between the input and that mean.
    """
    axes = _normalized_axes(facts)
    if axes is None:
        return [_elementwise(facts, n) for n in rule.parts]
    shape = main_shape(facts)
    small = tuple(1 if i in axes else n for i, n in enumerate(shape))
    x, mean = TensorFacts("input", shape), TensorFacts("mean", small)
    parts = []
    for name in rule.parts:
        if name.startswith("Reduce"):
            parts.append(OpFacts(facts.name, name, (x,), (mean,), {"axes": axes, "keepdims": 1}))
        elif name in _BINARY:
            parts.append(OpFacts(facts.name, name, (x, mean), (x,)))
        else:
            parts.append(OpFacts(facts.name, name, (mean,), (mean,)))
    return parts


def _normalized_axes(facts: OpFacts) -> tuple[int, ...] | None:
    rank = len(main_shape(facts))
    if facts.op_type.endswith("Normalization") and "axes" in facts.attrs:
        return tuple(int(a) % rank for a in facts.attrs["axes"])
    if facts.op_type == "LayerNormalization":
        axis = int(facts.attrs.get("axis", -1))
        return tuple(range(axis + rank if axis < 0 else axis, rank))
    return tuple(range(2, rank)) if facts.op_type == "InstanceNormalization" else None


def _elementwise(facts: OpFacts, name: str) -> OpFacts:
    """`name` on the same tensor: a unary operator, or a binary one between two activations of this shape."""
    x = replace((facts.activations or facts.outputs)[0], constant=False)
    return OpFacts(facts.name, name, (x, x) if name in _BINARY else (x,), facts.outputs)
