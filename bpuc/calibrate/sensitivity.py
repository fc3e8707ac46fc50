"""How much the outputs suffer when one tensor alone is rounded, measured on a few samples.

The float graph runs once a sample; then, tensor by tensor, what lies behind it runs again with that tensor rounded.
The error of an output is taken channel by channel against the channel's power over all calibration data, at most 1
each, so that scores beside boxes count; the errors of several tensors roughly add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

import numpy as np

from bpuc.base.channels import ChannelStats
from bpuc.execute.ort import FloatExecutor, Sessions, run_op
from bpuc.ir import Graph, Op, QuantParams, Tensor
from bpuc.ops.base import Array
from bpuc.passkit.channels import channel_axes
from bpuc.passkit.scales import moved_together


class OutputError:
    """Compares outputs with those of the float model, whose sample is `want`."""

    def __init__(self, graph: Graph, channels: Mapping[str, ChannelStats]):
        axes = channel_axes(graph)
        self.outputs = [t for t in graph.outputs if t.dtype.is_float and t.const is None]
        self._axis = {t: axes.get(t, _narrowest(t)) for t in self.outputs}
        self._power = {
            t: channels[t.name].square
            for t in self.outputs
            if t.name in channels and channels[t.name].axis == self._axis[t]
        }

    def __call__(self, want: Mapping[str, Array], got: Mapping[str, Array]) -> float:
        """Mean over outputs of the mean over channels of min(1, squared error / power)."""
        found = []
        for t in self.outputs:
            axis = tuple(a for a in range(t.rank) if a != self._axis[t])
            difference = np.nan_to_num(got[t.name].astype(np.float64) - want[t.name], posinf=1e18, neginf=-1e18)
            noise = np.square(difference).mean(axis)
            power = self._power.get(t)
            if power is None:
                power = np.square(want[t.name].astype(np.float64)).mean(axis)
            alive = (power > 0) & np.isfinite(power)
            found.append(float(np.minimum(noise[alive] / power[alive], 1.0).mean()) if alive.any() else 0.0)
        return float(np.mean(found)) if found else 0.0


def _narrowest(t: Tensor) -> int:
    """The smallest axis with more than one index: classes or coordinates rather than places."""
    wide = [a for a in range(t.rank) if t.shape[a] > 1]
    return min(wide, key=lambda a: (t.shape[a], a), default=t.rank - 1)


def measure_sensitivity(
    graph: Graph,
    samples: Iterable[Mapping[str, Array]],
    quants: Mapping[str, QuantParams],
    channels: Mapping[str, ChannelStats],
    count: int,
    threads: int | None = None,
) -> dict[str, float]:
    """Error of the outputs for each group of tensors, rounded alone; under the name of the group's first tensor.

    Tensors that movement and concats tie are rounded together, since they have one type.

    Args:
        graph: in float. quants: scale of a tensor, one or one a channel. channels: statistics of the outputs.
        count: how many samples.
    """
    error = OutputError(graph, channels)
    groups = [[t for t in g if t.name in quants] for g in moved_together(graph, concats=True)]
    groups = [g for g in groups if g]
    behind = [_behind(graph, g) for g in groups]
    executor = FloatExecutor(graph, [t.name for t in graph.tensors() if t.const is None], threads)
    sessions: Sessions = {}
    total = np.zeros(len(groups))
    taken = 0
    for sample in islice(iter(samples), count):
        base = dict(executor.run(sample))
        taken += 1
        for i, group in enumerate(groups):
            # what an op of the group gives is rounded when it runs again
            first = [t for t in group if graph.producer(t) not in behind[i]]
            changed = {t.name: rounded(base[t.name], quants[t.name]) for t in first}
            members = {t.name for t in group}
            for op in behind[i]:
                operands = [t.name for t in op.inputs if t is not None and t.const is None]
                results = run_op(op, {n: changed.get(n, base[n]) for n in operands}, sessions)
                for t, value in zip(op.outputs, results):
                    changed[t.name] = rounded(value, quants[t.name]) if t.name in members else value
            total[i] += error(base, {**base, **changed})
    return {g[0].name: float(v) / max(taken, 1) for g, v in zip(groups, total)}


def _behind(graph: Graph, group: list[Tensor]) -> list[Op]:
    """All ops that depend on a tensor of the group, in order."""
    reached = set(group)
    found = []
    for op in graph:
        if any(x in reached for x in op.inputs):
            found.append(op)
            reached.update(op.outputs)
    return found


def rounded(value: Array, quant: QuantParams) -> Array:
    """What the integers of a tensor with these scales stand for, float32."""
    step = np.asarray(quant.scale, np.float32)
    if quant.axis is not None and step.size > 1:
        step = step.reshape([-1 if a == quant.axis else 1 for a in range(value.ndim)])
    low, high = quant.dtype.qmin, quant.dtype.qmax
    return np.asarray(np.clip(np.floor(value / step + np.float32(0.5)), low, high) * step, np.float32)
