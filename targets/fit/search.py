"""Search for hardware numbers by the cross-entropy method: draw many, keep the best, draw around those."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from batch import Numbers, Vector

DRAWN = 96
KEPT = 12
MEMORY = 0.3  # share of the spread that stays from the round before


def evolve(
    loss: Callable[[Numbers], Vector],
    start: Mapping[str, float],
    ranges: Mapping[str, tuple[float, float]],
    choices: Mapping[str, Sequence[float]],
    rounds: int,
    seed: int = 0,
    ties: Mapping[str, tuple[str, float]] = {},
    wide: bool = False,
) -> tuple[dict[str, float], float]:
    """The numbers with the least loss found, and that loss.

    Numbers of `ranges` are drawn from a normal distribution of their logarithms, with all correlations, and cut to the
    range; those of `choices` from weights. Those of `ties` are another number times a factor. All else stays as in
    `start`.

    Args:
        wide: begin in the middle of the ranges and with a quarter of them as spread, whatever `start` says.
    """
    rng = np.random.default_rng(seed)
    names = sorted(ranges)
    low, high = (np.log([ranges[n][i] for n in names]) for i in (0, 1))
    mean = (low + high) / 2 if wide else np.clip(np.log([start[n] for n in names]), low, high)
    spread = np.diag(((high - low) / 4) ** 2 if wide else np.full(len(names), 0.35**2))
    weights = {n: np.ones(len(v)) / len(v) for n, v in choices.items()}
    best, least = dict(start), float("inf")
    for turn in range(rounds):
        drawn = np.clip(rng.multivariate_normal(mean, spread, DRAWN, method="eigh"), low, high)
        picked = {n: rng.choice(len(choices[n]), DRAWN, p=weights[n]) for n in sorted(choices)}
        if turn == 0 and not wide:  # the start is one of them
            drawn[0] = mean
            for n, p in picked.items():
                p[0] = int(np.argmin(np.abs(np.array(choices[n]) - start[n])))
        numbers = {n: np.full(DRAWN, float(v)) for n, v in start.items()}
        numbers |= {n: np.exp(drawn[:, i]) for i, n in enumerate(names)}
        numbers |= {n: np.array(choices[n], float)[p] for n, p in picked.items()}
        numbers |= {n: numbers[other] * times for n, (other, times) in ties.items()}
        values = loss(numbers)
        order = np.argsort(values, kind="stable")[:KEPT]
        if values[order[0]] < least:
            least = float(values[order[0]])
            best = {n: float(v[order[0]]) for n, v in numbers.items()}
        elite = drawn[order]
        center = elite.mean(0)
        spread = MEMORY * spread + (1 - MEMORY) * ((elite - mean).T @ (elite - mean) / KEPT)
        spread += np.diag(np.full(len(names), 1e-6))
        mean = center
        for n, p in picked.items():
            share = np.bincount(p[order], minlength=len(choices[n])) / KEPT
            weights[n] = 0.5 * weights[n] + 0.5 * share
            weights[n] /= weights[n].sum()
    return best, least
