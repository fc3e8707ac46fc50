"""A float graph in which the rounding of every tensor and of every op's weights can be switched on and off."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

import numpy as np

from bpuc.calibrate.sensitivity import rounded
from bpuc.execute.ort import Sessions, run_op
from bpuc.ir import Graph, Op, QuantParams
from bpuc.ops.base import Array
from bpuc.passkit.weights import rounded_weights

Values = Mapping[str, Array]


@dataclass(frozen=True)
class Switch:
    """What is rounded together: tensors by name, and the weights of ops by the name of the op."""

    tensors: frozenset[str] = frozenset()
    weights: frozenset[str] = frozenset()

    def __or__(self, other: Switch) -> Switch:
        return Switch(self.tensors | other.tensors, self.weights | other.weights)

    def __sub__(self, other: Switch) -> Switch:
        return Switch(self.tensors - other.tensors, self.weights - other.weights)


@dataclass
class SwitchedGraph:
    """Runs a graph with some roundings on.

    Args:
        graph: in float. quants: scales of tensors. weights: scales of weights, by the name of the op.
    """

    graph: Graph
    quants: Mapping[str, QuantParams]
    weights: Mapping[str, QuantParams]
    _sessions: Sessions = field(default_factory=dict)
    _rounded: dict[str, Op] = field(default_factory=dict)

    def run(self, inputs: Values, on: Switch) -> dict[str, Array]:
        """All tensors of one sample; `inputs` as the graph takes them."""
        return self._run(inputs, on, None, Switch())

    def again(self, inputs: Values, on: Switch, base: Values, base_on: Switch) -> dict[str, Array]:
        """As `run`, but only ops that see a difference run again.

        Args:
            base: what `run` gave with `base_on`.
        """
        return {**base, **self._run(inputs, on, base, base_on)}

    def _run(self, inputs: Values, on: Switch, base: Values | None, base_on: Switch) -> dict[str, Array]:
        switched = {*(on.tensors ^ base_on.tensors)}
        changed: dict[str, Array] = {}
        for t in self.graph.inputs:
            if base is None or t.name in switched:
                changed[t.name] = self._stored(t.name, np.asarray(inputs[t.name]), on.tensors)
        before = base or {}
        for op in self.graph:
            operands = [t.name for t in op.inputs if t is not None and t.const is None]
            other = op.name in (on.weights ^ base_on.weights) or any(t.name in switched for t in op.outputs)
            if base is not None and not other and not any(n in changed for n in operands):
                continue
            feeds = {n: changed[n] if n in changed else before[n] for n in operands}
            results = run_op(self._with_weights(op) if op.name in on.weights else op, feeds, self._sessions)
            for t, value in zip(op.outputs, results):
                changed[t.name] = self._stored(t.name, value, on.tensors)
        return changed

    def _stored(self, name: str, value: Array, on: Set[str]) -> Array:
        return rounded(value, self.quants[name]) if name in on else value

    def _with_weights(self, op: Op) -> Op:
        if op.name not in self._rounded:
            scaled = replace(op.input(1), quant=self.weights[op.name])
            twin = replace(op, _inputs=[op.inputs[0], scaled, *op.inputs[2:]])
            values = replace(scaled, const=rounded_weights(twin).astype(np.float32))
            self._rounded[op.name] = replace(op, _inputs=[op.inputs[0], values, *op.inputs[2:]])
        return self._rounded[op.name]
