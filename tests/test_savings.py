"""What not believing has saved people: by hand, against the truth, and nothing where nothing was doubted."""

import numpy as np
import pytest

from steadyrank.core.contract import Visit
from steadyrank.core.views import Change, Regime, View
from steadyrank.service.board import events
from steadyrank.service.board.board import Board
from steadyrank.service.board.config import Config
from steadyrank.service.board.savings import SavedOut, savings, summarize_savings
from steadyrank.service.board.schema import IntervalOut

pytestmark = pytest.mark.pure


def regime(number, estimate, looks):
    looks = np.array(looks)
    return Regime(number, 1, 100, np.array(estimate), looks, looks + 2.0)


def view(regimes, changes, attention=(1.0, 1.0)):
    now = changes[-1].after if changes else 1
    return View(tuple(regimes), now, 1, 1_000, 0, 0.1, len(changes), changes, attention)


NAMES = ["a", "b", "c", "d"]
HONEST = regime(1, [0.5, 0.4, 0.1, 0.05], [10**8] * 4)
FALSE = regime(2, [0.25, 0.2, 0.05, 0.9], [100, 100, 0, 100])


def test_a_saving_by_hand():
    changes = (Change(501, 521, 1, 2, 0.0), Change(701, 711, 2, 1, 0.0), Change(801, 851, 1, 2, 0.0))
    found = savings(view([HONEST, FALSE], changes), NAMES, np.ones(4, np.bool_), 900, 2, [0, 3])
    # noticed from 521 to 700 and from 851 to 900; rates of items 0 and 1 halved, so half of the visits are people's;
    # it leads to items 3 and 0: a click with 1 - 0.95 * 0.5 instead of 1 - 0.6 * 0.5
    assert (found.rounds, found.people, found.believed, found.plain) == (
        230,
        pytest.approx(0.5),
        ["d", "a"],
        ["a", "d"],
    )
    assert found.lost.value == pytest.approx(230 * 0.5 * (0.7 - 0.525), rel=1e-3)
    assert found.lost.low < found.lost.value < found.lost.high
    assert found.lost.high - found.lost.low < 0.05
    retired = savings(view([HONEST, FALSE], changes), NAMES, np.array([True, True, True, False]), 900, 2, [])
    assert (retired.believed, retired.lost.value) == (["a", "b"], 0.0)
    tired = savings(view([HONEST, FALSE], changes, (1.0, 0.5)), NAMES, np.ones(4, np.bool_), 900, 2, [])
    assert tired.lost.value == pytest.approx(230 * 0.5 * ((1 - 0.5 * 0.8) - (1 - 0.95 * 0.75)), rel=1e-3)


def test_nothing_is_saved_where_nothing_was_doubted():
    found = savings(view([HONEST], ()), NAMES, np.ones(4, np.bool_), 900, 2, [])
    nothing = IntervalOut(value=0.0, low=0.0, high=0.0)
    assert found == SavedOut(rounds=0, people=1.0, lost=nothing, believed=[], plain=[])
    gone = view([HONEST], (Change(501, 521, 1, 2, 0.0), Change(701, 711, 2, 1, 0.0)))  # a regime that was forgotten
    assert savings(gone, NAMES, np.ones(4, np.bool_), 900, 2, []).rounds == 0
    late = view([HONEST, FALSE], (Change(501, 800, 1, 2, 0.0), Change(700, 810, 2, 1, 0.0)))  # over before noticed
    assert savings(late, NAMES, np.ones(4, np.bool_), 900, 2, []).rounds == 0


def test_it_is_near_the_truth():
    """People until the end, and bots beside them for 800 rounds in the middle, 60 % of the visits."""
    rng = np.random.default_rng(5)
    like = np.array([0.5, 0.4, 0.35, 0.3, 0.05, 0.04, 0.03, 0.02, 0.02, 0.01])
    board = Board.create(
        Config(length=3, settle=0.0, guard="Anyone", settings={"revisit": 0.0}), [f"item {k}" for k in range(10)]
    )
    people = 0
    for t in range(1, 3_201):
        ranking, _ = board.learner_state.rank(Visit(t), None, 3, rng)
        attack = 2_000 < t <= 2_800
        bot = attack and rng.random() < 0.6
        people += attack and not bot
        wants = np.isin(ranking, (7, 8, 9)) if bot else rng.random(3) < like[ranking]
        clicks = [int(np.argmax(wants))] if wants.any() else []
        board.apply(events.Answered(t, t, t - 1, 0, ranking.tolist(), [], clicks, clicks[0] + 1 if clicks else 3))
    found = summarize_savings(board, board.learner_state.view())
    slots = [board.learner_state.slots[item] for item in found.believed]
    best, believed = (1.0 - np.prod(1.0 - like[items]) for items in ([0, 1, 2], slots))
    assert set(slots) == {7, 8, 9}
    assert len({"item 7", "item 8", "item 9"} & set(found.plain)) >= 2
    assert 650 < found.rounds < 780
    truth = found.rounds * people / 800 * (best - believed)
    assert found.lost.low < truth < found.lost.high
    assert found.people == pytest.approx(people / 800, abs=0.08)
