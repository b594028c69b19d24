"""SteadyRank against itself written out, numbers worked out by hand, and what it promises."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

import references
import steadyrank as sr
from slow_draws import Draws
from steady_reference import Steady
from steady_reference import add_best as slow_add_best
from steady_reference import hedged_list as slow_hedged_list
from steadyrank.core.beta_prior import fit_prior
from steadyrank.core.contract import ANSWER, KIND, NOTE_EXTRA, SILENCE, VOUCHED, Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_forget, call_rank, call_update
from steadyrank.core.item_evidence import log_predictive
from steadyrank.core.kernels import cascade_like
from steadyrank.learners.shared.thompson import Posteriors, raise_bar, set_counts
from steadyrank.learners.steady.evidence import (
    Rule,
    distinct_evidence,
    due,
    forecast_of_counts,
    no_verdict,
    novelty,
    update_verdict,
    weigh,
)
from steadyrank.learners.steady.hedge import (
    NUMBER,
    Favourites,
    Rival,
    add_best,
    best_of,
    find_favourites,
    hedged_list,
    view_of_regime,
    weigh_views,
)
from steadyrank.learners.steady.regimes import (
    CURRENT,
    MOST_SPAN_UNTESTED,
    MOST_UNTESTED,
    SPANS,
    STORED,
    Regimes,
    clear_span,
    count,
    count_untested,
    move,
    rival,
)

pytestmark = pytest.mark.pure

SteadyRank = sr.learners()["SteadyRank"]
K, D = 24, 3
CALM = np.random.default_rng(3).uniform(0.02, 0.6, K)
ATTENTION = np.array([1.0, 0.1, 0.25])


class World:
    """Cascade users, or in some rounds users of another taste, or bits that no cascade user gives; or `attention`."""

    def __init__(self, tastes, seed, attention=None):
        self.tastes, self.rng, self.attention = tastes, np.random.default_rng(seed), attention

    def answer(self, t, ranking):
        bits = self.rng.random(len(ranking)) < self.tastes(t)[ranking]
        if self.attention is not None:
            return bits & (self.rng.random(len(ranking)) < self.attention[: len(ranking)]), len(ranking)
        if t % 11 == 0:
            return bits, len(ranking)
        examined = int(np.argmax(bits)) + 1 if bits.any() else len(ranking)
        bits[examined:] = False
        return bits, examined


def several(t):
    """Other items are liked every 150 rounds, more tastes than can be stored, then the first one again."""
    liked = np.arange(K) // 3 == t // 150 % 8
    return np.where(liked, 0.9, 0.03)


@pytest.mark.parametrize(
    ("tastes", "rounds", "opened", "forgets", "options"),
    [
        (lambda t: CALM if t < 600 else 0.1 * CALM[::-1], 1000, 2, 11, {"window": 10, "looks": "learn"}),
        (lambda t: CALM, 700, 1, 0, {"window": 10, "looks": "positions"}),
        (lambda t: CALM if t % 700 < 400 else 0.1 * CALM[::-1], 1200, 2, 11, {"window": 10}),
        (several, 1500, 7, 0, {"window": 7, "caution": 0.9}),
        (lambda t: CALM if t < 400 else 0.02 * CALM, 900, 2, 3, {"window": 25, "caution": 0.0}),
        (lambda t: CALM * 0.2, 600, 1, 0, {}),
        (lambda t: np.where(CALM > 0.4, 0.0, CALM) if t < 200 else CALM, 1000, 1, 11, {"window": 10, "revisit": 0.2}),
        (lambda t: CALM, 700, 1, 11, {"window": 10, "looks": "positions", "revisit": 0.2}),
    ],
)
def test_equals_its_slow_version(tastes, rounds, opened, forgets, options):
    """The same lists from the same draws and the same regimes; some rounds are vouched for, silent or forgotten.

    At least `opened` regimes: more than there are places in the second case. Every so manieth round the one of 30
    rounds ago is forgotten, and 400 rounds ago, which may lie in another regime.
    """
    learner, slow = make(SteadyRank, Problem(K, D), settings=options), Steady(K, D, **options)
    mind, mirror = np.random.default_rng(1), np.random.default_rng(1)
    world = World(tastes, 2, ATTENTION if "looks" in options else None)
    waiting, learnt = [], {}
    for t in range(1, rounds + 1):
        allowed = np.ones(K, np.bool_) if t % 10 else world.rng.random(K) < 0.7
        allowed[:D] = True
        if "revisit" in options and t % 5 == 0:  # nobody is left to be tried, or one
            allowed[D:] = False
        size = D if t % 7 else D - 1
        ranking, note = np.zeros(size, np.int64), np.zeros(D + NOTE_EXTRA)
        slow.draws.lie(learner.posteriors)
        call_rank(learner, Visit(t), allowed, ranking, note, mind)
        assert ranking.tolist() == slow.rank(t, allowed.tolist(), size, mirror), f"round {t}"
        clicks, examined = world.answer(t, ranking)
        note[KIND] = ANSWER if t % 13 else VOUCHED if t % 2 else SILENCE
        told_of = [(Visit(t), ranking, note, clicks, examined)]
        if t % 13 == 0:  # nothing yet
            waiting.append(told_of.pop())
        if t % 40 == 0:  # all at once, some in other regimes than the current one
            told_of += waiting
            waiting.clear()
        for event in told_of:
            call_update(learner, *event)
            slow.update(event[0].t, event[1].tolist(), event[3].tolist(), event[4], event[2][KIND])
            learnt[event[0].t] = event
        for back in (t - 30, t - 400) if forgets and t % forgets == 0 else ():
            if back in learnt and back > slow.recounted:  # of one before, some looks may be gone already
                call_forget(learner, *learnt.pop(back))
                slow.forget(back)
    assert mind.bit_generator.state == mirror.bit_generator.state
    assert bool(slow.tried) == bool(slow.in_vain) == ("revisit" in options)
    view = learner.view()
    assert view.attention == pytest.approx(slow.attention.chance.tolist(), abs=1e-4)
    assert (min(view.attention) < 1) == ("looks" in options)
    assert [(r.number, r.rounds) for r in view.regimes] == [(r, slow.length(r)) for r in sorted(slow.priors)]
    assert [(c.start, c.noticed, c.before, c.after) for c in view.changes] == slow.changes[-64:]
    longest = max(slow.priors, key=lambda r: (slow.length(r), r == slow.current))
    assert view.trusted == longest
    assert view.rounds == len([r for r in slow.rounds if r[3] != SILENCE]) < len(slow.rounds)
    assert view.corrupted == pytest.approx(1 - slow.length(longest) / view.rounds)
    assert view.current == slow.current
    for regime in view.regimes:
        a, b = slow.priors[regime.number]
        seen, wins = (np.array(x) for x in slow.counts(slow.of(regime.number), regime.number))
        np.testing.assert_allclose(regime.estimate, (a + wins) / (a + b + seen), rtol=1e-9)
    assert slow.opened >= opened
    assert (len(slow.rounds) + len(waiting) < rounds) == (forgets > 0)


@pytest.mark.parametrize(
    ("rounds", "by_hand"),
    [
        ([0], [0.7, 0.3]),
        ([10_000], [0.7, 0.3]),
        ([40_000], [0.925, 0.075]),
        ([2_000, 10_000], [0.7 * (1 - 0.5 * 0.795), 0.3, 0.7 * 0.5 * 0.795]),  # 1 - 2,050 / 10,000
        ([20_000, 40_100], [0.85 * (1 - 0.25), 0.15, 0.85 * 0.25]),  # 1 - 20,050 / 40,100
    ],
)
def test_weights_of_the_views_by_hand(rounds, by_hand):
    """The inverse counts 0.3 in the first 10,000 rounds of a regime, then 3,000 / rounds: the sum is a logarithm."""
    weights = np.zeros(len(by_hand))
    weigh_views(weights, np.array(rounds), 0, 1 if len(rounds) > 1 else -1, 0.3, 0.5, 50)
    assert weights == pytest.approx(by_hand)


@pytest.mark.parametrize(
    ("clicks", "looks", "a", "b", "by_hand"),
    [
        (1, 1, 1.0, 1.0, 1 / 2),
        (0, 2, 1.0, 1.0, 1 / 3),  # 1/2 then 2/3
        (1, 2, 2.0, 1.0, 2 / 3 * 1 / 4),  # a click, then none of Beta(3, 1)
        (2, 2, 300.0, 900.0, 0.25 * 101 / 401),  # 1,200 looks count as 400: Beta(100, 300)
        (1, 1, 0.5, 3999.5, 0.5 / 400.45),  # but half a click is left: Beta(0.5, 399.95)
    ],
)
def test_predictive_by_hand(clicks, looks, a, b, by_hand):
    assert log_predictive(clicks, looks, a, b, 400.0) == pytest.approx(math.log(by_hand), abs=1e-9)


def test_fitted_prior_by_hand_and_its_limits():
    """Ten items, one look each, five clicked. From Beta(1, 1) posteriors Beta(2, 1) and Beta(1, 2): mean 1/2, their
    variance 1/18 and (1/6)^2 between them make 1/12, so Beta(1, 1) again."""
    seen, wins, prior = np.ones(10, np.int64), np.array([1, 0] * 5), np.ones(2)
    fit_prior(seen, wins, prior)
    np.testing.assert_allclose(prior, [1.0, 1.0], atol=1e-12)
    fit_prior(seen[:9], wins[:9], prior := np.array([2.0, 3.0]))
    assert prior.tolist() == [2.0, 3.0]  # too few items
    fit_prior(np.full(10, 10**6), np.zeros(10, np.int64), prior := np.ones(2))
    assert prior == pytest.approx([0.2, 99.8])


@pytest.mark.parametrize(("a", "b"), [(0.4, 9.0), (3.0, 17.0)])
def test_fitted_prior_finds_the_population_whatever_is_shown(a, b):
    """2,000 items; an item goes on being shown only while it is clicked, which moment estimates do not survive."""
    rng = np.random.default_rng(5)
    seen, wins = np.zeros(2000, np.int64), np.zeros(2000, np.int64)
    for k, p in enumerate(rng.beta(a, b, 2000)):
        for i in range(60):
            seen[k] += 1
            wins[k] += (bit := rng.random() < p)
            if i >= 5 and not bit:
                break
    prior = np.ones(2)
    for _ in range(100):
        fit_prior(seen, wins, prior)
    assert prior[0] / prior.sum() == pytest.approx(a / (a + b), rel=0.1)
    assert prior.sum() == pytest.approx(a + b, rel=0.3)


def hedged(values, weights, size, *, mean=None, seed=0):
    """The list for these views, the first of which expects what it drew unless a mean is given."""
    views, rng = np.array(values, float), np.random.default_rng(seed)
    mean = views[0] if mean is None else np.array(mean, float)
    found = list(dict.fromkeys(k for view in views for k in references.top(view.tolist(), size, rng)))
    places = np.zeros(size, np.int64)
    add_best(views[:, found], mean[found], np.arange(len(found)), np.array(weights, float), places)
    ranking = [found[p] for p in places]
    assert ranking == slow_add_best(views.tolist(), mean.tolist(), weights, found, size)
    return ranking


def missed(attraction, items):
    """The chance that nobody clicks."""
    return math.prod(1 - max(attraction[k], 0) for k in items)


@st.composite
def views_of_items(draw):
    """Seed, number of items, length, weights of two or three views with the first at least 0.1."""
    size = draw(st.integers(1, 6))
    weights = [draw(st.floats(1e-5, 0.45)) for _ in range(draw(st.integers(1, 2)))]
    return draw(st.integers(0, 10**6)), draw(st.integers(size, 14)), size, [1 - sum(weights), *weights]


@given(views_of_items())
@settings(max_examples=80, deadline=None)
def test_hedged_list_equals_its_slow_version(case):
    """The same list from the same draws, with ties and items that may not be shown."""
    seed, items, size, weights = case
    rng = np.random.default_rng(seed)
    items *= 3
    counts = rng.integers(0, 4, (items, 2)).tolist()
    posteriors = Posteriors.create(items, size, 0.5, 2.0)
    for k, (won, lost) in enumerate(counts):
        set_counts(posteriors, k, won + lost, won)
    posteriors.bar[0] = 0.0
    raise_bar(posteriors, size)
    slow = Draws([(0.5 + won, 2.0 + lost) for won, lost in counts], size)
    slow.lie(posteriors)
    allowed = rng.random(items) < 0.8
    allowed[rng.permutation(items)[:size]] = True
    wins, none = rng.integers(0, 11, items).astype(np.int32), np.zeros(items, np.int32)
    rival = Rival(none + 10, wins, none, none, np.zeros(2), none[:0], none[:0])
    ranking = np.zeros(size, np.int64)
    mind, mirror = np.random.default_rng(seed), np.random.default_rng(seed)
    hedged_list(posteriors, rival, np.array(weights), allowed, ranking, mind)
    other = (wins / 10).tolist() if len(weights) == 3 else None
    assert ranking.tolist() == slow_hedged_list(slow, other, weights, allowed, size, mirror)
    assert mind.bit_generator.state == mirror.bit_generator.state
    assert len(set(ranking.tolist())) == size
    assert allowed[ranking].all()


@given(st.integers(0, 2**32), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_the_favourites_of_a_regime_give_the_lists_that_all_items_give(seed, size):
    """With ties, with items that may not be shown, and where the favourites are too few."""
    rng, items = np.random.default_rng(seed), 60
    regimes, found = Regimes.create(items), Favourites.create(items, size)
    regimes.looks[2] = rng.integers(0, rng.integers(2, 40), items)
    regimes.clicks[2] = rng.integers(0, regimes.looks[2] + 1)
    regimes.untested_looks[2] = rng.integers(0, 2, items)
    regimes.prior[2], regimes.number[2] = (0.5, 3.0), 4
    allowed = rng.random(items) < rng.choice([0.2, 0.9])
    allowed[rng.permutation(items)[:size]] = True
    assert view_of_regime(regimes, found, 2).liked.size == 0
    lists = np.zeros((2, size), np.int64)
    best_of(view_of_regime(regimes, found, 2), allowed, lists[0], np.random.default_rng(seed))
    find_favourites(regimes, found, 2)
    few = view_of_regime(regimes, found, 2)
    best_of(few, allowed, lists[1], np.random.default_rng(seed))
    assert lists[0].tolist() == lists[1].tolist()
    means = (0.5 + regimes.clicks[2]) / (3.5 + regimes.looks[2] + regimes.untested_looks[2])
    others = np.setdiff1d(np.arange(items), few.liked)
    assert found.of[NUMBER] == 4
    assert few.liked.size <= 16 + 3 * size
    assert few.liked.size == 0 or means[few.liked].min() > means[others].max()


def test_of_many_items_those_liked_alike_come_with_the_same_chance():
    """Four liked best, one of them not allowed; then 60 alike, ten not allowed, of which each list has three.

    Chi-square of 50 shares over 2,000 lists: the mean is 49, and 110 lies six standard deviations above.
    """
    items, size, rng = 5_000, 6, np.random.default_rng(0)
    regimes, found = Regimes.create(items), Favourites.create(items, size)
    best, alike = np.array([40, 7, 4_000, 300]), np.arange(100, 4_900, 80)
    regimes.looks[0, best], regimes.clicks[0, best] = 20, [20, 19, 18, 17]
    regimes.looks[0, alike] = regimes.clicks[0, alike] = 1
    find_favourites(regimes, found, 0)
    allowed = np.ones(items, np.bool_)
    allowed[7] = allowed[alike[::6]] = False
    view, ranking, drawn = view_of_regime(regimes, found, 0), np.zeros(size, np.int64), []
    for _ in range(2_000):
        best_of(view, allowed, ranking, rng)
        assert ranking[:3].tolist() == [40, 4_000, 300]
        drawn += ranking[3:].tolist()
    shares = np.array([drawn.count(k) for k in alike if allowed[k]])
    assert (shares.size, shares.sum()) == (50, len(drawn))
    assert ((shares - 120.0) ** 2 / 120.0).sum() < 110
    allowed[alike[:-2]] = False  # too few: then others follow, as all items are compared
    best_of(view, allowed, ranking, rng)
    assert set(ranking[:5].tolist()) == {40, 4_000, 300, *alike[-2:].tolist()}


@given(views_of_items(), st.floats(0, 1))
@settings(max_examples=200, deadline=None)
def test_a_hedge_costs_the_first_view_no_more_than_promised(case, luck):
    """At most W / (1 - W) of a click, W the weight of the other views (docs/steadyrank-proofs.md, insurance)."""
    seed, items, size, weights = case
    views = np.random.default_rng(seed).uniform(0, 1, (len(weights), items)) ** 2
    found = hedged(views, weights, size, mean=views[0] * luck)
    best = np.argsort(-views[0])[:size]
    others = 1 - weights[0]
    assert missed(views[0], found) - missed(views[0], best) <= others / (1 - others) + 1e-12


@given(views_of_items(), st.floats(0.2, 1))
@settings(max_examples=200, deadline=None)
def test_a_view_is_insured_as_promised(case, luck):
    """A view of weight w is missed with chance at most ((1 - c q)^j / w + 1) (1 - c h)^(d - j), for every j.

    q and p are the d-th best of the first view and of that one, h = p q / (p + q), and no draw is more than 1 / c
    times what is expected (docs/steadyrank-proofs.md, "What the insurance is worth"); here with two views.
    """
    seed, items, size, (_, weight, *_) = case
    views = np.random.default_rng(seed).uniform(0, 1, (2, items)) ** 0.3
    found = hedged(views, [1 - weight, weight], size, mean=views[0] * luck)
    q, p = np.sort(views, axis=1)[:, -size]
    h = p * q / (p + q)
    bounds = [((1 - luck * q) ** j / weight + 1) * (1 - luck * h) ** (size - j) for j in range(size + 1)]
    assert missed(views[1], found) <= min(bounds) + 1e-12


@given(views_of_items(), st.floats(0.2, 1))
@settings(max_examples=200, deadline=None)
def test_a_list_for_two_regimes_loses_no_more_than_promised(case, luck):
    """A view of weight w is missed with chance at most 1 / (w (1 + c d p)) (docs/steadyrank-proofs.md, "One attack").

    p is the d-th best of that view; no draw is more than 1 / c times what is expected.
    """
    seed, items, size, weights = case
    views = np.random.default_rng(seed).uniform(0, 1, (len(weights), items)) ** 0.3
    found = hedged(views, weights, size, mean=views[0] * luck)
    for view, weight in list(zip(views, weights, strict=True))[1:]:
        p = np.sort(view)[-size]
        assert missed(view, found) <= 1 / (weight * (1 + luck * size * p)) + 1e-12


def test_a_draw_that_is_not_expected_breaks_the_bound_for_means():
    """Draws of 0.9 for items that are expected to attract 0.05: they get all ten places, and the other view is missed
    for sure, where the bound without c says 0.54."""
    size = 10
    drawn, mean = np.array([0.9] * 10 + [0.0] * 10), np.array([0.05] * 10 + [0.0] * 10)
    other = np.array([0.0] * 10 + [0.3] * 10)
    found = hedged([drawn, other], [0.54, 0.46], size, mean=mean)
    assert missed(other, found) == 1.0
    assert 1 / (0.46 * (1 + size * 0.3)) == pytest.approx(0.543, abs=1e-3)
    assert missed(other, found) <= 1 / (0.46 * (1 + 0.05 / 0.9 * size * 0.3))


@given(st.integers(0, 2**32), st.integers(1, 8), st.floats(0.001, 0.499), st.floats(0.05, 1.0))
@settings(max_examples=200, deadline=None)
def test_a_place_is_insured_only_when_the_learnt_users_are_better_served(seed, size, weight, most):
    """With draws as expected: the best free item while (1 - w) prod(1 - m) > w prod(m), else the worst of those free.

    So where no item attracts more than half of the users the insurance never takes a place.
    """
    mean = np.random.default_rng(seed).uniform(0, most, 20)
    found = hedged([mean, 1 - mean], [1 - weight, weight], size)
    served, inverted, free = 1 - weight, weight, list(np.argsort(-mean))
    for item in found:
        if abs(served - inverted) > 1e-12:
            assert item == free[0 if served > inverted else -1]
        free.remove(item)
        served *= 1 - mean[item]
        inverted *= mean[item]
    if most <= 0.5:
        assert found == list(np.argsort(-mean)[:size])


def test_hedged_list_serves_every_view_and_the_weight_decides_how_much():
    mine = np.array([0.5, 0.4, 0.3, 0.2, 0.0, 0.0, 0.0, 0.0])
    places = {
        weight: sorted(hedged([mine, mine[::-1]], [1 - weight, weight], 4, seed=1)) for weight in (0, 0.5, 0.99)
    }
    assert places == {0: [0, 1, 2, 3], 0.5: [0, 1, 6, 7], 0.99: [4, 5, 6, 7]}


def test_only_places_that_the_first_view_can_spare_are_insured():
    """By hand, weight 0.01 for the view that only item 9 is liked: with items of 0.9, two of them leave 0.99 x 0.01,
    of which a third takes 0.0089, less than 0.01 for item 9. Items of 0.5 leave 0.0155 after six, and take half of
    it. Draws of 0.9 where only 0.5 is expected take a seventh place: 0.9 of the 0.0155."""
    insured = np.zeros(10)
    insured[9] = 1.0
    sure, doubted = np.full(10, 0.9), np.full(10, 0.5)
    sure[9] = doubted[9] = 0.0
    assert hedged([sure, insured], [0.99, 0.01], 9).index(9) == 2
    assert hedged([doubted, insured], [0.99, 0.01], 9).index(9) == 6
    assert hedged([sure, insured], [0.99, 0.01], 9, mean=doubted).index(9) == 7


def test_hedged_list_favours_no_item_among_equals():
    values = np.array([0.2, 0.2, 0.1, 0.1, 0.1, 0.1, 0.2])
    first = [hedged([values, values], [0.5, 0.5], 2, seed=seed)[0] for seed in range(200)]
    assert set(first) == {0, 1, 6}
    assert min(first.count(k) for k in (0, 1, 6)) > 43  # 67 expected, three and a half standard errors


@pytest.mark.parametrize(
    ("clicks", "examined", "possible"),
    [("000", 3, True), ("001", 3, True), ("100", 1, True), ("010", 2, True), ("110", 2, False), ("101", 3, False),
     ("000", 2, False), ("000", 0, False)],
)  # fmt: skip
def test_what_a_cascade_user_can_do(clicks, examined, possible):
    assert cascade_like(np.array([c == "1" for c in clicks]), 3, examined) == possible


def counted(before, recent):
    """Regimes told of (item, clicks, looks), a look a round: some rounds ago, and recently."""
    regimes = Regimes.create(3)
    for rows in (before, recent):
        for j in range(SPANS):
            clear_span(regimes, j)
        for item, wins, looks in rows:
            for i in range(looks):
                count(regimes, np.array([item]), np.array([i < wins]), 1, 1)
    return regimes


def evidence_of(regimes, j=0):
    """Evidence of span j for each stored regime and last for a new one, and for regime 1 without what is alike."""
    forecast = forecast_of_counts(regimes, Rule(), j)
    stored = int(regimes.tally[STORED])
    every = [weigh(forecast, regimes, Rule(), r) for r in range(stored + 1)]
    return every, distinct_evidence(forecast, regimes, Rule(), 1, None) if stored > 1 else None


def test_evidence_by_hand():
    """Item 0: 10 of 20 before, 0 of 10 now. Item 1: 4 looks before, too few to testify."""
    regimes = counted([(0, 10, 20), (1, 4, 4)], [(0, 0, 10), (1, 0, 10)])
    same = special.betaln(11, 21) - special.betaln(11, 11)
    anew = -math.log(11)
    assert evidence_of(regimes)[0] == pytest.approx([0.0, math.log(0.9 + 0.1 * math.exp(anew - same))])
    regimes.tally[STORED] = 2  # and a stored regime that knows item 0 as never clicked
    regimes.looks[1, 0] = 30
    evidence, distinct = evidence_of(regimes)
    assert evidence[1] == pytest.approx(math.log(31 / 41) - same)
    assert distinct == pytest.approx(evidence[1], abs=0.1)  # 10 of 20 are nothing like it
    regimes.clicks[1, 0] = 15
    then = special.betaln(16, 26) - special.betaln(16, 16)
    odds = math.exp(special.betaln(26, 26) - special.betaln(16, 16) - special.betaln(11, 11))
    mixed = math.log((odds * math.exp(then) + math.exp(same)) / (odds + 1))
    evidence, distinct = evidence_of(regimes)
    assert (evidence[1], distinct) == pytest.approx((then - same, then - mixed))
    regimes.looks[1, 0] = 4
    evidence, distinct = evidence_of(regimes)
    assert evidence[1] == evidence[2] == distinct  # it does not know the item: as good as a new one


def divergence(x, y):
    """KL divergence of a click with chance y from one with chance x, in nats; 0 log 0 is 0."""
    return float(special.rel_entr(x, y) + special.rel_entr(1 - x, 1 - y))


def promised_evidence(clicks, looks, expected, strength, between):
    """What docs/steadyrank-proofs.md promises of one item; `between`: the q of the proof."""
    sure = min(looks * divergence(clicks / looks, between), strength * divergence(expected, between))
    return max(math.log(0.9), math.log(0.1) - math.log(2 * (looks + 1)) + sure)


@given(st.data(), st.integers(1, 300), st.floats(0.02, 0.98), st.floats(2.0, 1_000.0), st.floats(0, 1))
@settings(max_examples=300, deadline=None)
def test_an_item_gives_as_much_evidence_of_a_change_as_promised(data, looks, expected, strength, share):
    clicks = data.draw(st.integers(0, looks))
    a, b = expected * strength, (1 - expected) * strength
    counted = min(1.0, 400.0 / strength)
    a, b = (max(x * counted, 0.5) for x in (a, b)) if counted < 1 else (a, b)
    expected, strength = a / (a + b), a + b
    between = expected + share * (clicks / looks - expected)
    evidence = novelty(log_predictive(clicks, looks, a, b, 401.0), looks, clicks, 0.1)
    assert evidence >= promised_evidence(clicks, looks, expected, strength, between) - 1e-9


def test_ten_known_items_without_clicks_are_noticed_in_one_window():
    """The example of docs/steadyrank-proofs.md: attraction 0.3, known from 400 looks, then 50 looks, no click."""
    promised = 10 * promised_evidence(0, 50, 0.3, 400.0, 0.2)
    assert promised == pytest.approx(42.3, abs=0.05)
    assert promised > Rule().open
    assert 10 * novelty(log_predictive(0, 50, 120.0, 280.0, 400.0), 50, 0, 0.1) > promised


def test_overwhelming_evidence_does_not_overflow():
    regimes = counted([(0, 3000, 3000)], [(0, 0, 3000)])
    assert 500 < evidence_of(regimes, 3)[0][1] < np.inf
    verdict = no_verdict()
    for j in range(SPANS):
        if due(regimes, 50, j):
            update_verdict(verdict, forecast_of_counts(regimes, Rule(), j), regimes, Rule(), j, False, None)
    assert (verdict.regime[0], verdict.span[0]) == (1, 0)


def test_the_rival_is_the_longest_regime_that_is_longer_than_the_current_one():
    regimes = Regimes.create(2)
    regimes.tally[STORED] = 3
    for lengths, slack, expected in [((5, 9, 7), 0, 1), ((9, 5, 7), 0, -1), ((5, 9, 7), 4, -1), ((5, 9, 9), 0, 1)]:
        regimes.rounds[:3] = lengths
        assert rival(regimes, slack) == expected
    assert regimes.tally[CURRENT] == 0


def run_on(name, mapping, learner="SteadyRank", horizon=10_000, **options):
    """Three runs. Without an attack it is one that may do nothing: one loop to compile and not two."""
    options = {"adversary": "PrefixFlip", "budget": 0, **options}
    attraction = sr.profile(name, mapping).attraction
    return sr.simulate(learner, attraction, length=10, horizon=horizon, seeds=range(3), **options)


@pytest.mark.parametrize(
    ("name", "mapping"), [("yelp-pizza", "sparse"), ("movielens", "moderate"), ("lastfm-listeners", None)]
)
def test_honest_users_open_no_regime_and_cost_nothing(name, mapping):
    """3 seeds, 10,000 rounds: one regime in each, and less regret than CascadeTS by at least a tenth."""
    run = run_on(name, mapping)
    assert [len(view.regimes) for view in run.views] == [1, 1, 1]
    assert run.final.mean() < 0.9 * run_on(name, mapping, "CascadeTS").final.mean()


@pytest.mark.parametrize(
    "adversary",
    ["PrefixFlip", *(pytest.param(n, marks=pytest.mark.slow) for n in ("AttractionFlip", "FakeUser", "Swap"))],
)
def test_an_attack_in_one_stretch_is_found_and_kept_apart(adversary):
    """Rounds 5,001 to 6,500 of 10,000: at most four changes, the share of the attack within 3 points, the trusted
    regime current again at the end, and less regret than CascadeTS."""
    attack = {"adversary": adversary, "schedule": "late", "budget": 1_500}
    run = run_on("movielens", "sparse", **attack)
    for view in run.views:
        assert 2 <= view.n_changes <= 4
        assert view.current == view.trusted == 1
        assert view.corrupted == pytest.approx(0.15, abs=0.03)
        first = view.changes[0]
        assert abs(first.start - 5_001) <= 200
        assert first.start < first.noticed <= first.start + 400
    assert run.final.mean() < run_on("movielens", "sparse", "CascadeTS", **attack).final.mean()


@pytest.mark.slow
def test_a_new_taste_is_followed_within_2000_rounds():
    """The ten best items change at round 4,000 of 8,000; from 2,000 rounds later on the loss is under a third of
    what it is right after the change, and under that of CascadeTS."""
    change = {"users": "DriftingCascade", "users_settings": {"pattern": "jump", "span": 4_000}}
    marks = [4_000, 4_050, 6_000, 8_000]
    run, other = (run_on("movielens", "sparse", n, 8_000, marks=marks, **change) for n in ("SteadyRank", "CascadeTS"))
    loss, trusting = (np.diff(r.regret.mean(0)) / np.diff(marks) for r in (run, other))
    assert loss[2] < loss[0] / 3
    assert loss[2] < trusting[2]
    assert all(view.current == 2 for view in run.views)


def lived_through(tastes, rounds, n_items, length, allowed=None, seed=0, **options):
    """A learner after rounds with cascade users of changing tastes; `allowed(t)` says which items may be shown."""
    learner, mind = make(SteadyRank, Problem(n_items, length), settings=options), np.random.default_rng(seed)
    world = np.random.default_rng(seed + 100)
    for t in range(1, rounds + 1):
        ranking, note = np.zeros(length, np.int64), np.zeros(length + NOTE_EXTRA)
        may = np.ones(n_items, np.bool_) if allowed is None else allowed(t)
        call_rank(learner, Visit(t), may, ranking, note, mind)
        bits = world.random(length) < tastes(t)[ranking]
        examined = int(np.argmax(bits)) + 1 if bits.any() else length
        bits[examined:] = False
        call_update(learner, Visit(t), ranking, note, bits, examined)
    return learner


@pytest.mark.parametrize("caution", [0.0, 0.5])
def test_two_regimes_that_are_both_wrong_do_not_take_turns(caution):
    """Six items are liked, then six others, then six others again: each of the first two tastes explains why the
    favourites of the other one fail. Within 6 changes a third one is opened, and its items are shown."""
    liked = np.arange(24) // 6
    learner = lived_through(
        lambda t: np.where(liked == min((t - 1) // 1_500, 2), 0.3, 0.02), 5_000, 24, 6, caution=caution
    )
    view = learner.view()
    assert view.n_changes <= 6
    assert len(view.regimes) == 3
    assert set(np.argsort(-view.regime(view.current).estimate)[:6]) == set(range(12, 18))


@pytest.mark.parametrize("seed", range(4))
def test_a_new_item_unlike_the_others_is_no_attack(seed):
    """100 items of attraction 0.1, and one of 0.9 that may be shown from round 1,001 on."""
    attraction = np.where(np.arange(101) == 100, 0.9, 0.1)
    learner = lived_through(
        lambda t: attraction, 3_000, 101, 10, lambda t: (np.arange(101) < 100) | (t > 1_000), seed
    )
    assert len(learner.view().regimes) == 1
    assert np.argmax(learner.view().regime(1).estimate) == 100


def test_feedback_that_is_vouched_for_goes_to_the_regime_of_its_round():
    """Tastes turn at round 1,001; what a person found honest of round 900 belongs to the first regime."""
    taste = np.where(np.arange(20) < 5, 0.7, 0.02)
    learner = lived_through(lambda t: taste if t <= 1_000 else taste[::-1], 1_300, 20, 4)
    view = learner.view()
    assert [(c.before, c.after) for c in view.changes] == [(1, 2)]
    for t in (900, 1_200):
        told(learner, VOUCHED, t, np.arange(4))
    after = learner.view()
    assert [r.rounds for r in after.regimes] == [r.rounds + 1 for r in view.regimes]
    assert after.rounds == view.rounds + 2


def told(learner, kind, t, items, clicked=-1):
    """Tell of a round's feedback of a kind, looked at in full."""
    note = np.zeros(items.size + NOTE_EXTRA)
    note[KIND] = kind
    call_update(learner, Visit(t), items, note, np.arange(items.size) == clicked, items.size)


@pytest.mark.parametrize("kind", [VOUCHED, SILENCE])
def test_what_is_no_answer_counts_for_the_list_and_not_for_the_test(kind):
    """Random lists; tastes turn twice. A learner that is also told of a list without a click in every third round,
    20 rounds later, ends with the same changes and with every bit that its test reads, but with other estimates.
    If nobody answered those, the regimes are no longer for them."""
    rng, taste = np.random.default_rng(8), np.where(np.arange(20) < 5, 0.7, 0.02)
    plain, other = (make(SteadyRank, Problem(20, 4), settings={"window": 20}) for _ in range(2))
    for t in range(1, 2_001):
        ranking, note = rng.permutation(20)[:4], np.zeros(4 + NOTE_EXTRA)
        bits = rng.random(4) < (taste if t <= 700 or t > 1_300 else taste[::-1])[ranking]
        for learner in (plain, other):
            call_update(learner, Visit(t), ranking, note, bits, 4)
        if t > 20 and t % 3 == 0:
            told(other, kind, t - 20, rng.permutation(20)[:4])
    for name in ("looks", "clicks", "test_prior", "span_looks", "span_clicks", "span_rounds", "span_start", "log"):
        assert np.array_equal(getattr(plain.regimes, name), getattr(other.regimes, name)), name
    every, distinct = evidence_of(plain.regimes, SPANS - 1)
    assert np.count_nonzero([*every, distinct]) == 3
    assert evidence_of(other.regimes, SPANS - 1) == (every, distinct)
    one, two = plain.view(), other.view()
    assert len(one.changes) == 2
    assert (one.rounds, two.rounds) == (2_000, 2_660 if kind == VOUCHED else 2_000)
    for before, after in zip(one.regimes, two.regimes, strict=True):
        extra = after.looks - before.looks
        assert kind == SILENCE or extra.sum() == 4 * (after.rounds - before.rounds)
        assert kind == VOUCHED or (extra.sum() > 0 and after.rounds == before.rounds)
        assert (after.estimate[extra > 20] < before.estimate[extra > 20]).all()
    np.testing.assert_array_equal(plain.regimes.prior, plain.regimes.test_prior)
    assert other.regimes.prior[0, 0] / other.regimes.prior[0].sum() < 0.9 * one.regimes[0].estimate.mean()


def test_lists_are_made_of_what_is_vouched_for_as_well():
    """In answers nothing is clicked; in what is vouched for, one item always is: it is shown first."""
    learner, ranking, note = make(SteadyRank, Problem(12, 3), settings={}), np.arange(3), np.zeros(3 + NOTE_EXTRA)
    for t in range(1, 201):
        call_update(learner, Visit(t), (ranking + 3 * t) % 12, note, np.zeros(3, np.bool_), 3)
        told(learner, VOUCHED, t, (np.arange(3) + 3 * t + 2) % 12, clicked=2 if t % 4 == 1 else -1)
    favourite = (3 * 1 + 2 + 2) % 12
    call_rank(learner, Visit(201), np.ones(12, np.bool_), ranking, note, np.random.default_rng(0))
    assert ranking[0] == favourite == np.argmax(learner.view().regime(1).estimate)


def test_what_is_counted_apart_moves_with_its_rounds():
    """Tastes turn at round 1,001. Before that is noticed, rounds 990 and 1,010 are vouched for, 1,020 is silent."""
    taste = np.where(np.arange(20) < 5, 0.7, 0.02)
    learner = lived_through(lambda t: taste if t <= 1_000 else taste[::-1], 1_049, 20, 4)
    assert learner.view().n_changes == 0
    told(learner, VOUCHED, 990, np.arange(4))
    told(learner, VOUCHED, 1_010, np.arange(16, 20), clicked=1)
    told(learner, SILENCE, 1_020, np.arange(16, 20))
    note, items = np.zeros(4 + NOTE_EXTRA), np.arange(4)
    call_update(learner, Visit(1_050), items, note, np.zeros(4, np.bool_), 4)
    view = learner.view()
    assert [(c.start, c.noticed) for c in view.changes] == [(1_001, 1_050)]
    assert [r.rounds for r in view.regimes] == [1_001, 51]
    assert learner.regimes.untested_rounds[:3].tolist() == [1, 2, 0]
    apart = [np.flatnonzero(row).tolist() for row in learner.regimes.untested_looks[:2]]
    assert apart == [[0, 1, 2, 3], [16, 17, 18, 19]]
    assert learner.regimes.untested_clicks[:2].sum(1).tolist() == [0, 1]


def test_a_span_takes_no_more_than_16_bits_hold_of_what_is_counted_apart():
    regimes = Regimes.create(2)
    ranking, clicks = np.array([1]), np.array([True])
    count(regimes, ranking, clicks, 1, 1)
    regimes.span_untested_rounds[:] = regimes.span_untested_looks[:, 1] = MOST_SPAN_UNTESTED - 1
    for _ in range(3):
        count_untested(regimes, ranking, clicks, 1, 2, False)
    assert (regimes.span_untested_rounds == MOST_SPAN_UNTESTED).all()
    assert (regimes.span_untested_looks[:, 1] == MOST_SPAN_UNTESTED).all()
    assert regimes.untested_looks[0, 1] == 3


def test_what_is_counted_apart_never_overflows():
    regimes = Regimes.create(3)
    regimes.untested_looks[0, 1] = MOST_UNTESTED - 1
    for _ in range(3):
        count_untested(regimes, np.arange(2), np.array([False, True]), 2, 1, False)
    assert (regimes.untested_looks[0].tolist(), regimes.untested_clicks[0].tolist()) == (
        [1, MOST_UNTESTED, 0],
        [0, 1, 0],
    )
    assert regimes.rounds[0] == 3


def on_the_web(seed, rounds=3_600, attack=()):
    """60 lists a second, answered within a second; 3 % never are, and are over after 4 s. Answers settle in 1.2 s.

    During an attack nine in ten visitors are bots that click three items nobody likes.
    """
    now, world, waiting = [0.0], np.random.default_rng(seed + 50), []
    names = [f"item {k}" for k in range(40)]
    chance = world.permutation(np.concatenate([np.linspace(0.42, 0.24, 7), world.uniform(0.01, 0.09, 33)]))
    bots = np.where(np.isin(np.arange(40), np.argsort(chance)[:3]), 0.6, 0.0)
    ranker = sr.Ranker(names, 6, seed=seed, lifetime=4.0, settle=1.2, clock=lambda: now[0])
    for t in range(1, rounds + 1):
        now[0] = t / 60
        shown = ranker.rank()
        liked = bots if t in attack and world.random() < 0.9 else chance
        clicked = next((item for item in shown.items if world.random() < liked[names.index(item)]), None)
        if world.random() >= 0.03:
            waiting.append((now[0] + world.uniform(0.1, 0.9), shown.id, clicked))
        for answer in sorted(waiting):
            if answer[0] <= now[0]:
                waiting.remove(answer)
                ranker.feedback(answer[1], clicked=answer[2])
    return ranker, chance


@pytest.mark.parametrize("seed", range(4))
def test_lists_that_nobody_answers_open_no_regime_where_answers_settle_sooner(seed):
    ranker, chance = on_the_web(seed)
    view = ranker.view()
    assert (len(view.regimes), view.n_changes, view.corrupted) == (1, 0, 0.0)
    assert view.rounds > 3_300
    assert ranker._learner_state.learner.regimes.untested_rounds[0] < 160
    assert sum(s.looks for s in ranker.standings()) == view.regime(1).looks.sum()
    assert len(set(np.argsort(-view.regime(1).estimate)[:7]) & set(np.argsort(-chance)[:7])) >= 6


@pytest.mark.parametrize("seed", range(2))
def test_an_attack_is_noticed_where_answers_settle_sooner(seed):
    """Rounds 2,001 to 3,000: its start and its end, each dated to within 50 rounds and noticed within 150."""
    view = on_the_web(seed, 4_000, range(2_001, 3_001))[0].view()
    assert [(c.before, c.after) for c in view.changes] == [(1, 2), (2, 1)]
    for change, start in zip(view.changes, (2_001, 3_001), strict=True):
        assert abs(change.start - start) <= 50
        assert start < change.noticed <= start + 150
    assert view.corrupted == pytest.approx(0.25, abs=0.03)


def test_nothing_examined_says_nothing():
    learner = make(SteadyRank, Problem(4, 2), settings={})
    call_update(learner, Visit(1), np.arange(2), np.zeros(2 + NOTE_EXTRA), np.zeros(2, np.bool_), 0)
    assert learner.view().rounds == 0


@pytest.mark.slow
def test_a_slow_drift_is_no_attack():
    """Every item moves by up to 0.1 in 10,000 rounds: one regime, at most 1.3 times the regret of CascadeTS."""
    slow = {"users": "DriftingCascade", "users_settings": {"pattern": "slow", "span": 10_000}}
    run, other = (run_on("yelp-pizza", "moderate", name, **slow) for name in ("SteadyRank", "CascadeTS"))
    assert [len(view.regimes) for view in run.views] == [1, 1, 1]
    assert run.final.mean() < 1.3 * other.final.mean()


@pytest.mark.parametrize("seed", range(2))
def test_feedback_in_impression_order_but_3000_rounds_late_opens_no_regime(seed):
    attraction = sr.profile("yelp-pizza", "sparse").attraction
    learner = make(SteadyRank, Problem(attraction.size, 10), settings={})
    mind, world, told_of = np.random.default_rng(seed), np.random.default_rng(10 + seed), []
    allowed = np.ones(attraction.size, np.bool_)
    for t in range(1, 9_001):
        ranking, note = np.zeros(10, np.int64), np.zeros(10 + NOTE_EXTRA)
        call_rank(learner, Visit(t), allowed, ranking, note, mind)
        bits = world.random(10) < attraction[ranking]
        examined = int(np.argmax(bits)) + 1 if bits.any() else 10
        bits[examined:] = False
        told_of.append((Visit(t), ranking, note, bits, examined))
        if t > 3_000:
            call_update(learner, *told_of[t - 3_001])
    assert len(learner.view().regimes) == 1
    assert learner.view().rounds == 6_000


@pytest.mark.slow
def test_impossible_feedback_is_counted_and_left_out():
    """Without insurance, which serves the users of an inverted world whether its feedback is rejected or not."""
    attack = {"adversary": "PrefixFlip", "schedule": "front", "budget": 1_000, "horizon": 4_000}
    plain = run_on("yelp-pizza", "sparse", settings={"insurance": 0}, **attack)
    strict = run_on("yelp-pizza", "sparse", settings={"insurance": 0}, guard="Plausible", **attack)
    assert all(view.rejected == 0 for view in plain.views)
    assert all(800 < view.rejected <= 1_000 for view in strict.views)
    assert all(view.rounds + view.rejected == 4_000 for view in strict.views)
    assert strict.final.mean() < 0.75 * plain.final.mean()


def test_an_inversion_is_told_by_hand():
    """Regime 1 knows item 0 as liked by 8 of 10 and item 1 by none; regime 2 is the other way round.

    With the flat prior item 0 attracts with 9/12, item 1 with 1/12: a click on item 1 and none on item 0 have
    a chance of 1/12 x 3/12 as learnt, 11/12 x 9/12 inverted. Item 2 is not known.
    """
    learner = make(SteadyRank, Problem(3, 2), settings={})
    move(learner.regimes, 1, 0, 7)
    regimes = learner.regimes
    regimes.tally[STORED] = 2
    regimes.number[:2] = 1, 2
    regimes.log[0, 2:] = 1, 2
    regimes.looks[0], regimes.clicks[0, 0] = (10, 10, 4), 8
    regimes.looks[1], regimes.clicks[1, 1] = (1, 1, 90), 1
    assert learner.view().changes[0].inversion == pytest.approx(math.log(33))
    regimes.clicks[1, :2] = 1, 0
    assert learner.view().changes[0].inversion == pytest.approx(-math.log(33))
    regimes.number[0] = 3  # forgotten
    assert learner.view().changes[0].inversion == 0.0


@pytest.mark.parametrize(
    ("adversary", "inverted"), [("PrefixFlip", True), pytest.param("Demote", False, marks=pytest.mark.slow)]
)
def test_a_view_says_where_clicks_were_inverted(adversary, inverted):
    """Both the start and the end of it; an attack that only hides clicks is none."""
    run = run_on("movielens", "sparse", adversary=adversary, schedule="late", budget=1_500)
    for view in run.views:
        assert {change.inverted for change in view.changes} == {inverted}
        assert view.inverted == inverted


def test_a_view_before_the_first_round():
    view = make(SteadyRank, Problem(4, 2), settings={}).view()
    assert (view.current, view.trusted, view.rounds, view.corrupted, view.changes) == (1, 1, 0, 0.0, ())
    assert view.regime(1).estimate.tolist() == [0.5] * 4
    with pytest.raises(KeyError, match="no regime 7: known are 1"):
        view.regime(7)


def test_a_view_remembers_the_latest_changes():
    """Forced back and forth a hundred times; the log holds 64 of them, oldest first."""
    learner = make(SteadyRank, Problem(4, 2), settings={})
    for i in range(100):
        move(learner.regimes, 1 - i % 2, 0, 1 + i)
    view = learner.view()
    assert view.n_changes == 100
    assert [change.noticed for change in view.changes] == list(range(37, 101))


class WithField(sr.learners()["Random"]):
    """A learner whose `view` is no method."""

    view = 3


@pytest.mark.interpreted
def test_learners_without_a_view_give_none():
    assert sr.simulate(WithField, [0.1, 0.2], length=1, horizon=10, seeds=[1]).views == (None,)
    assert sr.simulate("CascadeTS", [0.1, 0.2], length=1, horizon=10, seeds=[1, 2]).views == (None, None)


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("insurance", 0.6, "insurance must be a finite number from 0.0 to 0.5, not 0.6"),
        ("caution", 1.5, "caution must be a finite number from 0.0 to 1.0, not 1.5"),
        ("window", 0, "window must be a whole number from 1 to 1000000, not 0"),
        ("hedge", 1, "SteadyRank has no setting 'hedge': it has insurance, revisit, caution, window"),
    ],
)
def test_bad_settings_are_named(setting, value, words):
    with pytest.raises(ValueError, match=words):
        make(SteadyRank, Problem(4, 2), settings={setting: value})
