"""Searching for changes that pay, with made-up scores."""

import numpy as np
import pytest

from bpuc.passkit.search import Budget, is_gain, keep_gains

SAMPLES = 4


class Scored:
    """Scores whose gains add up, each item with its own; counts how often it is asked."""

    def __init__(self, **gains: float):
        self.gains, self.asked = gains, 0

    def __call__(self, items: list[str]) -> np.ndarray:
        self.asked += 1
        return np.full((SAMPLES, 2), 30 + sum(self.gains[i] for i in items))


def test_keeps_all_in_one_trial_and_looks_for_what_to_drop() -> None:
    scored = Scored(a=1, b=1, c=1)
    assert keep_gains(list("abc"), scored, 0.1, 20) == (list("abc"), pytest.approx(3))


def test_finds_the_one_that_gains_among_those_that_lose() -> None:
    scored = Scored(a=-1, b=-1, c=2, d=-1, e=-1)
    assert keep_gains(list("abcde"), scored, 0.1, 20) == (["c"], pytest.approx(2))


def test_drops_what_came_along() -> None:
    scored = Scored(a=2, b=0.01, c=0, d=0.02)
    assert keep_gains(list("abcd"), scored, 0.1, 20) == (["a"], pytest.approx(2))


def test_independent_items_that_gain_nothing_together_cost_two_scores() -> None:
    scored = Scored(a=0.02, b=0.02, c=0.01)
    assert keep_gains(list("abc"), scored, 0.1, 20, independent=True) == ([], 0.0)
    assert scored.asked == 2


def test_takes_no_more_trials_than_allowed() -> None:
    scored = Scored(**dict.fromkeys("abcdefgh", -1))
    assert keep_gains(list("abcdefgh"), scored, 0.1, 5) == ([], 0.0)
    assert scored.asked == 6


def test_searches_share_a_budget() -> None:
    scored, budget = Scored(**dict.fromkeys("abcdefgh", -1)), Budget(7)
    keep_gains(list("abcd"), scored, 0.1, 4, budget=budget)
    assert (scored.asked, budget.left) == (5, 2)
    keep_gains(list("abcd"), scored, 0.1, 4, budget=budget)
    assert (scored.asked, budget.left) == (7, 0)
    assert keep_gains(list("abcd"), scored, 0.1, 4, budget=budget) == ([], 0.0)
    assert scored.asked == 7


def test_nothing_to_try_asks_nothing() -> None:
    scored = Scored()
    assert keep_gains([], scored, 0.1, 5) == ([], 0.0)
    assert scored.asked == 0


def test_a_gain_must_exceed_its_standard_error() -> None:
    before = np.zeros((4, 1))
    # mean 0.5, standard error 0.51
    noisy = np.array([[-0.5], [-0.25], [1.25], [1.5]])
    assert not is_gain(before, noisy, 0.1)
    assert is_gain(before, np.full((4, 1), 0.5), 0.1)
    assert not is_gain(before, np.full((4, 1), 0.05), 0.1)


def test_what_may_cost_a_little_is_kept_until_it_costs_more() -> None:
    scored = Scored(a=-0.01, b=-0.3, c=0.0)
    assert keep_gains(list("abc"), scored, -0.05, 20) == (["a", "c"], pytest.approx(-0.01))


def test_dear_items_must_gain_more() -> None:
    dear = {"a": 3.0}

    def weight(item: str) -> float:
        return dear.get(item, 1.0)

    # together 1.2 of the 1.5 + 0.5 + 0.5 needed; then b and c have theirs, and a has not
    scored = Scored(a=0.1, b=0.5, c=0.6)
    assert keep_gains(list("abc"), scored, 0.5, 20, weight=weight) == (["b", "c"], pytest.approx(1.1))
    # what gains enough with others is dropped where it is not worth its own price: 1.2 of 1.5
    scored = Scored(a=1.2, b=2, c=2)
    assert keep_gains(list("abc"), scored, 0.5, 20, weight=weight) == (["b", "c"], pytest.approx(4))
    # a group that gains what its cheapest item needs is looked into
    scored = Scored(a=0, b=0.6)
    assert keep_gains(list("ab"), scored, 0.5, 20, independent=True, weight=weight) == (["b"], pytest.approx(0.6))


def test_no_single_output_may_lose_much() -> None:
    before = np.full((4, 20), 30.0)
    after = before.copy()
    after[:, 0] -= 0.8  # 0.04 in the mean over outputs
    assert not is_gain(before, after, -0.05)
    after[:, 0] += 0.4
    assert is_gain(before, after, -0.05)
