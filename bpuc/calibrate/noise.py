"""How much noise a coarser scale adds where a tensor is read, measured on a few calibration samples.

For a tensor c and an op that reads it, the op runs in float on c rounded to a scale, and its result is compared with
the one on c itself. The rounding of the op's own result to 8 bits (s^2/12, Bennett 1948) counts as noise that is there
anyway.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnxruntime as ort

from bpuc.execute.ort import FloatExecutor, run_op
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
        self._sessions: dict[Op, ort.InferenceSession] = {}
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


def _operands(op: Op) -> list[Tensor]:
    return list(dict.fromkeys(t for t in op.inputs if t is not None and t.const is None))


def _small(op: Op) -> bool:
    tensors = (*_operands(op), *op.outputs)
    return len(op.outputs) == 1 and all(t.dtype.is_float and t.elements <= MAX_ELEMENTS for t in tensors)
