"""Shapes of two operands against each other: broadcast merging and the shape forms of the operator lists."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby


def merged_rank(shapes: Sequence[Sequence[int]], merge_broadcast: bool) -> int:
    """Rank that is left after dropping output axes of size 1 and merging neighbours.

    Neighbours merge where neither is broadcast, and, with `merge_broadcast`, where both are broadcast on the same
    operands. Axes broadcast on different operands never merge, nor does a broadcast axis with one that is not.
    """
    kinds = [k for k, size in broadcast_axes(shapes) if size != 1]
    runs = [(kind, len(list(run))) for kind, run in groupby(kinds)]
    return sum(1 if not kind or merge_broadcast else count for kind, count in runs)


def broadcast_axes(shapes: Sequence[Sequence[int]]) -> list[tuple[frozenset[int], int]]:
    """For each output axis: which operands are broadcast along it, and its size."""
    rank = max(len(s) for s in shapes)
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    axes = []
    for column in zip(*padded, strict=True):
        size = max(column)
        axes.append((frozenset(i for i, n in enumerate(column) if n != size), size))
    return axes


def fits_form(form: str, shapes: Sequence[Sequence[int]]) -> bool:
    """Whether operand shapes have a form such as ``1BMK x 11KN``.

    One letter an axis: ``1`` is an axis of size 1, ``P`` and ``Q`` an axis greater than 1, any other letter an axis
    of any size that is the same wherever the letter stands.
    """
    patterns = form.split(" x ")
    if len(patterns) != len(shapes):
        return False
    sizes: dict[str, int] = {}
    for pattern, shape in zip(patterns, shapes, strict=True):
        if len(pattern) != len(shape):
            return False
        for letter, size in zip(pattern, shape, strict=True):
            if letter == "1" and size != 1:
                return False
            if letter in "PQ" and size < 2:
                return False
            if letter != "1" and sizes.setdefault(letter, size) != size:
                return False
    return True
