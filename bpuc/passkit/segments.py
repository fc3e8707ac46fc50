"""Segments: runs of ops on one device that need only what stands before them, as few as there can be."""

from __future__ import annotations

from collections.abc import Sequence


def segments_of(needs: Sequence[Sequence[int]], on_bpu: Sequence[bool]) -> list[int]:
    """The segment of each op, numbered from 0 in the order of execution; arguments as of `turns_of`."""
    turns = turns_of(needs, on_bpu)
    number = {turn: i for i, turn in enumerate(sorted(set(turns)))}
    return [number[turn] for turn in turns]


def turns_of(needs: Sequence[Sequence[int]], on_bpu: Sequence[bool]) -> list[int]:
    """The turn of each op, where the CPU has the even ones and the BPU the odd ones.

    In each turn a device does all that can be done by then. So an op is in the earliest turn that it can be in, and no
    order has fewer segments on the BPU.

    Args:
        needs: for each op the ops whose results it reads; ops are numbered in topological order.
        on_bpu: for each op whether it runs on the BPU.
    """
    turns: list[int] = []
    for before, inside in zip(needs, on_bpu, strict=True):
        turn = 0
        for op in before:
            if turns[op] > turn:
                turn = turns[op]
        turns.append(turn if turn % 2 == inside else turn + 1)
    return turns
