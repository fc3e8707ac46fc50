"""The division of ops that is best with calls counted as there are: one for each segment on the BPU.

The cut pays a call for each op on the CPU that the BPU waits for, so where it waits for several at once they keep
neighbours on the CPU that are better off on the BPU. A second cut, for which calls are free, says what these might be;
each region in which the two differ is then judged by its segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from bpuc.passkit.partition import Bill, Problem, bill, partition
from bpuc.passkit.scales import UnionFind
from bpuc.passkit.segments import turns_of


@dataclass(frozen=True)
class Division:
    """A device for each op of a problem whose ops are numbered in topological order."""

    problem: Problem
    on_bpu: Sequence[bool]

    @cached_property
    def calls(self) -> int:
        """Segments on the BPU."""
        turns = turns_of(self.problem.needs, self.on_bpu)
        return len({turn for turn in turns if turn % 2})

    def flipped(self, ops: Iterable[int]) -> Division:
        """The same with these ops on their other device."""
        changed = set(ops)
        return replace(self, on_bpu=[a != (i in changed) for i, a in enumerate(self.on_bpu)])

    def more(self, ops: Sequence[int]) -> Bill:
        """What it would cost more, or less, to have these ops on their other device."""
        other = self.flipped(ops)
        more = bill(self.problem, other.on_bpu, ops) - bill(self.problem, self.on_bpu, ops)
        return replace(more, calls=self.problem.call * (other.calls - self.calls))

    def improved(self, ops: Iterable[int]) -> Division:
        """With those regions of `ops` on their other device that are better there, alone and together."""
        better = [r for r in regions(self.problem, ops) if self.more(r).total < 0]
        together = [i for r in better for i in r]
        return self.flipped(together) if together and self.more(together).total < 0 else self


def divide(problem: Problem) -> Division:
    """The cut, improved where it counts a call more than once."""
    cut, free_calls = partition(problem), partition(replace(problem, call=0))
    division = Division(problem, cut).improved(i for i, (a, b) in enumerate(zip(cut, free_calls)) if a != b)
    return division.improved(i for i, inside in enumerate(division.on_bpu) if not inside and may_move(problem, i))


def may_move(problem: Problem, op: int) -> bool:
    """Whether the op has two devices to choose from."""
    return problem.cpu[op] is not None and problem.bpu[op] is not None


def regions(problem: Problem, ops: Iterable[int]) -> list[list[int]]:
    """The ops in groups that make or read common values, in the order of their first op."""
    chosen = sorted(ops)
    number = {op: i for i, op in enumerate(chosen)}
    sets = UnionFind(len(chosen))
    for value in problem.values:
        members = [number[op] for op in (value.producer, *value.readers) if op in number]
        for other in members[1:]:
            sets.union(members[0], other)
    found: dict[int, list[int]] = {}
    for op in chosen:
        found.setdefault(sets.find(number[op]), []).append(op)
    return list(found.values())
