"""`revisit` of SteadyRank: what an attack has hidden comes back once it is over."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyrank.core.contract import NOTE_EXTRA, Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_forget, call_rank, call_update
from steadyrank.learners.steady.regimes import CURRENT
from steadyrank.learners.steady.revisit import COST, EVIDENCE, FROM, ITEM, KEPT, LEAST, SPENT, STEPS, TRIED, WORTH
from steadyrank.learners.steady.steady_rank import SteadyRank

pytestmark = pytest.mark.pure

K, D, PRICE = 60, 3, 0.005
TASTE = np.concatenate([[0.5, 0.45, 0.4], np.linspace(0.2, 0.02, K - 3)])
BEST = 1 - np.prod(1 - TASTE[:D])
AFTER = 20_000  # rounds without an attack


def hidden(ranking, bits, rng):
    return bits & (ranking >= D)


def inverted(ranking, bits, rng):
    return ~bits


def pushed(ranking, bits, rng):
    return ranking >= K - 5


def silenced(ranking, bits, rng):
    return bits & False


def noise(ranking, bits, rng):
    return rng.random(bits.size) < 0.3


ATTACKS = [hidden, inverted, pushed, silenced, noise]


def play(attack, share, rounds, seed, price=PRICE):
    """What each round loses; in the first `rounds` this share of the answers is the attack's. And the learner."""
    learner = make(SteadyRank, Problem(K, D), settings={"revisit": price})
    mind, world = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    allowed, loss = np.ones(K, np.bool_), np.empty(rounds + AFTER)
    for t in range(1, loss.size + 1):
        ranking, note = np.zeros(D, np.int64), np.zeros(D + NOTE_EXTRA)
        call_rank(learner, Visit(t), allowed, ranking, note, mind)
        bits = world.random(D) < TASTE[ranking]
        if t <= rounds and world.random() < share:
            bits = attack(ranking, bits, world)
        examined = int(np.argmax(bits)) + 1 if bits.any() else D
        bits[examined:] = False
        call_update(learner, Visit(t), ranking, note, bits, examined)
        loss[t - 1] = BEST - (1 - np.prod(1 - TASTE[ranking]))
    return loss, learner


def check_recovered(loss):
    """The second half of the rounds after the attack costs the price and little more; 50 clicks, for chance."""
    assert loss[-AFTER // 2 :].sum() < PRICE * AFTER / 2 + 50


def test_best_items_that_were_hidden_come_back():
    """Without a price, a thousand rounds of losses remain here; with one, none. And it costs no more than it may."""
    loss, learner = play(hidden, 1.0, 2000, 0)
    check_recovered(loss)
    assert 0.9 * PRICE * loss.size < learner.trial.sums[SPENT] < PRICE * loss.size


@pytest.mark.slow
@settings(max_examples=30)
@given(st.sampled_from(ATTACKS), st.floats(0.1, 1.0), st.integers(100, 8000), st.integers(0, 10**6))
def test_lists_recover_when_the_attacker_has_left(attack, share, rounds, seed):
    """Whatever the attack did: what it costs does not depend on how long the run goes on."""
    loss, _ = play(attack, share, rounds, seed)
    check_recovered(loss)


def updated(learner, t, ranking, clicks, note=None):
    """One answer; a list is looked at up to its click."""
    examined = clicks.index(True) + 1 if True in clicks else len(clicks)
    note = np.zeros(len(ranking) + NOTE_EXTRA) if note is None else note
    call_update(learner, Visit(t), np.array(ranking), note, np.array(clicks, np.bool_), examined)


def next_trial(learner, t, seed):
    """The next list of two with an item on trial, and its note."""
    mind, note = np.random.default_rng(seed), np.zeros(2 + NOTE_EXTRA)
    while note[2 + TRIED] == 0:
        ranking, note = np.zeros(2, np.int64), np.zeros(2 + NOTE_EXTRA)
        call_rank(learner, Visit(t), np.ones(4, np.bool_), ranking, note, mind)
    return ranking, note


def test_a_trial_by_hand():
    """Two items are believed to attract 1/2, two 1/12: these come on trial, at a cost of (1/2 - 1/12) / 2 clicks.

    With flat priors: half of ten looks were clicks, or none. A click of the item on trial is log(6) nats.
    """
    learner = make(SteadyRank, Problem(4, 2), settings={"revisit": 0.16, "insurance": 0.0, "window": 1000})
    for t in range(1, 6):
        updated(learner, t, [0, 2], [True, False])
        updated(learner, t, [1, 3], [True, False])
        updated(learner, t, [2, 0], [False, False])
        updated(learner, t, [3, 1], [False, False])
        updated(learner, t, [2, 3], [False, False])
    ranking, note = next_trial(learner, 6, 0)
    assert ranking[0] == note[2 + TRIED] - 1 == 2, "the first after item 0 that is worse, at the head of the list"
    assert note[2 + WORTH] == pytest.approx(1 / 2)
    assert note[2 + COST] == pytest.approx((1 / 2 - 1 / 12) / 2)
    updated(learner, 6, ranking, [True, False], note)
    assert learner.trial.sums[SPENT] == pytest.approx((1 / 2 - 1 / 12) / 2)
    assert learner.trial.sums[EVIDENCE] == pytest.approx(np.log(6))
    assert learner.trial.of[ITEM] == 2


def test_what_a_trial_refutes_counts_no_more():
    """Item 2 was looked at 500 times without a click, 700 rounds ago. Two clicks in its trial, and only they count.

    A retracted visit of that time takes back what it said of the other item, and nothing of this one.
    """
    learner = make(SteadyRank, Problem(4, 2), settings={"revisit": 1.0, "insurance": 0.0, "window": 10})
    for t in range(1, 501):
        updated(learner, t, [2, t % 2], [False, t % 4 < 2])
    for t in range(501, 1201):
        updated(learner, t, [3, t % 2], [False, t % 4 < 2])
    current = learner.regimes.tally[CURRENT]
    learner.trial.of[ITEM] = 1
    for t in (1201, 1202):
        ranking, note = next_trial(learner, t, t)
        assert ranking[0] == 2
        updated(learner, t, ranking, [True, False], note)
    assert learner.regimes.tally[CURRENT] == current, "no regime was opened"
    assert learner.regimes.looks[current, 2] == learner.regimes.clicks[current, 2] == 2
    assert 500 < learner.trial.since[2] <= 1202
    looks = learner.regimes.looks[current].copy()
    gone = np.zeros(2 + NOTE_EXTRA)
    call_forget(learner, Visit(5), np.array([2, 1]), gone, np.array([False, True]), 2)
    assert (looks - learner.regimes.looks[current]).tolist() == [0, 1, 0, 0]


BOARD = 2 * STEPS + 32  # slots
TAIL = np.arange(BOARD) < STEPS + 16  # slots in use, as after a board has doubled its capacity
HOLE = np.abs(np.arange(BOARD) - BOARD // 2) > STEPS // 2 + 8  # slots that were not retired


def trials_of(learner, allowed, rounds, late=0, first=1):
    """The item on trial in each list of three; the first three allowed items are liked by half of the users.

    Answers come `late`, so many rounds after the list.
    """
    best, mind = np.flatnonzero(allowed)[:3], np.random.default_rng(2)
    tried, waiting = [], []
    for t in range(first, first + rounds):
        ranking, note = np.zeros(3, np.int64), np.zeros(3 + NOTE_EXTRA)
        call_rank(learner, Visit(t), allowed, ranking, note, mind)
        tried.append(int(note[3 + TRIED]) - 1)
        waiting.append((t, ranking, [bool(k in best and mind.random() < 0.5) for k in ranking], note))
        if len(waiting) > late:
            updated(learner, *waiting.pop(0))
    return tried


@pytest.mark.parametrize("late", [0, 2])
@pytest.mark.parametrize("allowed", [TAIL, HOLE], ids=["tail", "hole"])
def test_trials_go_on_behind_items_that_cannot_be_tried(allowed, late):
    """More slots than a list looks through lie behind one another: every item still has its turn."""
    learner = make(SteadyRank, Problem(BOARD, 3), settings={"revisit": 0.02})
    tried = trials_of(learner, allowed, 1500, late)
    turns = np.bincount([k for k in tried[500:] if k >= 0], minlength=BOARD)
    assert (turns[~allowed] == 0).all()
    assert (turns[allowed][3:] >= 1).all()


def test_a_note_moves_trials_on_once():
    """The second list that looked through the same items in vain is heard late: others are on trial by then."""
    learner = make(SteadyRank, Problem(BOARD, 2), settings={"revisit": 1.0})
    for t in range(1, 6):
        updated(learner, t, [0, 1], [True, False])
    mind, lists = np.random.default_rng(0), []
    while len(lists) < 2:
        ranking, note = np.zeros(2, np.int64), np.zeros(2 + NOTE_EXTRA)
        call_rank(learner, Visit(6), np.arange(BOARD) < 2, ranking, note, mind)
        lists += [(ranking, note)] if note[2 + TRIED] else []
    assert [(note[2 + TRIED], note[2 + FROM], note[2 + COST]) for _, note in lists] == [(-STEPS, 0, 0)] * 2
    updated(learner, 6, lists[0][0], [True, False], lists[0][1])
    assert learner.trial.of[ITEM] == STEPS - 1
    learner.trial.of[ITEM] = 5
    updated(learner, 7, lists[1][0], [True, False], lists[1][1])
    assert learner.trial.of[ITEM] == 5


def test_what_could_not_be_spent_is_not_spent_at_once():
    """After 2,000 rounds in which there was nobody to try, no more than `KEPT` of 10 clicks are left for trials."""
    learner = make(SteadyRank, Problem(BOARD, 3), settings={"revisit": PRICE})
    assert max(trials_of(learner, np.arange(BOARD) < 3, 2000)) == -1
    assert PRICE * 2000 - learner.trial.sums[SPENT] == pytest.approx(KEPT, abs=0.1)
    tried = trials_of(learner, np.ones(BOARD, np.bool_), 1000, first=2001)
    assert 50 < sum(k >= 0 for k in tried) < (KEPT + 1000 * PRICE) / LEAST
