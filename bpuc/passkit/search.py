"""Which of many changes to keep where only a whole trial tells: by halving, with few trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

# what a change that may cost something may cost a single output, in dB, where nothing else is said
WORST_DB = 0.5

T = TypeVar("T")
Scores = np.ndarray


@dataclass
class Budget:
    """How many scores the searches of one compile may still take."""

    left: int = 1000


def keep_gains(
    items: Sequence[T],
    score: Callable[[list[T]], Scores],
    least: float,
    trials: int,
    *,
    independent: bool = False,
    worst: float = WORST_DB,
    budget: Budget | None = None,
    weight: Callable[[T], float] = lambda _: 1.0,
) -> tuple[list[T], float]:
    """Those items that raise the score, with few trials.

    All are tried at once, then the halves of what did not gain, beside those already kept. Of what was kept, halves
    that are not worth their number are dropped again.

    Args:
        items: most promising first, all different.
        score: of having some of the items; [samples, outputs], higher is better.
        least: what each item has to gain, and more than its own standard error over samples; below 0, what each may
            cost, while no output loses more than `worst`.
        trials: how many scores are taken at most, that of no items aside.
        independent: gains add up, so a group that gains less than one item has to is not looked into.
        budget: of several searches together; with less than two scores left nothing is tried.
        weight: how many times `least` an item has to gain, or may cost.

    Returns:
        the items kept, in their order, and what they gain in the mean.
    """
    budget = budget or Budget()
    trials = min(trials, budget.left - 1)
    if not items or trials < 1:
        return [], 0.0

    def needed(group: list[T]) -> float:
        return least * sum(map(weight, group))

    budget.left -= 1
    start = base = score([])
    kept: list[T] = []
    waiting = [list(items)]
    while waiting and trials > 0:
        group = waiting.pop(0)
        trials, budget.left = trials - 1, budget.left - 1
        both = [i for i in items if i in kept or i in group]
        after = score(both)
        if is_gain(base, after, needed(group), worst):
            kept, base = both, after
        elif not (independent and float((after - base).mean()) < min(needed([i]) for i in group)):
            waiting += reversed(_halves(group))
    waiting = _halves(kept)
    while waiting and trials > 0:
        group = waiting.pop(0)
        trials, budget.left = trials - 1, budget.left - 1
        rest = [i for i in kept if i not in group]
        after = score(rest)
        if float((base - after).mean()) < needed(group):
            kept, base = rest, after
        else:
            waiting += _halves(group)
    return kept, float((base - start).mean())


def _halves(group: list[T]) -> list[list[T]]:
    """The later half first, since it promises less; none of a single item."""
    half = (len(group) + 1) // 2
    return [group[half:], group[:half]] if len(group) > 1 else []


def is_gain(before: Scores, after: Scores, least: float, worst: float = WORST_DB) -> bool:
    """Whether the mean rises by at least `least` and by more than its standard error over samples.

    Where `least` is below 0, a loss is allowed: of that much in the mean, and of `worst` at any one output.
    """
    change = (after - before).mean(1)
    if least < 0:
        return float(change.mean()) >= least and float((after - before).mean(0).min()) >= -worst
    error = float(change.std(ddof=1)) / math.sqrt(len(change)) if len(change) > 1 else 0.0
    return float(change.mean()) >= max(least, error)
