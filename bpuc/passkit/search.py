"""Which of many changes to keep where only a whole trial tells: by halving, with few trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")
Scores = np.ndarray


def keep_gains(
    items: Sequence[T],
    score: Callable[[list[T]], Scores],
    least: float,
    trials: int,
    base: Scores | None = None,
) -> tuple[list[T], float]:
    """Those items that raise the score, tried all at once, then the halves of what did not, beside those already kept.

    Args:
        items: most promising first.
        score: of having some of the items; [samples, outputs], higher is better.
        least: gain below which nothing is kept; a gain must also exceed its own standard error over samples.
        trials: how many scores are taken at most.
        base: score of having none, where that is known.

    Returns:
        the items kept, in their order, and what they gain in the mean.
    """
    if not items:
        return [], 0.0
    start = base = score([]) if base is None else base
    kept: list[T] = []
    waiting = [list(items)]
    while waiting and trials > 0:
        group = waiting.pop(0)
        trials -= 1
        after = score([i for i in items if i in kept or i in group])
        if is_gain(base, after, least):
            kept, base = [i for i in items if i in kept or i in group], after
        elif len(group) > 1:
            half = (len(group) + 1) // 2
            waiting += [group[:half], group[half:]]
    return kept, float((base - start).mean())


def is_gain(before: Scores, after: Scores, least: float) -> bool:
    """Whether the mean rises by at least `least` and by more than its standard error over samples."""
    change = (after - before).mean(1)
    error = float(change.std(ddof=1)) / math.sqrt(len(change)) if len(change) > 1 else 0.0
    return float(change.mean()) >= max(least, error)
