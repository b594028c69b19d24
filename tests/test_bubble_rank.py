"""BubbleRank: against an obvious version, by hand, and what it can and cannot do."""

import math

import numpy as np
import pytest

import references
import steadyrank as sr
from duels import D, K, duel
from interpreted import SOAK
from steadyrank.core.contract import NOTE_EXTRA, Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_rank, call_update

pytestmark = pytest.mark.interpreted


@pytest.mark.parametrize("base", [None, [5, 4, 3, 2, 1, 0]])
def test_bubble_rank(base):
    """delta = 0.5 so that there are exchanges; items that are not allowed make others join the base list."""
    slow = references.BubbleRank(K, math.log(2), list(base or []))
    learner, slow = duel("BubbleRank", slow, delta=0.5, base=base)
    assert learner.base[: learner.listed[0]].tolist() == slow.base
    assert len(slow.base) > D


def test_an_exchange_by_hand():
    """delta = 1/e: s > 2 sqrt(n). Five wins in a row: 5 > 4.47; four: 4 > 4 is not."""
    learner = make(sr.learners()["BubbleRank"], Problem(2, 2, 100), settings={"delta": 1 / math.e, "base": "0+1"})
    for t, base in zip(range(2, 12, 2), [[0, 1]] * 4 + [[1, 0]], strict=True):
        call_update(learner, Visit(t), np.array([0, 1]), np.zeros(2 + NOTE_EXTRA), np.array([False, True]), 2)
        assert learner.base.tolist() == base
    ranking = np.zeros(2, np.int64)
    for seed in range(20):  # no longer exchanged by chance
        rng = np.random.default_rng(seed)
        call_rank(learner, Visit(12), np.ones(2, np.bool_), ranking, np.zeros(2 + NOTE_EXTRA), rng)
        assert ranking.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ([0, 0], "base must name each item once"),
        ("best", "base must be a whole number from 0 to 2"),
        ([3], "base must be a whole number from 0 to 2"),
        (7, "base must be 'number' or distinct items from 0 to 2"),
    ],
)
def test_base_lists_that_are_none(base, message):
    with pytest.raises(ValueError, match=message):
        make(sr.learners()["BubbleRank"], Problem(3, 2, 100), settings={"base": base})


def test_bubble_rank_sorts_a_reversed_list_where_places_count():
    """Four items, all shown, worst first, to users who look less at lower places; 20,000 rounds, 1 seed or 3.

    A round of the last 4,000 costs less than a fifth of one of the first 1,000, in which little is exchanged.
    """
    run = sr.simulate(
        "BubbleRank",
        [0.1, 0.3, 0.6, 0.9],
        length=4,
        horizon=20_000,
        seeds=range(3 if SOAK else 1),
        settings={"base": "number"},
        users="PositionBased",
        marks=[1_000, 16_000, 20_000],
    )
    early, late = run.regret[:, 0] / 1_000, (run.regret[:, 2] - run.regret[:, 1]) / 4_000
    assert (late < early / 5).all()


def test_bubble_rank_never_shows_another_item():
    """Cascade users get the same value from any order of a list: its regret a round stays that of its first list."""
    run = sr.simulate("BubbleRank", np.linspace(0.1, 0.9, 12), length=4, horizon=2_000, seeds=range(3), marks=2)
    assert run.regret[:, 1] == pytest.approx(2 * run.regret[:, 0])
