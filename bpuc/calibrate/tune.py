"""Choose thresholds by what the readers of a tensor make of its rounding and clipping.

An observer looks at a tensor alone. Here every candidate threshold is judged on a sample of rows by the error at the
results of all readers, each relative to its result: through the weights of a convolution (all as if independent),
through the function of a table (what a SiLU maps to nothing needs no range), else as it is. Tensors between which
values only move are one, since they will have one scale. The weights are taken in float, so thresholds do not hang on
one another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bpuc.calibrate.table import TensorRange
from bpuc.ir import Graph, Op, Tensor
from bpuc.observe.rows import Rows
from bpuc.ops.attrs import PReluAttrs
from bpuc.ops.base import Behaviour
from bpuc.ops.registry import get
from bpuc.ops.table import function_of
from bpuc.passkit.channels import channel_axes, read_axis
from bpuc.passkit.scales import moved_together
from bpuc.passkit.weights import by_input, with_weights

Floats = npt.NDArray[np.float64]
# relative squared error at a reader's result, for a threshold
Error = Callable[[float], float]

# candidates: quarters of an octave below and above the observer's threshold
_LOWEST, _HIGHEST, _STEPS = 16, 4, 4
# parts of an octave beside the best candidate, where it is to be found finer
_FINE = (1 / 8, 1 / 16)
# how many candidates in a row may be worse
_PATIENCE = 3
# a candidate must be this much better than the observer's
_WORTH = 0.97
# rows are too few to say how rare the values are that a lower threshold clips
_LEAST_VALUES = 2048
# How much more a clipped value weighs than a rounded one. Rounding errors average out in the sums that follow; clipping
# errors have one sign, so n of them in a sum weigh up to n times more. How many meet is the model's affair: the first
# is the usual one, and errors of the outputs decide whether another is better (`bpuc.flow.contest`).
CLIPPING = (32.0, 4.0, 1.0)
_QMAX = 127


@np.errstate(over="ignore", invalid="ignore")  # values near the end of float32 keep the observer's threshold
def tune_thresholds(
    graph: Graph,
    ranges: Mapping[str, TensorRange],
    rows: Mapping[str, Rows],
    clipping: float = CLIPPING[0],
    fine: bool = False,
) -> dict[str, TensorRange]:
    """The ranges with better int8 thresholds where one was found; their observer is then called "tuned".

    Args:
        clipping: how much more the square of a clipping error weighs than that of a rounding error.
        fine: look between the candidates beside the best, too, at sixteenths of an octave.
    """
    axes = channel_axes(graph)
    found = dict(ranges)
    waiting: list[list[Tensor]] = []
    for group in moved_together(graph):
        known = [t for t in group if t.name in rows and t.name in ranges and ranges[t.name].dtype == "int8"]
        if not known:
            continue
        errors = [e for t in known for e in _readers(graph, t, axes.get(t), rows.get(t.name), clipping)]
        if errors:
            _choose(known, errors, found, fine)
        elif any(op.kind == "Concat" for t in known for op in graph.consumers(t)):
            waiting.append(known)
    for group in reversed(waiting):
        # what only concats read needs no more range than they have
        joined = [op.out.name for t in group for op in graph.consumers(t) if op.kind == "Concat"]
        limit = max((found[n].threshold for n in joined if n in found), default=np.inf)
        _limit(group, limit, found)
    return found


def _choose(group: list[Tensor], errors: list[Error], found: dict[str, TensorRange], fine: bool) -> None:
    """Set the best threshold for a group: down from the observer's, then up, until it gets worse; then in halves."""
    top = max(group, key=lambda t: found[t.name].threshold)
    start = found[top.name].threshold
    largest = max(max(-found[t.name].low, found[t.name].high) for t in group)
    best, least = start, sum(e(start) for e in errors) * _WORTH
    for direction in (-1, 1):
        worse = 0
        for k in range(1, (_LOWEST if direction < 0 else _HIGHEST) + 1):
            t = start * 2.0 ** (direction * k / _STEPS)
            if t >= largest and (direction < 0 or largest <= start):
                continue
            error = sum(e(min(t, largest)) for e in errors)
            if error < least:
                best, least, worse = min(t, largest), error, 0
            else:
                worse += 1
            if worse == _PATIENCE or t >= largest:
                break
    for part in _FINE if fine else ():
        for t in (best * 2.0**-part, min(best * 2.0**part, largest)):
            error = sum(e(t) for e in errors)
            if error < least:
                best, least = t, error
    if best > start:
        found[top.name] = replace(found[top.name], threshold=float(best), observer="tuned")
    else:
        _limit(group, best, found)


def _limit(group: list[Tensor], limit: float, found: dict[str, TensorRange]) -> None:
    for t in group:
        if found[t.name].threshold > limit:
            found[t.name] = replace(found[t.name], threshold=float(limit), observer="tuned")


def _readers(graph: Graph, tensor: Tensor, axis: int | None, sample: Rows | None, clipping: float) -> list[Error]:
    """The error of every reader that computes, relative to the power of its result on the sample."""
    if sample is None or sample.size < _LEAST_VALUES:
        return []
    found: list[Error] = []
    for op, index in graph.uses(tensor):
        behaviour = get(op.kind).behaves(op)
        if behaviour is Behaviour.MOVES:
            continue
        if index == 0 and with_weights(op) and axis == read_axis(op) and sample.shape[1] == tensor.shape[axis]:
            found.append(_linear(sample, _through(op), clipping))
        elif index == 0 and behaviour is Behaviour.MAPS and not isinstance(op.attrs, PReluAttrs):
            found.append(_mapped(sample, function_of(op), clipping))
        elif op.kind == "Mul" and op.inputs[0] is op.inputs[1]:
            found.append(_mapped(sample, np.square, clipping))
        else:
            found.append(_linear(sample, None, clipping))
    if tensor in graph.outputs:
        found.append(_linear(sample, None, clipping))
    return found


def _through(op: Op) -> Floats:
    """Power at the op's results for each channel of its operand, as if channels and taps were independent."""
    w = by_input(op, op.input(1).value()).astype(np.float32)
    return np.asarray(np.einsum("cot,cot->c", w, w), np.float64)


def _linear(sample: Rows, weights: Floats | None, clipping: float) -> Error:
    """Error at a linear reader; weights: of each channel, None where all count alike."""

    def power(squares: Rows) -> float:
        by_channel = squares.sum(0, dtype=np.float64)
        return float(by_channel.sum() if weights is None else (by_channel * weights).sum())

    whole = max(power(np.square(sample)), 1e-30)

    def error(threshold: float) -> float:
        integers, kept = _rounded(sample, threshold)
        squares = np.square(integers * np.float32(threshold / _QMAX) - sample)
        squares[~kept] *= np.float32(clipping)
        return power(squares) / whole

    return error


def _mapped(sample: Rows, function: Callable[[Floats], Floats], clipping: float) -> Error:
    with np.errstate(all="ignore"):
        want = function(sample.astype(np.float64))
    good = np.isfinite(want)
    whole = max(float(np.square(want[good]).sum()), 1e-30)

    def error(threshold: float) -> float:
        integers, kept = _rounded(sample, threshold)
        with np.errstate(all="ignore"):
            table = function(np.arange(-_QMAX - 1, _QMAX + 1, dtype=np.float64) * (threshold / _QMAX))
        got = np.nan_to_num(table, nan=0.0, posinf=1e30, neginf=-1e30)[integers.astype(np.int64) + _QMAX + 1]
        squares = np.square(got - want)
        squares[~kept] *= clipping
        return min(float(squares[good].sum()) / whole, 1e6)

    return error


def _rounded(sample: Rows, threshold: float) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """The integers of the rows, and which were not clipped."""
    integers = np.floor(sample / np.float32(threshold / _QMAX) + np.float32(0.5))
    clipped = np.clip(integers, -_QMAX - 1, _QMAX)
    return clipped, clipped == integers
