"""How much noise a coarser scale adds where a tensor is read, measured on a few calibration samples.

For a tensor c and an op that reads it, the op runs in float on c rounded to a scale, and its result is compared with
the one on c itself. The rounding of the op's own result to 8 bits (s^2/12, Bennett 1948) counts as noise that is there
anyway.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bpuc.execute.ort import FloatExecutor, Sessions, run_op
from bpuc.ir import Graph, Op, Tensor

Array = np.ndarray[Any, np.dtype[Any]]
SAMPLES = 2
# larger tensors are not held: their readers fall back to bits lost
MAX_ELEMENTS = 1 << 24


class ReaderNoise:
    """Answers for one graph; keeps the operands and results of the readers in question for a few samples."""

    def __init__(
        self, graph: Graph, samples: Iterable[Mapping[str, Array]], readers: Iterable[Op], threads: int | None
    ):
        self._readers = [op for op in dict.fromkeys(readers) if _small(op)]
        names = dict.fromkeys(t.name for op in self._readers for t in _operands(op))
        names |= dict.fromkeys(op.out.name for op in self._readers)
        executor = FloatExecutor(graph, list(names), threads) if names else None
        self._taps: list[dict[str, Array]] = []
        for number, sample in enumerate(samples):
            if executor is None or number == SAMPLES:
                break
            self._taps.append(dict(executor.run(sample)))
        self._sessions: Sessions = {}
        self._known: dict[tuple[Tensor, Op, float], float] = {}

    def increase_db(self, tensor: Tensor, op: Op, own: float, shared: float, result: float) -> float | None:
        """Noise at the result of `op` when `tensor` has threshold `shared`, over that with `own`, in dB.

        Args:
            result: threshold of the op's result.

        Returns:
            None where the reader was not measured.
        """
        if op not in self._readers or not self._taps:
            return None
        floor = (result / 127) ** 2 / 12
        a, b = (self._error(tensor, op, t) + floor for t in (own, shared))
        return 10 * math.log10(b / a) if a > 0 else 0.0

    def trial(self, op: Op, thresholds: Array, weights: Array) -> float:
        """Squared error of `op` with rounded data and rounded weights, relative to the square of its result.

        Args:
            thresholds: of each channel of the first operand (axis 1, or the last axis of a MatMul).
            weights: in place of the op's own, for the operand times (largest threshold / threshold).
        """
        if op not in self._readers or not self._taps:
            return 0.0
        x = op.input(0)
        axis = x.rank - 1 if op.kind == "MatMul" else 1
        shape = [-1 if a == axis else 1 for a in range(x.rank)]
        top = float(thresholds.max())
        gains = (top / thresholds).reshape(shape)
        other = replace(op, _inputs=[op.inputs[0], _rounded(op, weights), *op.inputs[2:]])
        total = power = 0.0
        for taps in self._taps:
            step = top / 127
            data = taps[x.name] * gains
            feeds = {t.name: taps[t.name] for t in _operands(op)}
            feeds[x.name] = (np.clip(np.floor(data / step + 0.5), -128, 127) * step).astype(np.float32)
            difference = run_op(other, feeds, {})[0].astype(np.float64) - taps[op.out.name]
            total += float(np.square(difference).sum())
            power += float(np.square(taps[op.out.name], dtype=np.float64).sum())
        return total / max(power, 1e-30)

    def _error(self, tensor: Tensor, op: Op, threshold: float) -> float:
        key = (tensor, op, threshold)
        if key not in self._known:
            total = count = 0.0
            for taps in self._taps:
                feeds = {t.name: taps[t.name] for t in _operands(op)}
                step = threshold / 127
                feeds[tensor.name] = (np.clip(np.floor(taps[tensor.name] / step + 0.5), -128, 127) * step).astype(
                    np.float32
                )
                difference = run_op(op, feeds, self._sessions)[0].astype(np.float64) - taps[op.out.name]
                total, count = total + float(np.square(difference).sum()), count + difference.size
            self._known[key] = total / max(count, 1.0)
        return self._known[key]


def _rounded(op: Op, weights: Array) -> Tensor:
    """A weight constant rounded to 8 bits per output channel."""
    axes = (0,) if op.kind == "MatMul" else tuple(range(1, weights.ndim))
    step = np.abs(weights).max(axis=axes, keepdims=True) / 127
    step = np.where(step > 0, step, 1.0)
    values = (np.clip(np.floor(weights / step + 0.5), -127, 127) * step).astype(np.float32)
    return replace(op.input(1), const=values)


def _operands(op: Op) -> list[Tensor]:
    return list(dict.fromkeys(t for t in op.inputs if t is not None and t.const is None))


def _small(op: Op) -> bool:
    tensors = (*_operands(op), *op.outputs)
    return len(op.outputs) == 1 and all(t.dtype.is_float and t.elements <= MAX_ELEMENTS for t in tensors)
