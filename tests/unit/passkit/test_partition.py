"""The cut against the cheapest of all assignments, its fixed points, and its independence of numbering."""

from __future__ import annotations

import random
from itertools import product

import pytest

from bpuc.passkit.partition import Problem, Value, bill, partition


def price(p: Problem, on_bpu: tuple[bool, ...]) -> int | None:
    """The cost model in words: None where an op is on a device that it may not use."""
    total = 0
    for cpu, bpu, inside in zip(p.cpu, p.bpu, on_bpu):
        own = bpu if inside else cpu
        if own is None:
            return None
        total += own
    entered = set()
    for v in p.values:
        made_inside = v.producer is not None and on_bpu[v.producer]
        read_inside = any(on_bpu[r] for r in v.readers)
        read_outside = v.output or any(not on_bpu[r] for r in v.readers)
        if made_inside and read_outside:
            total += v.to_cpu
        if not made_inside and read_inside:
            total += v.to_bpu
            entered |= {v.producer} - {None}
    return total + len(entered) * p.call


def cheapest(p: Problem) -> tuple[int, tuple[bool, ...]]:
    """Over all assignments: the least cost, and of those that have it the one with most ops on the BPU."""
    best = None
    for on_bpu in product((False, True), repeat=len(p.cpu)):
        cost = price(p, on_bpu)
        if cost is not None and (best is None or (cost, -sum(on_bpu)) < (best[0], -sum(best[1]))):
            best = cost, on_bpu
    assert best is not None
    return best


def random_problem(seed: int) -> Problem:
    """Up to 14 ops; small integers, so that ties happen."""
    r = random.Random(seed)
    n = r.randint(1, 14)
    cpu: list[int | None] = []
    bpu: list[int | None] = []
    for _ in range(n):
        fate = r.random()
        cpu.append(None if fate < 0.15 else r.randint(0, 12))
        bpu.append(None if fate > 0.85 else r.randint(0, 12))
    values = []
    for maker in [None, None, *range(n)]:
        for _ in range(1 if r.random() < 0.8 else 2):
            later = range(0 if maker is None else maker + 1, n)
            readers = tuple(sorted(r.sample(later, min(len(later), r.choice((0, 1, 1, 2, 3))))))
            values.append(Value(maker, readers, r.random() < 0.1, r.randint(0, 9), r.randint(0, 9)))
    return Problem(cpu, bpu, values, r.choice((0, 1, 5, 20)))


@pytest.mark.parametrize("block", range(10))
def test_the_cut_is_the_cheapest_of_all_assignments(block):
    for seed in range(20 * block, 20 * block + 20):
        p = random_problem(seed)
        cost, assignment = cheapest(p)
        found = tuple(partition(p))
        assert price(p, found) == cost, seed
        assert found == assignment, f"seed {seed}: of equals the one with most ops on the BPU"


def test_the_bill_adds_up_and_a_part_of_it_tells_the_difference():
    for seed in range(200):
        p, r = random_problem(seed), random.Random(seed)
        a = tuple(r.random() < 0.5 for _ in p.cpu)
        ops = [i for i in range(len(a)) if r.random() < 0.4]
        b = tuple(x != (i in ops) for i, x in enumerate(a))
        free = Problem([c or 0 for c in p.cpu], [c or 0 for c in p.bpu], p.values, p.call)
        assert bill(free, a).total == price(free, a)
        assert (bill(free, b, ops) - bill(free, a, ops)).total == price(free, b) - price(free, a)


def test_numbers_and_order_do_not_matter():
    for seed in range(60):
        p, r = random_problem(seed), random.Random(seed)
        n = len(p.cpu)
        new = r.sample(range(n), n)
        old = [new.index(i) for i in range(n)]
        values = [
            Value(
                None if v.producer is None else new[v.producer],
                tuple(r.sample([new[i] for i in v.readers], len(v.readers))),
                v.output,
                v.to_bpu,
                v.to_cpu,
            )
            for v in r.sample(p.values, len(p.values))
        ]
        q = Problem([p.cpu[i] for i in old], [p.bpu[i] for i in old], values, p.call)
        there = partition(q)
        assert [there[new[i]] for i in range(n)] == partition(p)


def test_one_conversion_for_all_readers():
    # a BPU op read by three free ops; each alone would save 4 on the CPU, the one conversion costs 10
    readers = (1, 2, 3)
    p = Problem([None, 1, 1, 1], [0, 5, 5, 5], [Value(0, readers, to_cpu=10)])
    assert partition(p) == [True, False, False, False]
    # counted once a reader it would not pay
    apart = Problem([None, 1, 1, 1], [0, 5, 5, 5], [Value(0, (i,), to_cpu=10) for i in readers])
    assert partition(apart) == [True] * 4


def test_one_call_for_all_values_of_a_cpu_op():
    values = [Value(0, (1,)), Value(0, (2,))]
    assert partition(Problem([0, 7, 7], [None, 1, 1], values, call=10)) == [False, True, True]
    assert partition(Problem([0, 7, 7], [None, 1, 1], values, call=13)) == [False, False, False]


def test_ports_are_on_the_cpu():
    ports = [Value(None, (0,), to_bpu=3), Value(0, (), output=True, to_cpu=4)]
    assert partition(Problem([8], [2], ports)) == [False]
    assert partition(Problem([9], [2], ports)) == [True], "a tie is the BPU's"


def test_fixed_ops_stay_whatever_it_costs():
    p = Problem([None, 0, None], [10**9, None, 10**9], [Value(0, (1,), to_cpu=10**9), Value(1, (2,), to_bpu=10**9)])
    assert partition(p) == [True, False, True]


def test_an_op_without_any_place_is_refused():
    with pytest.raises(ValueError, match="op 1 may run nowhere"):
        partition(Problem([0, None], [0, None], []))


def test_no_ops():
    assert partition(Problem([], [], [])) == []
