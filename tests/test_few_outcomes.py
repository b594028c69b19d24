"""Items whose clicks rise while what comes of them does not, in the lists that a board remembers."""

import numpy as np
import pytest

from steadyrank.core.contract import NOTE_EXTRA, Visit
from steadyrank.service.board.board import Board
from steadyrank.service.board.config import Config
from steadyrank.service.board.few_outcomes import FEWEST_LISTS, AnsweredLists, answered_lists, few_outcomes

pytestmark = pytest.mark.pure

K, PLACES = 30, 5


def lists(seed, n=4_000, bought=0.1, delay=0.0, false=(0, 0), liked=(0, 0)):
    """Users who leave with their first click; what comes of it is known some rounds later, if at all by the end.

    In the rounds of `false` three visits in ten click the last item and buy nothing; in those of `liked` people like
    it as much as the best.
    """
    rng = np.random.default_rng(seed)
    rates, shares = np.linspace(0.5, 0.05, K), bought * np.exp(rng.normal(0.0, 0.5, K))
    ranking = rng.random((n, K)).argsort(axis=1)[:, :PLACES]
    for t in range(*(false if false[1] else liked)):
        if K - 1 not in ranking[t]:
            ranking[t, -1] = K - 1
    clicks, examined, came = np.zeros((n, PLACES), bool), np.full(n, PLACES), []
    for t in range(n):
        bot = false[0] <= t < false[1] and rng.random() < 0.3
        chances = np.where(liked[0] <= t < liked[1] and ranking[t] == K - 1, 0.5, rates[ranking[t]])
        bits = ranking[t] == K - 1 if bot else rng.random(PLACES) < chances
        if bits.any():
            place = bits.argmax()
            clicks[t, place], examined[t] = True, place + 1
            known = t + rng.exponential(delay + 1e-9) < n
            if not bot and known and rng.random() < shares[ranking[t, place]]:
                came.append((t + 1) * K + ranking[t, place])
    names = [f"item {k}" for k in range(K)]
    return AnsweredLists(np.arange(1, n + 1), examined, ranking, clicks, np.array(came), K, names)


@pytest.mark.parametrize("delay", [0.0, 300.0])
def test_an_item_that_bots_click_is_named_with_the_rounds(delay):
    """Where outcomes are late as well."""
    named = [few_outcomes(lists(seed, bought=0.2, delay=delay, false=(2_000, 3_000))) for seed in range(3)]
    for (one,) in named:
        assert one.item == "item 29"
        assert 1_950 <= one.start <= 2_050 < 2_950 <= one.end <= 3_250
        assert one.clicks > 2.0 * one.expected_clicks
        assert one.outcomes < 0.4 * one.expected_outcomes


def test_honest_news_are_not_told_of():
    """People like an item all at once and buy it as before; most of what comes of the latest clicks is not known."""
    for seed in range(6):
        assert few_outcomes(lists(seed, delay=800.0 * (seed % 2), liked=(3_400, 4_000))) == []
        assert few_outcomes(lists(seed, bought=0.3)) == []


def test_what_a_board_remembers_is_what_is_looked_at():
    """By the answered lists in their order and the clicks of which something came, whatever the goal."""
    board = Board.create(Config(length=2, learner="CascadeTS", settle=0), ["a", "b", "c"])
    assert answered_lists(board) is None
    impressions, state = board.impressions, board.learner_state
    note = np.zeros(2 + NOTE_EXTRA)
    for t in range(1, FEWEST_LISTS + 10):
        number = impressions.shown(Visit(t), np.array([t % 3, (t + 1) % 3]), note, key=t)
        if t > 5:
            impressions.answer(number, np.array([False, True]), 2)
            if t % 10 == 0:
                impressions.outcome(number, (t + 1) % 3, 7, 3.0)
    seen = answered_lists(board)
    assert seen.round.tolist() == list(range(6, FEWEST_LISTS + 10))
    assert seen.clicks[:, 1].all()
    with_outcome = [t * state.capacity + (t + 1) % 3 for t in range(10, FEWEST_LISTS + 10, 10)]
    assert sorted(seen.converted.tolist()) == with_outcome
