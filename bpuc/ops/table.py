"""Table: a chain of element-wise steps on one tensor, carried out by one lookup table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from bpuc.ir import Op
from bpuc.ops.attrs import TableAttrs, UnaryAttrs
from bpuc.ops.base import Array, Behaviour, Exporter, OpDef, Shape
from bpuc.ops.unary import FUNCTIONS, export_unary

BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Max": np.maximum,
    "Min": np.minimum,
    "Pow": np.power,
}


def evaluate(attrs: TableAttrs, x: Array) -> Array:
    """The chain on a float64 array of any shape; NaN or infinite outside the domain of a step."""
    x = np.asarray(x, np.float64)
    done: list[Array] = []
    with np.errstate(all="ignore"):
        for step in attrs.steps:
            args = [x if a == "x" else done[a] if isinstance(a, int) else np.array(a, np.float64) for a in step.args]
            first = args[0]
            result = BINARY[step.fn](first, args[1]) if len(args) == 2 else FUNCTIONS[step.fn](first, dict(step.params))
            done.append(np.broadcast_to(result, x.shape))
    return np.array(done[-1])


def function_of(op: Op) -> Callable[[Array], Array]:
    """What an op that maps values one by one computes, on float64 arrays of any shape."""
    attrs = op.attrs
    if isinstance(attrs, TableAttrs):
        return lambda v: evaluate(attrs, v)
    params = dict(attrs.params) if isinstance(attrs, UnaryAttrs) else {}
    return lambda v: FUNCTIONS[op.kind](v, params)


class Table(OpDef):
    """The last of several steps."""

    kind = "Table"
    attrs = TableAttrs
    behaviour = Behaviour.MAPS

    def infer(self, op: Op) -> list[Shape]:
        return [op.input(0).shape]

    def export(self, op: Op, to: Exporter) -> None:
        x, out = to.operand(op.input(0)), op.out.name
        steps = cast(TableAttrs, op.attrs).steps
        names: list[str] = []
        for index, step in enumerate(steps):
            result = out if index == len(steps) - 1 else to.temp(f"{out}_{step.fn.lower()}")
            args = [
                x if a == "x" else names[a] if isinstance(a, int) else to.const(float(a), f"{out}_c") for a in step.args
            ]
            if len(args) == 2:
                to.node(step.fn, args, [result])
            else:
                export_unary(step.fn, dict(step.params), args[0], result, to)
            names.append(result)

    def facts(self, op: Op) -> dict[str, Any]:
        return {"parts": [step.fn for step in cast(TableAttrs, op.attrs).steps]}


DEFS = (Table(),)
