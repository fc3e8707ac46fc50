"""Calls counted as segments: their number, and the division that they lead to."""

from __future__ import annotations

import random
from itertools import product

from bpuc.passkit.division import Division, divide, regions
from bpuc.passkit.partition import Problem, Value, bill, partition
from bpuc.passkit.segments import segments_of
from tests.unit.passkit.test_partition import random_problem


def rounds(p: Problem, on_bpu: tuple[bool, ...]) -> int:
    """BPU runs of a frame by doing it: each device in turn does whatever is ready."""
    needs: dict[int, set[int]] = {i: set() for i in range(len(on_bpu))}
    for v in p.values:
        for r in v.readers if v.producer is not None else ():
            needs[r].add(v.producer)
    done: set[int] = set()
    runs, turn = 0, False
    while len(done) < len(on_bpu):
        ran = False
        while ready := [i for i in needs if i not in done and on_bpu[i] == turn and needs[i] <= done]:
            done |= set(ready)
            ran = True
        runs += ran and turn
        turn = not turn
    return runs


def true_cost(p: Problem, on_bpu: tuple[bool, ...]) -> int:
    free = Problem(p.cpu, p.bpu, p.values)
    return bill(free, on_bpu).total + p.call * rounds(p, on_bpu)


def test_calls_are_the_runs_of_the_bpu():
    for seed in range(200):
        p, r = random_problem(seed), random.Random(seed)
        on_bpu = tuple(r.random() < 0.5 for _ in p.cpu)
        assert Division(p, on_bpu).calls == rounds(p, on_bpu)


def test_segments_follow_one_another():
    #  0 CPU -> 1 BPU -> 2 CPU -> 4 BPU;  3 BPU reads nothing;  5 CPU reads 1 and 3
    needs = [[], [0], [1], [], [2], [1, 3]]
    assert segments_of(needs, [False, True, False, True, True, False]) == [0, 1, 2, 1, 3, 2]
    assert segments_of([[], []], [True, True]) == [0, 0]
    assert segments_of([], []) == []


def test_more_is_the_difference_of_true_costs():
    for seed in range(200):
        p, r = random_problem(seed), random.Random(seed)
        p = Problem([c or 0 for c in p.cpu], [c or 0 for c in p.bpu], p.values, p.call)
        on_bpu = tuple(r.random() < 0.5 for _ in p.cpu)
        ops = [i for i in range(len(on_bpu)) if r.random() < 0.3]
        other = tuple(x != (i in ops) for i, x in enumerate(on_bpu))
        assert Division(p, on_bpu).more(ops).total == true_cost(p, other) - true_cost(p, on_bpu)


def test_never_worse_than_the_cut_and_mostly_the_best_there_is():
    best = 0
    for seed in range(150):
        p = random_problem(seed)
        found = tuple(divide(p).on_bpu)
        allowed = [[d for d, c in ((False, cpu), (True, bpu)) if c is not None] for cpu, bpu in zip(p.cpu, p.bpu)]
        assert all(d in a for d, a in zip(found, allowed)), "an op is where it may not be"
        assert true_cost(p, found) <= true_cost(p, tuple(partition(p)))
        if len(p.cpu) <= 10:
            best += true_cost(p, found) == min(true_cost(p, a) for a in product(*allowed))
    assert best > 98, "of 119; the cut alone has 98"


def test_the_bpu_waits_once_for_two_ops():
    # 0, 1 on the CPU -> 2 free -> 3 on the BPU: op 2 saves 5 there, and a call starts either way
    p = Problem([0, 0, 6, None], [None, None, 1, 0], [Value(0, (2,)), Value(1, (2,)), Value(2, (3,))], call=100)
    assert partition(p) == [False, False, False, True], "the cut counts two calls against one"
    assert divide(p).on_bpu == [False, False, True, True]


def test_regions_hold_together_by_common_values():
    values = [Value(0, (1, 2)), Value(3, (4,)), Value(None, (5, 6))]
    p = Problem([0] * 8, [0] * 8, values)
    assert regions(p, [7, 6, 5, 4, 2, 1]) == [[1, 2], [4], [5, 6], [7]]
