"""How many values of a tensor lie beyond a magnitude: a histogram thinned out, with counts that stay exact.

Edges are those of the histogram's bins, close together where few values lie beyond: the number beyond an edge is at
most a twentieth above that beyond the next one, or one bin apart, as it is at the threshold that an observer chose. So
any threshold has two exact counts around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bpuc.base.errors import ConfigError

GROWTH = 1.05
NEAR = 1e-6  # a threshold may have lost that much in float32


@dataclass(frozen=True)
class Tail:
    """Of one tensor.

    Attributes:
        edges: magnitudes, falling. counts: how many values have that magnitude or more, at each edge.
        total: of values counted. peak: the largest magnitude. sampling: one value in so many was counted.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    total: int
    peak: float
    sampling: int = 1

    @classmethod
    def of(
        cls,
        edges: npt.NDArray[np.float64],
        counts: npt.NDArray[np.int64],
        peak: float,
        sampling: int = 1,
        near: float | None = None,
    ) -> Tail:
        """From a histogram: rising lower edges of its bins, and the counts in them.

        Args:
            near: a threshold, around which no edge is left out.
        """
        beyond = np.cumsum(counts[::-1])
        total = int(beyond[-1]) if beyond.size else 0
        if not total:
            return cls((), (), 0, peak, sampling)
        levels = [1.0]
        while levels[-1] < total:
            levels.append(max(levels[-1] * GROWTH, levels[-1] + 1))
        chosen = np.searchsorted(beyond, np.minimum(levels, total))
        if near is not None:
            at = edges.size - int(np.searchsorted(edges, near * (1 + NEAR), side="right"))
            chosen = np.append(chosen, np.clip([at - 1, at], 0, edges.size - 1))
        chosen = np.unique(chosen)
        chosen = chosen[beyond[chosen] > 0]
        return cls(tuple(edges[::-1][chosen].tolist()), tuple(beyond[chosen].tolist()), total, peak, sampling)

    def beyond(self, threshold: float) -> tuple[int, int]:
        """Least and greatest number of values (of those counted) whose magnitude is above the threshold."""
        threshold *= 1 + NEAR
        if threshold >= self.peak:
            return 0, 0
        surely = sum(e > threshold for e in self.edges)  # of the first edges; the one behind them may be
        least = self.counts[surely - 1] if surely else 0
        return least, self.counts[surely] if surely < len(self.counts) else self.total

    def to_text(self) -> dict[str, Any]:
        """For the calibration file."""
        edges, counts = " ".join(f"{v:.9g}" for v in self.edges), " ".join(map(str, self.counts))
        return {"of": self.total, "peak": self.peak, "sampling": self.sampling, "edges": edges, "counts": counts}

    @classmethod
    def from_text(cls, entry: Mapping[str, Any]) -> Tail:
        """The inverse of `to_text`.

        Raises:
            ConfigError: it holds what is no such table.
        """
        try:
            edges = tuple(float(e) for e in str(entry["edges"]).split())
            counts = tuple(int(c) for c in str(entry["counts"]).split())
            total, peak, sampling = int(entry["of"]), float(entry["peak"]), int(entry["sampling"])
        except (KeyError, ValueError, TypeError, OverflowError) as e:
            raise ConfigError(f"counts of large values cannot be read: {e}") from e
        if (
            len(edges) != len(counts)
            or not np.isfinite([*edges, peak]).all()
            or [0, *counts] != sorted([0, *counts])
            or max([0, *counts]) > total
        ):
            raise ConfigError("counts of large values do not fit together")
        return cls(edges, counts, total, peak, sampling)
