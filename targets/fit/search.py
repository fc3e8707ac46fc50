"""Seeded random descent over hardware numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bpuc.target.hardware import Hardware


def descend(
    loss: Callable[[Hardware], float],
    start: Hardware,
    ranges: dict[str, tuple[float, float]],
    choices: dict[str, tuple[float, ...]],
    steps: int,
    seed: int = 0,
) -> tuple[Hardware, float]:
    """Change a few numbers at a time by random factors and keep what lowers the loss.

    The width of the factors grows with success and shrinks without; at its least it starts wide again, to leave a
    valley.
    """
    rng = np.random.default_rng(seed)
    names = sorted(ranges)
    hw, best, width = start, loss(start), 0.25
    for _ in range(steps):
        few = min(len(names), int(rng.choice([1, 2, 3, len(names)], p=[0.4, 0.25, 0.2, 0.15])))
        changed = {}
        for name in rng.choice(names, few, replace=False):
            low, high = ranges[name]
            factor = math.exp(width * rng.standard_normal() / (1 if few < len(names) else 2))
            changed[str(name)] = min(high, max(low, getattr(hw, name) * factor))
        if choices and rng.random() < 0.15:
            name = sorted(choices)[rng.integers(len(choices))]
            changed[name] = choices[name][rng.integers(len(choices[name]))]
        other = replace(hw, **changed)
        value = loss(other)
        if value < best:
            hw, best, width = other, value, min(0.6, 1.15 * width)
        else:
            width *= 0.985
        if width < 0.02:
            width = 0.25
    return hw, best
