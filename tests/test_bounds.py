"""Bounds change nothing but the time: rankings equal those of plain evaluation, tie for tie."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import steadyrank as sr
from interpreted import COMPILED
from steadyrank.core.contract import NOTE_EXTRA, Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_rank, call_update
from steadyrank.core.kernels import LOG_CLOCK, IndexTable, kl_upper, rank_by_index
from steadyrank.learners.shared.ucb.bounds import ALIKE, LAST, POOL, REACH, SURE, Bounds, hold, keep, rank_by_bounds
from steadyrank.learners.shared.ucb.kl_lines import Tangents, draw_line
from steadyrank.learners.shared.ucb.shortlist import Candidates, Moment, at_least, draw_places, gather

pytestmark = pytest.mark.pure

INDEX_LEARNERS = {
    "CascadeUCB1": {}, "CascadeKLUCB": {}, "CascadeUCBV": {}, "TimeBlocks": {}, "MUCBV": {"corruption": 0},
    "M2UCBV": {}, "M2UCBV private": {"data": "private"}, "M2UCBV gcobe": {"selection": "gcobe"},
}  # fmt: skip


NUMBERED = {"CascadeUCBV number": {"ties": "number"}, "CascadeKLUCB number": {"ties": "number"}}


def others_slow(names):
    return [pytest.param(x, marks=[] if x.split()[0] in COMPILED else pytest.mark.slow) for x in names]


def fresh(name, n_items, length, horizon=20_000):
    problem = Problem(n_items, length, horizon, 0, np.full(n_items, 0.5), 3)
    return make(sr.learners()[name.split()[0]], problem, settings={**INDEX_LEARNERS, **NUMBERED}[name])


def both(name, attraction, length, rounds, seed, *, allowed=None, silent=0.0, late=0.0, shorter=0.0):
    """Play a learner and its twin that forgets its bounds after each update; every ranking must be the same.

    `silent` of the rounds bring no update; `late` of the updates say that they belong to an earlier round; `shorter`
    of the lists have one place only, or two.
    """
    quick, plain = (fresh(name, attraction.size, length) for _ in range(2))
    minds = [np.random.default_rng(seed) for _ in range(2)]
    world = np.random.default_rng(seed + 1)
    lists, notes = np.zeros((2, length), np.int64), np.zeros((2, length + NOTE_EXTRA))
    rankings = lists
    everything = np.ones(attraction.size, np.bool_)
    rank = call_rank.bind(quick, Visit(1), everything, rankings[0], notes[0], minds[0])
    update = call_update.bind(quick, Visit(1), rankings[0], notes[0], np.zeros(length, np.bool_), 1)
    used = 0
    for t in range(1, rounds + 1):
        mask = everything if allowed is None or world.random() < 0.5 else allowed
        used += int(hold(first_row(quick.bounds), t, 1))
        size = int(world.integers(1, min(length, 2) + 1)) if world.random() < shorter else length
        rankings = [row[:size] for row in lists]
        for i, learner in enumerate((quick, plain)):
            notes[i] = 0.0
            rank(learner, Visit(t), mask, rankings[i], notes[i], minds[i])
        assert rankings[0].tolist() == rankings[1].tolist(), f"round {t}"
        clicks = world.random(size) < attraction[rankings[0]]
        examined = int(np.argmax(clicks)) + 1 if clicks.any() else size
        if world.random() < silent:
            continue
        when = max(1, t - 40) if world.random() < late else t
        for i, learner in enumerate((quick, plain)):
            update(learner, Visit(when), rankings[i], notes[i], clicks, examined)
        plain.bounds.window[..., LAST] = -1
    return used


def first_row(bounds):
    return bounds if bounds.window.ndim == 1 else Bounds(*(field[0] for field in bounds))


@pytest.mark.parametrize("name", others_slow(sorted(INDEX_LEARNERS)))
@pytest.mark.parametrize("profile", ["synthetic-low", "synthetic-spread", "synthetic-mid"])
def test_the_same_rankings_as_plain_evaluation(name, profile):
    used = both(name, sr.profile(profile).attraction[::6], 5, 2_500, 0)
    assert used > 1_000 or "private" in name or "gcobe" in name, "the bounds were hardly used"


@pytest.mark.interpreted
@pytest.mark.parametrize("name", ["CascadeKLUCB", "CascadeUCB1", "MUCBV", "TimeBlocks"])
def test_the_same_rankings_of_few_items(name):
    assert both(name, sr.profile("synthetic-mid").attraction[::20], 3, 600, 0) > 200, "the bounds were hardly used"


@pytest.mark.parametrize("name", others_slow(["CascadeUCBV", "CascadeKLUCB", "M2UCBV"]))
@given(data=st.data())
def test_whatever_the_traffic(name, data):
    n_items = data.draw(st.integers(2, 60), "items")
    length = data.draw(st.integers(1, min(n_items, 9)), "length")
    seed = data.draw(st.integers(0, 10**6), "seed")
    attraction = np.random.default_rng(seed).random(n_items) ** data.draw(st.sampled_from([1, 4]), "power")
    allowed = np.random.default_rng(seed).random(n_items) < 0.8
    allowed[:length] = True
    both(
        name, attraction, length, 150, seed, allowed=data.draw(st.sampled_from([None, allowed]), "allowed"),
        silent=data.draw(st.sampled_from([0.0, 0.4]), "silent"), late=data.draw(st.sampled_from([0.0, 0.3]), "late"),
        shorter=data.draw(st.sampled_from([0.0, 0.3]), "shorter"),
    )  # fmt: skip


@given(
    total=st.integers(1, 400),
    uniforms=st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=1, max_size=12),
)
def test_places_are_those_of_a_shuffle(total, uniforms):
    drawn = np.array(uniforms[:total])
    places, rest = np.zeros(drawn.size, np.int64), np.zeros(2 * drawn.size, np.int64)
    draw_places(total, places, rest, drawn)
    deck, shuffled = list(range(total)), []
    for i, u in enumerate(drawn):
        j = i + int(u * (total - i))
        shuffled.append(deck[j])
        deck[j] = deck[i]
    assert places.tolist() == shuffled


def table(n_items, seed, cap=1.0):
    rng = np.random.default_rng(seed)
    looks = rng.integers(1, 400, n_items)
    mean = np.round(rng.random(n_items), 1)  # many ties
    return IndexTable(looks, mean, 2 * np.sqrt(mean * (1 - mean) / looks), 6 / looks, cap, LOG_CLOCK, 1.0)


@pytest.mark.parametrize("cap", [0.3, 0.9, 1.0, np.inf])
@pytest.mark.parametrize("n_items", [7, 500, 3_001])
def test_lists_at_and_below_the_cap(cap, n_items):
    for seed in range(30):
        index = table(n_items, seed, cap)
        ranking, plain, note = np.arange(5), np.arange(5), np.zeros(5 + NOTE_EXTRA)
        bounds, guess = Bounds.create(n_items), np.random.default_rng(seed).random()
        keep(bounds, index, 5_000, ranking, 5, guess)
        allowed = np.ones(n_items, np.bool_)
        for t in (5_001, 5_004, 5_006, 5_012, 4_000):
            rank_by_bounds(bounds, index, t, 1, allowed, ranking, note, np.random.default_rng(t))
            rank_by_index(index, t, 1, allowed, plain, np.random.default_rng(t))
            assert ranking.tolist() == plain.tolist()
            assert not note.any()


@pytest.mark.parametrize("cap", [1.0, np.inf])
@pytest.mark.parametrize("better", [0, 3, 12])
def test_a_large_tie_below_the_cap_is_counted_not_gathered(cap, better):
    """Hundreds of items observed alike, a few above them, others below: as after a first look at a catalogue."""
    rng = np.random.default_rng(better)
    looks = np.full(600, 80)
    mean = np.where(rng.random(600) < 0.6, 0.0, -0.2)  # 360 alike, the others never in sight
    mean[rng.permutation(600)[:better]] = 0.2 + 0.01 * rng.integers(0, 4, better)  # with ties among themselves
    index = IndexTable(looks, mean, np.full(600, 0.01), 6.0 / looks, cap, LOG_CLOCK, 1.0)
    ranking, plain, note = np.arange(10), np.arange(10), np.zeros(10 + NOTE_EXTRA)
    bounds, allowed = Bounds.create(600), np.ones(600, np.bool_)
    keep(bounds, index, 5_000, ranking, 10, 0.0)
    assert bounds.marks[ALIKE] == 1.0
    assert bounds.window[SURE] > 300
    for t in range(5_001, 5_008):
        for mask in (allowed, np.arange(600) % 7 > 0):
            rank_by_bounds(bounds, index, t, 1, mask, ranking, note, np.random.default_rng(t))
            rank_by_index(index, t, 1, mask, plain, np.random.default_rng(t))
            assert ranking.tolist() == plain.tolist()


@pytest.mark.parametrize("name", others_slow(["CascadeUCB1", "CascadeKLUCB", "M2UCBV", *NUMBERED]))
def test_the_same_rankings_while_most_items_tie(name):
    both(name, np.full(400, 0.02), 5, 1_500, 1)
    both(name, np.full(400, 0.02), 12, 600, 1, shorter=0.4)


@pytest.mark.parametrize("length", [60, 300])
def test_long_lists(length):
    index = table(700, 5)
    ranking, plain, note = np.arange(length), np.arange(length), np.zeros(length + NOTE_EXTRA)
    bounds, allowed = Bounds.create(700), np.ones(700, np.bool_)
    keep(bounds, index, 5_000, ranking, length, 0.0)
    rank_by_bounds(bounds, index, 5_002, 1, allowed, ranking, note, np.random.default_rng(0))
    rank_by_index(index, 5_002, 1, allowed, plain, np.random.default_rng(0))
    assert ranking.tolist() == plain.tolist()


def test_few_items_are_evaluated():
    """Of 5,000 items a few hundred are in the pool, and a few dozen are compared."""
    index = table(5_000, 1, np.inf)._replace(level=np.random.default_rng(0).random(5_000))
    s, lt = np.sqrt(np.log(9_001)), np.log(9_001)
    value = index.level + index.root * s + index.linear * lt
    order = np.argsort(-value)
    bounds = Bounds.create(5_000)
    keep(bounds, index, 9_000, order[:10], 10, value[order[20]])
    size = bounds.window[POOL]
    assert size < 500
    found = Candidates(np.zeros(512, np.int64), np.zeros(512), np.zeros(513, np.int64), np.zeros(512, np.int64))
    now, everything = Moment(s, lt, 0.0), np.ones(5_000, np.bool_)
    n = gather(bounds.pool[:size], bounds.marks[REACH], value[order[20]], index, now, everything, 10, found)
    assert set(order[:10]) <= set(found.items[:n])
    assert n == 21


@given(n=st.integers(1, 10_000), share=st.floats(0.0, 1.0), start=st.floats(0.7, 12.0), growth=st.floats(0.0, 6.0))
def test_the_kl_index_lies_between_its_tangent_and_the_bound_of_its_bend(n, share, start, growth):
    clicks = round(share * n)
    kl = Tangents.create(1)
    kl.looks[0], kl.clicks[0] = n, clicks
    draw_line(kl, 0, start, kl_upper(clicks / n, n, start))
    later = kl_upper(clicks / n, n, start + growth)
    above = kl.level[0] + kl.linear[0] * (start + growth)
    assert at_least(above, kl.root[0], growth**2 + 1e-300) <= later <= above
