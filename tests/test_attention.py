"""How far people look is learnt from clicks, and nothing is changed where they look at everything."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import steadyrank as sr
from interpreted import SOAK
from steady_reference import fitted_attention
from steadyrank.core.contract import NOTE_EXTRA, Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_rank, call_update
from steadyrank.learners.shared.thompson import Posteriors, set_counts
from steadyrank.learners.steady.attention import (
    BAR,
    DEALT,
    FITS,
    LEAST,
    PLACES,
    ROUNDS,
    SLOTS,
    Attention,
    fit_attention,
    goes_on,
    grows_steadily,
    learn_attention,
    looked_at,
    note_looks,
    place_by_attention,
    sort_places,
    watch,
)

pytestmark = pytest.mark.pure

SteadyRank = sr.learners()["SteadyRank"]


def posteriors_of(*pairs):
    found = Posteriors.create(len(pairs), 2, 1.0, 1.0)
    for k, (a, b) in enumerate(pairs):
        set_counts(found, k, a + b - 2, a - 1)
    return found


def test_the_chance_of_a_look_by_hand():
    """Attention 1/2, attraction 1/4: of 7/8 without a click 3/8 are looks."""
    attention = Attention.create(3, 3)
    attention.chance[:] = 1.0, 0.5, 0.0
    note = np.zeros(3 + NOTE_EXTRA)
    note_looks(attention, posteriors_of((1, 3), (1, 3), (1, 3)), np.array([0, 1, 2]), note)
    assert note[:3].tolist() == pytest.approx([0.0, 3 / 7, LEAST])  # nothing of the first place


def test_what_counts_as_a_look():
    """Clicks always; others as often as noted, the same in every replay; lists without a note in full."""
    ranking, clicks = np.arange(3), np.array([False, True, False])
    note = np.array([0.3, 0.3, 0.0, *[0.0] * NOTE_EXTRA])

    def looks(t):
        items, bits = np.zeros(3, np.int64), np.zeros(3, np.bool_)
        n = looked_at(ranking, note, clicks, 3, t, items, bits)
        return list(zip(items[:n].tolist(), bits[:n].tolist(), strict=True))

    found = [looks(t) for t in range(1, 4001)]
    assert all(one[-2:] == [(1, True), (2, False)] for one in found)
    share = np.mean([len(one) == 3 for one in found])
    assert abs(share - 0.3) < 4 * np.sqrt(0.3 * 0.7 / 4000)
    assert found == [looks(t) for t in range(1, 4001)]


def table(attention, attraction, rounds, seed):
    """Lists in random order, so that items stand at every place."""
    rng = np.random.default_rng(seed)
    found = Attention.create(attraction.size, attention.size)
    for _ in range(rounds):
        ranking = rng.permutation(attraction.size)[: attention.size]
        clicks = rng.random(attention.size) < attention * attraction[ranking]
        watch(found, ranking, clicks, attention.size)
    return found


def test_the_fit_finds_the_attention_of_places():
    """20,000 lists of 4 of 12 items: some 1,000 clicks at the last place, so 0.03 is three standard errors."""
    attention, attraction = np.array([1.0, 0.6, 0.4, 0.2]), np.linspace(0.1, 0.7, 12)
    found = table(attention, attraction, 20_000, 0)
    share = learn_attention(found, 2.0, BAR)
    assert np.abs(found.chance - attention).max() < 0.03
    assert share == pytest.approx(found.chance.mean(), abs=1e-3)  # each place had as many looks
    assert learn_attention(found, 2.0, BAR) == 1.0  # no new rounds
    assert goes_on(found)


@pytest.mark.parametrize(("true", "stays"), [([1.0, 0.6, 0.4, 0.2], True), ([1.0, 1.0, 1.0, 1.0], False)])
def test_what_was_learnt_of_attention_outlives_a_change_unless_clicks_speak_against_it(true, stays):
    """After a change 300 rounds are too few to learn it anew, but enough to see that it no longer holds."""
    attraction = np.linspace(0.05, 0.2, 12)
    found = table(np.array(true), attraction, 300, 1)
    found.chance[:] = learnt = 1.0, 0.6, 0.4, 0.2
    assert learn_attention(found, 2.0, BAR) == 1.0
    assert found.chance.tolist() == (list(learnt) if stays else [1.0] * 4)


def test_full_attention_is_not_doubted():
    """In 40 worlds, whatever the numbers say beyond chance is less than the bar."""
    for seed in range(40):
        found = table(np.ones(5), np.linspace(0.05, 0.6, 10), 1_500, seed)
        assert learn_attention(found, 2.0, BAR) == 1.0
        assert found.chance.tolist() == [1.0] * 5


@given(
    looks=arrays(np.int32, (9, 4), elements=st.integers(0, 60)),
    share=arrays(np.float64, (9, 4), elements=st.floats(0.0, 1.0)),
    shape=st.floats(0.05, 20.0),
)
@settings(max_examples=60)
def test_the_fit_is_that_of_a_general_optimizer(looks, share, shape):
    """Attention and evidence of Newton's steps and of BFGS on the same likelihood."""
    looks[0, 0] = max(looks[0, 0], 1)
    clicks = (looks * share).astype(np.int32)
    clicks[0, 0] = max(clicks[0, 0], 1)
    chance = np.ones(4)
    gain, of_none = fit_attention(looks, clicks, shape, chance)
    seen = looks.sum(1) > 0
    expected, evidence, _ = fitted_attention(looks[seen], clicks[seen], shape)
    assert chance == pytest.approx(expected, abs=1e-3)
    assert gain == pytest.approx(evidence, abs=1e-3)
    assert of_none == 0.0
    assert fit_attention(looks, clicks, shape, chance)[1] <= gain + 1e-6  # nothing explains clicks better


def test_items_dropped_for_want_of_a_click_do_not_mislead_the_fit():
    """Of 4,000 items each stands at one of four places once; who is clicked goes to the first place for 50 rounds.

    The first looks tell the attention: 1,000 at each place, 300 of them clicked at the first and 90 at the last,
    which is known to 10 %. Had each item a fitted attraction of its own, those that were clicked would be all that
    speaks, and every place would seem to be looked at by everybody.
    """
    rng = np.random.default_rng(0)
    attention, attraction = np.array([1.0, 0.7, 0.5, 0.3]), rng.beta(1.0, 2.3, 4_000)
    looks, clicks = np.zeros((4_000, 4), np.int32), np.zeros((4_000, 4), np.int32)
    for k in range(4_000):
        p = k % 4
        looks[k, p] = 1
        if rng.random() < attention[p] * attraction[k]:
            clicks[k, p] = 1
            looks[k, 0] += 50
            clicks[k, 0] += rng.binomial(50, attraction[k])
    chance = np.ones(4)
    fit_attention(looks, clicks, 1.0, chance)
    assert np.abs(chance - attention).max() < 0.1
    own = np.ones(4)  # an attraction fitted to each item, and the attention fitted to that, by turns
    for _ in range(500):
        own = clicks.sum(0) / (clicks.sum(1) / (looks @ own) @ looks)
        own /= own[0]
    assert own[1:].min() > 0.9


def test_places_far_down_share_their_attention():
    looks, clicks = np.full((5, PLACES + 20), 1_000, np.int32), np.full((5, PLACES + 20), 100, np.int32)
    clicks[:, 0] = 200
    clicks[:, PLACES - 1 :] = 50
    chance = np.ones(PLACES + 20)
    assert fit_attention(looks, clicks, 1.0, chance)[0] > BAR
    assert chance[1 : PLACES - 1] == pytest.approx(0.5, abs=0.01)
    assert chance[PLACES - 1 :] == pytest.approx(0.25, abs=0.01)
    assert len(set(chance[PLACES - 1 :])) == 1


@pytest.mark.parametrize(
    ("course", "believed"),
    [
        ([25, 31, 40, 47, 56, 64, 74], [False] * 6 + [True]),  # it grows with the rounds, from the first fit on
        ([1, 1, 2, 50, 110, 165, 200], [False] * 7),  # of a sudden
        ([200, 210, 220, 225, 230, 228, 216], [False] * 7),  # less of it than before
    ],
)
def test_evidence_that_comes_with_the_rounds_is_told_from_a_change_of_taste(course, believed):
    """Six fits see the rounds double."""
    evidence = np.zeros(FITS)
    assert [bool(grows_steadily(evidence, float(nats))) for nats in course] == believed
    assert evidence.tolist() == course[-FITS:]


def test_items_without_a_slot_say_nothing():
    many = Attention.create(10 * SLOTS, 2)
    for k in range(0, 10 * SLOTS, 2):
        watch(many, np.array([k, k + 1]), np.array([False, True]), 2)
    assert many.looks.sum(1).max() == 1
    assert (many.looks.sum(1) > 0).mean() > 0.95


def placed(attention, best_first, rng):
    ranking = np.array(best_first)
    place_by_attention(attention, ranking, rng)
    return ranking.tolist()


def test_the_best_items_stand_where_people_look_most():
    found, rng = Attention.create(9, 4, np.array([0.5, 1.0, 0.2, 0.5])), np.random.default_rng(0)
    assert found.order.tolist() == [1, 0, 3, 2]
    assert placed(found, [8, 7, 6, 5], rng) == [7, 8, 5, 6]
    assert placed(found, [8, 7, 6], rng) == [7, 8, 6]  # a shorter list: places 2, 1, 3
    found.chance[:] = 0.1, 0.1, 0.4, 0.1
    sort_places(found.order, found.chance)
    assert found.order.tolist() == [2, 0, 1, 3]
    assert placed(Attention.create(9, 3, np.ones(3)), [8, 7, 6], rng) == [8, 7, 6]  # all alike, as it was told


def test_lists_are_dealt_until_it_is_known_where_people_look():
    """Of 6,000 lists each of the six orders has 1,000; 120 more or fewer are four standard errors."""
    found, rng = Attention.create(9, 3), np.random.default_rng(0)
    assert placed(found, [8, 7, 6], rng) == [8, 7, 6]  # nothing is known yet: perhaps a cascade
    watch(found, np.arange(3), np.array([True, False, False]), 3)
    dealt = [tuple(placed(found, [8, 7, 6], rng)) for _ in range(6_000)]
    assert all(abs(dealt.count(order) - 1_000) < 120 for order in itertools.permutations([8, 7, 6]))
    found.chance[:] = 1.0, 0.9, 1.0
    sort_places(found.order, found.chance)
    assert placed(found, [8, 7, 6], rng) == [8, 6, 7]
    found.chance[:], found.tally[ROUNDS] = 1.0, DEALT
    sort_places(found.order, found.chance)
    assert placed(found, [8, 7, 6], rng) == [8, 7, 6]  # they do seem to look at everything


@pytest.mark.parametrize(
    ("clicks", "examined", "further"),
    [
        ([1, 0, 0], 1, False),  # a cascade ends with the click
        ([1, 1, 0], 2, False),  # as does whoever may go on
        ([1, 0, 0], 3, True),
        ([0, 0, 0], 3, False),
        ([0, 0, 1], 3, False),  # the end of the list and the click fall together
    ],
)
def test_feedback_that_goes_on_after_clicks(clicks, examined, further):
    found = Attention.create(3, 3)
    watch(found, np.arange(3), np.array(clicks, bool), examined)
    assert goes_on(found) == further


def lived_through(looks, rounds, attention=None, seed=0):
    """The learner after so many lists of 6 of 100 items, the best of them, and the mean attraction weighed by place.

    Users look at places with these chances, or are a cascade.
    """
    attraction = sr.profile("synthetic-mid").attraction[:100] ** 2
    learner = make(SteadyRank, Problem(100, 6, seed=seed), settings={"looks": looks})
    mind, world, weights = np.random.default_rng(seed), np.random.default_rng(seed + 1), np.arange(1, 7.0) ** -0.7
    allowed, ranking = np.ones(100, np.bool_), np.zeros(6, np.int64)
    note, clicks, lists, worth = np.zeros(6 + NOTE_EXTRA), np.zeros(6, np.bool_), [], 0.0
    rank = call_rank.bind(learner, Visit(1), allowed, ranking, note, mind)
    update = call_update.bind(learner, Visit(1), ranking, note, clicks, 6)
    for t in range(1, rounds + 1):
        note[:] = 0.0
        rank(learner, Visit(t), allowed, ranking, note, mind)
        lists.append(ranking.tolist())
        worth += weights @ attraction[ranking]
        clicks[:] = world.random(6) < attraction[ranking] * (1.0 if attention is None else attention)
        examined = int(np.argmax(clicks)) + 1 if attention is None and clicks.any() else 6
        clicks[examined:] = False
        update(learner, Visit(t), ranking, note, clicks, examined)
    best = weights @ np.sort(attraction)[::-1][:6]
    return learner, lists, best - worth / rounds


def test_users_who_look_at_places_are_found_out():
    """Their attention is known to 0.08 after 8,000 rounds, and lists are better for it; two seeds, or one."""
    attention, losses = np.arange(1, 7.0) ** -0.7, []
    for seed in range(2 if SOAK else 1):
        learner, _, loss = lived_through("learn", 8_000, attention, seed)
        assert np.abs(np.array(learner.view().attention) - attention).max() < 0.08
        losses.append((loss, lived_through("cascade", 8_000, attention, seed)[2]))
    learnt, wrong = np.mean(losses, axis=0)
    assert learnt < 0.8 * wrong


def test_a_cascade_is_left_as_it_is():
    learner, lists, _ = lived_through("learn", 3_000)
    assert lists == lived_through("cascade", 3_000)[1]
    assert learner.view().attention == (1.0,) * 6


def test_attention_may_be_given():
    learner = make(SteadyRank, Problem(5, 3), settings={"looks": "positions", "attention": "1+0.5+0.25"})
    note = np.zeros(3 + NOTE_EXTRA)
    call_rank(learner, Visit(1), np.ones(5, bool), np.zeros(3, np.int64), note, np.random.default_rng(0))
    assert learner.view().attention == (1.0, 0.5, 0.25)
    assert note[:3].tolist() == pytest.approx([0.0, 1 / 3, 1 / 7])  # attraction 1/2
    with pytest.raises(ValueError, match=r"attention is of looks='positions', not of looks='learn'"):
        make(SteadyRank, Problem(5, 3), settings={"attention": "1+0.5+0.25"})
    with pytest.raises(ValueError, match="looks must be one of 'cascade', 'positions', 'learn', not 'somehow'"):
        make(SteadyRank, Problem(5, 3), settings={"looks": "somehow"})
