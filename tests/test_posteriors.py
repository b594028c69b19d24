"""The largest draws from Beta posteriors: their law, their parts worked out by hand, and what is kept of them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from slow_draws import Draws, members
from slow_draws import length_above as slow_length
from steadyrank.core.compiling.jit import uncached
from steadyrank.core.kernels import top
from steadyrank.learners.shared.thompson import (
    SURE,
    Groups,
    Posteriors,
    check_bar,
    derive_all,
    draw_largest,
    length_above,
    load,
    miss_of,
    move_item,
    proposal,
    raise_bar,
    set_counts,
)
from steadyrank.learners.steady.hedge import lowest_means_allowed

pytestmark = pytest.mark.pure

BILLION = 10**9
EXTREME = [(BILLION, BILLION), (0, 400), (0, 0), (5, BILLION), (BILLION, 2), (0, 3), (40, 60), (1, 1)]


def posteriors_of(prior, pairs, length):
    """Of items with these clicks and looks without a click."""
    found = Posteriors.create(len(pairs), length, *prior)
    for k, (won, lost) in enumerate(pairs):
        set_counts(found, k, won + lost, won)
    raise_bar(found, length)
    return found


def test_length_by_hand():
    """Beta(1, 1) above 0.9: u = 0.1. Beta(2, 3) above 0.8: lean 1/4, u = 0.8 x 0.2^3 x 12 / 2.75; the tail is 0.0272.

    Beta(1/2, 2) above 1/4: u = 2 x (3/4)^2 / 2 / B(1/2, 2) with B = 4/3.
    """
    assert length_above(1.0, 1.0, 0.9) == pytest.approx(-math.log(0.9))
    assert length_above(2.0, 3.0, 0.8) == pytest.approx(-math.log1p(-0.8 * 0.008 * 12 / 2.75))
    assert length_above(0.5, 2.0, 0.25) == pytest.approx(-math.log1p(-9 / 16 / (4 / 3)))
    assert length_above(1.0, 1.0, 0.2) == -1.0  # 0.8 is more than SURE
    assert length_above(30.0, 2.0, 0.5) == -1.0  # the mode lies above
    assert length_above(1.0, 1.0, 0.0) == -1.0


@given(st.floats(0.01, 200), st.floats(0.01, 2000), st.floats(0.001, 0.999))
@settings(max_examples=300, deadline=None)
def test_an_envelope_is_never_smaller_than_the_tail(alpha, beta, bar):
    length = length_above(alpha, beta, bar)
    if length >= 0:
        u = -math.expm1(-length)
        assert stats.beta(alpha, beta).sf(bar) <= u * (1 + 1e-9) + 1e-300
        assert u <= SURE
        assert length == pytest.approx(slow_length(alpha, beta, bar), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize(("a", "b", "bar"), [(0.3, 8.0, 0.2), (0.9, 20.0, 0.1), (6.0, 9.0, 0.6), (2.5, 4.0, 0.7)])
@pytest.mark.parametrize("proposals", [5_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_proposals_have_the_law_of_the_tail(a, b, bar, proposals):
    """Kolmogorov-Smirnov at 1e-4 on those kept, their share within 4 standard errors."""
    rng = np.random.default_rng(7)
    drawn = np.array([proposal(a, b, bar, rng) for _ in range(proposals)])
    kept, tail = drawn[drawn >= 0], stats.beta(a, b).sf(bar)
    share = tail / -math.expm1(-length_above(a, b, bar))
    assert abs(kept.size / drawn.size - share) < 4 * math.sqrt(share * (1 - share) / drawn.size)
    assert stats.kstest(1 - stats.beta(a, b).sf(kept) / tail, "uniform", method="asymp").pvalue > 1e-4


@uncached
def count_places(posteriors, allowed, size, n, rng, places, all_drawn):
    groups, prior, every = posteriors.groups, posteriors.prior, np.flatnonzero(allowed)
    ranking = np.empty(size, np.int64)
    whole = 0
    for _ in range(n):
        items, values = every, np.full(allowed.size, -1.0)
        if all_drawn:
            for g in range(groups.size[0]):
                won, lost = groups.clicks[g], groups.looks[g] - groups.clicks[g]
                for k in groups.order[groups.first[g] : groups.first[g] + groups.items[g]]:
                    values[k] = rng.beta(prior[0] + won, prior[1] + lost)
            values = values[every]
        else:
            items, values = draw_largest(posteriors, allowed, size, rng)
            whole += items.size == every.size
        top(values, ranking, rng)
        for p in range(size):
            places[p, items[ranking[p]]] += 1
            for q in range(p):
                places[size, (items[ranking[p]] * 7 + items[ranking[q]]) % allowed.size] += 1  # pairs, folded
    return whole


def cases():
    rng = np.random.default_rng(5)
    counts = rng.integers(0, [20, 300], (30, 2)).tolist()
    yield "cold", (1.0, 1.0), [(0, 0)] * 30, 3
    yield "warm", (0.3, 0.8), counts, 3
    yield "tied", (0.2, 5.0), [(a // 10, b // 150) for a, b in counts], 4
    yield "extreme", (0.05, 0.5), EXTREME + [(0, b) for _, b in counts[:22]], 3
    yield "all clicked", (0.99, 0.02), [(a, b // 100) for a, b in counts], 3
    yield "200", (1.0, 1.0), rng.integers(0, [40, 800], (200, 2)).tolist(), 10


@pytest.mark.parametrize(("prior", "pairs", "size"), [pytest.param(*c[1:], id=c[0]) for c in cases()])
def test_lists_have_the_law_of_full_draws(prior, pairs, size):
    """Who stands in each place, and which pairs stand together, 40,000 lists against as many: chi-square at 1e-5."""
    found, allowed, n = posteriors_of(prior, pairs, size), np.ones(len(pairs), np.bool_), 40_000
    allowed[3] = False
    fast, full = (np.zeros((size + 1, len(pairs)), np.int64) for _ in range(2))
    whole = count_places(found, allowed, size, n, np.random.default_rng(1), fast, False)
    count_places(found, allowed, size, n, np.random.default_rng(2), full, True)
    assert found.bar[0] > 0
    assert whole < n / 10
    assert fast[:size, 3].sum() == 0
    for row in np.stack([fast, full], axis=1):
        seen = row[:, row.sum(axis=0) > 20]
        assert seen.shape[1] < 2 or stats.chi2_contingency(seen).pvalue > 1e-5


def learn_by(draw, attraction, size, rounds, seed):
    """Cascade users and Thompson sampling from Beta(1 + S, 1 + n - S): loss, and how often each item was shown."""
    rng, items = np.random.default_rng(seed), attraction.size
    looks, clicks, shown = (np.zeros(items, np.int64) for _ in range(3))
    best, lost = 1.0 - np.prod(1.0 - np.sort(attraction)[-size:]), 0.0
    lists = draw(items, size, rng)
    for t in range(rounds):
        ranking = lists.send((looks, clicks)) if t else next(lists)
        lost += best - (1.0 - np.prod(1.0 - attraction[ranking]))
        shown[ranking] += 1
        bits = rng.random(size) < attraction[ranking]
        examined = ranking[: bits.argmax() + 1] if bits.any() else ranking
        looks[examined] += 1
        clicks[examined] += bits[: examined.size]
    return lost, shown


def all_drawn(items, size, rng):
    """Lists of the largest of all draws."""
    looks = clicks = np.zeros(items, np.int64)
    while True:
        draws = rng.beta(1.0 + clicks, 1.0 + looks - clicks)
        looks, clicks = yield np.argsort(-draws)[:size]


def few_drawn(items, size, rng):
    """Lists by the draws that can matter, with all that is kept from round to round."""
    kept, ranking, allowed = Posteriors.create(items, size, 1.0, 1.0), np.zeros(size, np.int64), np.ones(items, bool)
    while True:
        found, draws = draw_largest(kept, allowed, size, rng)
        top(draws, ranking, rng)
        looks, clicks = yield found[ranking]
        for k in found[ranking]:
            set_counts(kept, k, looks[k], clicks[k])
        check_bar(kept, size)


@pytest.mark.slow
def test_learning_has_the_law_of_full_draws():
    """400 runs each: loss within three standard errors, and the share of each of 60 items within four."""
    attraction = np.random.default_rng(4).beta(0.5, 4.0, 60)
    losses, shares = [], []
    for draw in (all_drawn, few_drawn):
        runs = [learn_by(draw, attraction, 3, 50, seed) for seed in range(400)]
        losses.append(np.array([lost for lost, _ in runs]))
        shares.append(np.array([shown for _, shown in runs]))
    assert abs(z_between(*losses)) < 3
    assert np.abs(z_between(*shares)).max() < 4


def z_between(one, other):
    """By how many standard errors two means differ, column by column."""
    return (one.mean(0) - other.mean(0)) / np.sqrt((one.var(0) + other.var(0)) / len(one))


def test_too_few_above_the_bar_bring_all_others_from_below():
    """With the bar far too high nearly every list is made of what lies below, and has the same law."""
    pairs, size = [(k % 4, 3 + k % 7) for k in range(30)], 4
    found, allowed = posteriors_of((1.0, 1.0), pairs, size), np.ones(30, np.bool_)
    found.bar[0] = 0.9
    derive_all(found)
    fast, full = (np.zeros((size + 1, 30), np.int64) for _ in range(2))
    assert count_places(found, allowed, size, 40_000, np.random.default_rng(1), fast, False) > 39_000
    count_places(found, allowed, size, 40_000, np.random.default_rng(2), full, True)
    for row in np.stack([fast, full], axis=1):
        assert stats.chi2_contingency(row).pvalue > 1e-5


@given(st.integers(1, 400), st.integers(0, 2**32), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_what_is_kept_equals_what_is_computed_anew(items, seed, length):
    """After any updates: who has which counts, what is kept of them, and the bar is where the slow version has it."""
    rng = np.random.default_rng(seed)
    found, slow = Posteriors.create(items, length, 1.0, 1.0), Draws([(1.0, 1.0)] * items, length)
    counts = np.zeros((items, 2), np.int64)
    for _ in range(6):
        for k in rng.permutation(items)[:12]:
            counts[k] = counts[k] + rng.integers(0, [3, 40]) if rng.random() < 0.8 else counts[k] // 2
            set_counts(found, k, counts[k].sum(), counts[k, 0])
        check_bar(found, length)
        slow.set([(1.0 + won, 1.0 + lost) for won, lost in counts])
    slow.lie(found)
    assert found.bar[0] == pytest.approx(slow.bar, rel=1e-9)
    assert load(found) == pytest.approx(slow.load(found.bar[0]), rel=1e-9)
    for (looks, won), known in members(found).items():
        assert known == set(np.flatnonzero((counts == [won, looks - won]).all(axis=1)).tolist())
        assert miss_of(found, min(known)) == (1.0 + looks - won) / (2.0 + looks)
    n, kept = int(found.groups.size[0]), found.groups.length.copy()
    derive_all(found)
    np.testing.assert_array_equal(found.groups.length[:n], kept[:n])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(0, 4)), max_size=60))
@settings(max_examples=200, deadline=None)
def test_items_lie_beside_their_equals(moves):
    """However items come to their counts, up or down, alone or with others; a group that is opened is named."""
    groups, counts = Groups.create(6), dict.fromkeys(range(6), (0, 0))
    for k, looks, clicks in moves:
        known = (looks, clicks) in counts.values()
        opened = move_item(groups, k, looks, clicks)
        assert (opened < 0) == known
        assert known or (groups.looks[opened], groups.clicks[opened], groups.items[opened]) == (looks, clicks, 1)
        counts[k] = looks, clicks
    found = members(Posteriors(groups, None, None))
    assert found == {pair: {k for k in counts if counts[k] == pair} for pair in counts.values()}
    assert list(found) == sorted(found, key=lambda pair: (pair[1], pair[0]))


def test_those_missed_most_are_dealt_among_equals():
    """Misses 5/6 (two kinds of items that tie, four in all, one not allowed), then 1/2, which five items have."""
    found, rng = Posteriors.create(9, 3, 1.0, 1.0), np.random.default_rng(0)
    for k, (looks, clicks) in enumerate([(4, 0), (4, 0), (4, 0), (10, 1), (2, 1), (2, 1)]):
        set_counts(found, k, looks, clicks)
    allowed, best, seen = np.arange(9) != 1, np.zeros(4, np.int64), np.zeros((4, 9), np.int64)
    for _ in range(3_000):
        lowest_means_allowed(found, allowed, best, rng)
        seen[np.arange(4), best] += 1
    assert seen[:3, [0, 2, 3]].sum() == 9_000
    assert seen[3, 4:].sum() == 3_000
    assert abs(seen[:3, [0, 2, 3]] - 1_000).max() < 4 * math.sqrt(3_000 * 2 / 9)
    assert abs(seen[3, 4:] - 600).max() < 4 * math.sqrt(3_000 * 0.16)
    allowed[:] = np.arange(9) > 4  # none of the groups that come first: all are looked at
    lowest_means_allowed(found, allowed, best, rng)
    assert sorted(best) == [5, 6, 7, 8]


def test_few_items_are_all_drawn():
    found = Posteriors.create(12, 10, 1.0, 1.0)
    allowed = np.arange(12) % 3 > 0
    items, values = draw_largest(found, allowed, 5, np.random.default_rng(0))
    assert items.tolist() == np.flatnonzero(allowed).tolist()
    rng = np.random.default_rng(0)
    rng.standard_exponential()  # the first point on a line on which nobody lies
    assert values.tolist() == [rng.beta(1.0, 1.0) for _ in range(8)]


@pytest.mark.parametrize("seen", [12, 40])
def test_more_items_know_the_prior(seen):
    """Memory for more items: those that are there keep their posteriors, the others have the prior."""
    found = posteriors_of((0.5, 8.0), [(k, 1) if k < seen else (0, 0) for k in range(40)], 3)
    wider = found.widened(Posteriors.create(80, 3, 1.0, 1.0))
    expected = members(found)
    expected[0, 0] = {*expected.get((0, 0), ()), *range(40, 80)}
    assert members(wider) == expected
    assert (wider.bar[0], wider.prior.tolist()) == (found.bar[0], [0.5, 8.0])
    assert wider.groups.length[0] == length_above(0.5, 8.0, found.bar[0])
    assert (miss_of(wider, 79), miss_of(wider, 3)) == (8.0 / 8.5, 9.0 / 12.5)
