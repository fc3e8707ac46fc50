"""What is observed of a graph, and how: fixed before the first sample, the same in every process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bpuc.ir import Graph, Op
from bpuc.observe.registry import make_observer
from bpuc.ops.attrs import AxisAttrs
from bpuc.passkit.channels import channel_axes
from bpuc.passkit.masks import masked_tensors

# samples whose channels are summed up; peaks are those of all
MOMENT_SAMPLES = 32
# ops whose result holds each value of their operands once
_SAME_VALUES = ("Reshape", "Transpose", "DepthToSpace", "SpaceToDepth", "Concat")


@dataclass(frozen=True)
class Plan:
    """The tensors to observe.

    Attributes:
        observers: tensor -> name and options of its observer; all tensors to observe.
        same: tensor -> tensors that hold the very same values together, so that their statistics give its own.
        axes: tensor -> axis and number of its channels.
        joined: of `axes`, tensors whose channels are those of other tensors one after another.
        samples: how many there are.
        rows: whether to sample rows.
        may_mask: whether tensors may be -Inf, as the graph has a constant that is: a mask before a Softmax.
        masked: tensors that such a constant, or a large negative one, is known to hide positions of.
    """

    observers: Mapping[str, tuple[str, Mapping[str, Any]]]
    same: Mapping[str, tuple[str, ...]]
    axes: Mapping[str, tuple[int, int]]
    joined: Mapping[str, tuple[str, ...]]
    samples: int
    rows: bool
    may_mask: bool
    masked: frozenset[str] = frozenset()

    @property
    def taps(self) -> list[str]:
        """Tensors that have to be looked at."""
        direct = {*self.observers} - {*self.same} | {*self.axes} - {*self.joined}
        return [n for n in self.observers if self.rows or n in direct]

    def counts_moments(self, number: int) -> bool:
        """Whether the channels of sample `number` are summed up: MOMENT_SAMPLES of all, evenly."""
        total = max(self.samples, MOMENT_SAMPLES)
        return (number + 1) * MOMENT_SAMPLES // total > number * MOMENT_SAMPLES // total


def make_plan(
    graph: Graph,
    observer: str,
    options: Mapping[str, Any],
    overrides: Mapping[str, tuple[str, Mapping[str, Any]]],
    samples: int,
    rows: bool,
    channels: bool,
) -> Plan:
    """The plan for all tensors of the graph that are marked to be observed.

    Args:
        overrides: tensor -> observer and options of its own.

    Raises:
        ConfigError: an observer or an option does not exist.
    """
    tensors = {t.name: t for t in graph.tensors() if t.observer and t.const is None}
    observers = {n: overrides.get(n, (observer, options)) for n in tensors}
    masked = masked_tensors(graph) & {*tensors}
    axes = {t.name: (a, t.shape[a]) for t, a in channel_axes(graph).items() if t.name in tensors} if channels else {}
    axes = {name: axis for name, axis in axes.items() if name not in masked}
    joins = {n: make_observer(*o).joins for n, o in observers.items()}
    same: dict[str, tuple[str, ...]] = {}
    joined: dict[str, tuple[str, ...]] = {}
    for op in graph:
        parts = _parts(op)
        if not parts or op.out.name not in tensors or any(p not in tensors for p in parts):
            continue
        out = op.out.name
        if masked & {out, *parts}:
            continue
        if all(observers[p] == observers[out] and joins[p] for p in parts):
            same[out] = parts
        if isinstance(op.attrs, AxisAttrs) and all(n in axes and axes[n][0] == op.attrs.axis for n in (out, *parts)):
            joined[out] = parts
    floats = (t.const for t in graph.tensors() if t.const is not None and t.dtype.is_float and t.elements)
    may_mask = any(np.isneginf(array.min()) for array in floats)
    return Plan(observers, same, axes, joined, samples, rows, may_mask, masked)


def _parts(op: Op) -> tuple[str, ...]:
    """Operands of an op whose result holds each of their values once; nothing for other ops."""
    operands = [t for t in op.inputs if t is not None]
    if op.kind not in _SAME_VALUES or any(t.const is not None for t in operands):
        return ()
    return tuple(t.name for t in operands) if sum(t.elements for t in operands) == op.out.elements else ()
