"""An op with weights as the quantized model will have it, on a few samples, and the shift of its bias that is best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bpuc.ir import Op

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Function = Callable[[Array], Array]

# places of a sample that errors are taken at
_PLACES = 512
# A shift must leave less than this part of a channel's squared error on samples that it was not found on: less is won
# than its own uncertainty, and that of the ones behind it, may cost.
_WORTH = 0.95


@dataclass
class Layer:
    """Arrays are float32 of the model's shapes, one a sample.

    operands: operand 0 in the unit of the weights, rounded. want: what the float model sums (before a clamp, with bias
    and residual, in the unit of the op's result). got: what the op sums; the visitor keeps it true. again: `got` for
    the op as it is by now. function: what becomes of the sums: the clamp, and the table behind where that is the only
    reader; None where nothing does. axis: of the channels in the result.
    """

    op: Op
    operands: list[Array]
    want: list[Array]
    got: list[Array]
    again: Callable[[], list[Array]]
    function: Function | None
    axis: int

    def along(self, channels: Floats) -> Array:
        """A value a channel, float32, in a shape that broadcasts with the result."""
        shape = [-1 if a == self.axis else 1 for a in range(self.op.out.rank)]
        return np.asarray(channels, np.float32).reshape(shape)

    def error(self, got: list[Array], shift: Floats, first: int = 0) -> float:
        """Sum of squared errors behind the function, over the samples from `first` on."""
        pairs = self._pairs(got)[first:]
        return float(sum(self._squares(self._behind(a), b + np.float32(shift)).sum() for a, b in pairs))

    def shift(self, got: list[Array]) -> Floats:
        """What the bias of each channel should gain, float64 [C].

        The best of no shift and two means: of the error, and of the error weighted by the square of the function's
        slope (the step of Gauss and Newton). Every mean is judged on samples that had no part in it, by the error
        behind the function; one sample alone tells nothing.
        """
        pairs = self._pairs(got)
        best = np.zeros(self.op.out.shape[self.axis])
        if len(pairs) < 2:
            return best
        targets = [self._behind(want) for want, _ in pairs]
        least = _WORTH * sum(self._squares(t, have) for t, (_, have) in zip(targets, pairs))
        for weighted in (False, True) if self.function is not None else (False,):
            sums, counts = (np.array(v) for v in zip(*(self._moments(*p, weighted) for p in pairs)))
            total, count = sums.sum(0), counts.sum(0)
            others = (total - sums) / np.maximum(count - counts, 1e-30)
            error = sum(self._squares(t, have + np.float32(o)) for t, (_, have), o in zip(targets, pairs, others))
            better = error < least
            best = np.where(better, total / np.maximum(count, 1e-30), best)
            least = np.where(better, error, least)
        return best

    def _pairs(self, got: list[Array]) -> list[tuple[Array, Array]]:
        return [(self._thinned(a), self._thinned(b)) for a, b in zip(self.want, got)]

    def _thinned(self, v: Array) -> Array:
        """Places at even distances, [places, channels]."""
        flat = np.moveaxis(v, self.axis, -1).reshape(-1, v.shape[self.axis])
        each = len(flat) // _PLACES
        # an odd distance does not keep to one column of an image
        return np.ascontiguousarray(flat[:: each | 1] if each > 1 else flat)

    def _behind(self, sums: Array) -> Array:
        return sums if self.function is None else self.function(sums)

    @np.errstate(over="ignore", invalid="ignore")  # values near the end of float32: no change is then better
    def _squares(self, target: Array, sums: Array) -> Floats:
        """Squared error of each channel."""
        difference = np.nan_to_num(self._behind(sums) - target)
        return np.asarray(np.square(difference).sum(0, dtype=np.float64))

    @np.errstate(over="ignore", invalid="ignore")
    def _moments(self, want: Array, have: Array, weighted: bool) -> tuple[Floats, Floats]:
        """Sum of weighted errors and of weights, for each channel."""
        difference = want - have
        if not weighted:
            return difference.sum(0, dtype=np.float64), np.full(want.shape[1], float(len(want)))
        quant = self.op.out.quant
        half = np.maximum(np.abs(difference), quant.unit if quant is not None else 0.0) / 2 + np.float32(1e-30)
        middle = (want + have) / 2
        slope = np.nan_to_num((self._behind(middle + half) - self._behind(middle - half)) / (2 * half))
        weight = np.minimum(np.square(slope), np.float32(1e12))
        return (difference * weight).sum(0, dtype=np.float64), weight.sum(0, dtype=np.float64)


Visit = Callable[[Layer], None]
