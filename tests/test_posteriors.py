"""The largest draws from Beta posteriors: their law, their parts worked out by hand, and what is kept of them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from slow_draws import Draws
from slow_draws import length_above as slow_length
from steadyrank._jit import uncached
from steadyrank.indices.posteriors import (
    FAN,
    SURE,
    Posteriors,
    draw_largest,
    item_at,
    length_above,
    load,
    proposal,
    put_all,
    raise_bar,
    set_posterior,
    settle,
)
from steadyrank.kernels import top

EXTREME = [(1e9, 1e9), (0.05, 400.5), (0.05, 0.95), (5.0, 1e9), (1e9, 2.0), (0.3, 3.0), (40.0, 60.0), (1.0, 1.0)]


def posteriors_of(pairs, length):
    found = Posteriors.create(len(pairs), length, 1.0, 1.0)
    for k, (a, b) in enumerate(pairs):
        set_posterior(found, k, a, b)
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
def test_proposals_have_the_law_of_the_tail(a, b, bar):
    """40,000 proposals: Kolmogorov-Smirnov at 1e-4 on those kept, and their share within 4 standard errors."""
    rng = np.random.default_rng(7)
    drawn = np.array([proposal(a, b, bar, rng) for _ in range(40_000)])
    kept, tail = drawn[drawn >= 0], stats.beta(a, b).sf(bar)
    share = tail / -math.expm1(-length_above(a, b, bar))
    assert abs(kept.size / drawn.size - share) < 4 * math.sqrt(share * (1 - share) / drawn.size)
    assert stats.kstest(1 - stats.beta(a, b).sf(kept) / tail, "uniform").pvalue > 1e-4


@uncached
def count_places(posteriors, allowed, size, n, rng, places, all_drawn):
    items, values = np.empty(allowed.size, np.int64), np.empty(allowed.size)
    ranking = np.empty(size, np.int64)
    whole = 0
    for _ in range(n):
        m = 0
        if all_drawn:
            for k in range(allowed.size):
                if allowed[k]:
                    items[m] = k
                    values[m] = rng.beta(posteriors.alpha[k], posteriors.beta[k])
                    m += 1
        else:
            m = draw_largest(posteriors, allowed, size, rng, items, values)
            whole += m == allowed.sum()
        top(values[:m], ranking, rng)
        for p in range(size):
            places[p, items[ranking[p]]] += 1
            for q in range(p):
                places[size, (items[ranking[p]] * 7 + items[ranking[q]]) % allowed.size] += 1  # pairs, folded
    return whole


def cases():
    rng = np.random.default_rng(5)
    counts = rng.integers(0, [20, 300], (30, 2))
    yield "cold", [(1.0, 1.0)] * 30, 3
    yield "warm", [(0.3 + a, 0.8 + b) for a, b in counts], 3
    yield "tied", [(0.2 + a // 10, 5.0 + b // 150) for a, b in counts], 4
    yield "extreme", EXTREME + [(0.02, 0.5 + b) for _, b in counts[:22]], 3
    yield "all clicked", [(0.99 + a, 0.02 + b // 100) for a, b in counts], 3
    yield "200", [(1.0 + a, 1.0 + b) for a, b in rng.integers(0, [40, 800], (200, 2))], 10


@pytest.mark.parametrize(("pairs", "size"), [pytest.param(*c[1:], id=c[0]) for c in cases()])
def test_lists_have_the_law_of_full_draws(pairs, size):
    """Who stands in each place, and which pairs stand together, 40,000 lists against as many: chi-square at 1e-5."""
    found, allowed, n = posteriors_of(pairs, size), np.ones(len(pairs), np.bool_), 40_000
    allowed[3] = False
    fast, full = (np.zeros((size + 1, len(pairs)), np.int64) for _ in range(2))
    whole = count_places(found, allowed, size, n, np.random.default_rng(1), fast, False)
    count_places(found, allowed, size, n, np.random.default_rng(2), full, True)
    assert found.bar[0] > 0
    assert whole < n / 10
    assert fast[:, 3].sum() <= fast[size].sum()
    for row in np.stack([fast, full], axis=1):
        seen = row[:, row.sum(axis=0) > 20]
        assert seen.shape[1] < 2 or stats.chi2_contingency(seen).pvalue > 1e-5


def test_too_few_above_the_bar_bring_all_others_from_below():
    """With the bar far too high nearly every list is made of what lies below, and has the same law."""
    pairs, size = [(1.0 + k % 4, 4.0 + k % 7) for k in range(30)], 4
    found, allowed = posteriors_of(pairs, size), np.ones(30, np.bool_)
    found.bar[0] = 0.9
    put_all(found)
    fast, full = (np.zeros((size + 1, 30), np.int64) for _ in range(2))
    assert count_places(found, allowed, size, 40_000, np.random.default_rng(1), fast, False) > 39_000
    count_places(found, allowed, size, 40_000, np.random.default_rng(2), full, True)
    for row in np.stack([fast, full], axis=1):
        assert stats.chi2_contingency(row).pvalue > 1e-5


@given(st.integers(1, 600), st.integers(0, 2**32), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_what_is_kept_equals_what_is_computed_anew(items, seed, length):
    """After any updates: lengths, their sums, who is sure; and the bar is where the slow version has it."""
    rng = np.random.default_rng(seed)
    found, slow = Posteriors.create(items, length, 1.0, 1.0), Draws([(1.0, 1.0)] * items, length)
    pairs = [(1.0, 1.0)] * items
    for _ in range(6):
        touched = rng.permutation(items)[: min(items, 12)]
        for k in touched:
            pairs[k] = (pairs[k][0] + rng.integers(0, 3), pairs[k][1] + rng.integers(0, 40))
            set_posterior(found, k, *pairs[k])
        settle(found, touched, touched.size, length)
        slow.set(pairs)
    assert found.bar[0] == pytest.approx(slow.bar, rel=1e-9)
    again = posteriors_of(pairs, length)
    again.bar[0] = found.bar[0]
    put_all(again)
    np.testing.assert_array_equal(again.lengths, found.lengths)
    np.testing.assert_array_equal(again.is_sure, found.is_sure)
    np.testing.assert_array_equal(again.sure[: again.size[0]], found.sure[: found.size[0]])
    assert found.sure[: found.size[0]].tolist() == np.flatnonzero(found.is_sure).tolist()
    assert load(found) == pytest.approx(slow.load(found.bar[0]), rel=1e-9)


@pytest.mark.parametrize("items", [40, FAN**2, 5000])
def test_points_on_the_line_find_their_item(items):
    rng = np.random.default_rng(3)
    found = posteriors_of([(1.0, 1.0 + b) for b in rng.integers(0, 50, items)], 2)
    ends = np.cumsum(found.lengths[:items])
    for at in rng.uniform(0, ends[-1], 200):
        assert item_at(found, at) == np.searchsorted(ends, at, side="right")


def test_few_items_are_all_drawn():
    found = Posteriors.create(12, 10, 1.0, 1.0)
    items, values = np.zeros(12, np.int64), np.zeros(12)
    allowed = np.arange(12) % 3 > 0
    assert draw_largest(found, allowed, 5, np.random.default_rng(0), items, values) == 8
    assert items[:8].tolist() == np.flatnonzero(allowed).tolist()
    rng = np.random.default_rng(0)
    assert values[:8].tolist() == [rng.beta(1.0, 1.0) for _ in range(8)]


def test_more_items_know_the_prior():
    """Memory for more items: those that are there keep their posteriors, the others have the prior."""
    found = posteriors_of([(1.0 + k, 9.0) for k in range(40)], 3)
    found.prior[:] = 0.5, 8.0
    wider = found.widened(Posteriors.create(80, 3, 1.0, 1.0))
    assert wider.alpha.tolist() == [1.0 + k for k in range(40)] + [0.5] * 40
    assert wider.bar[0] == found.bar[0]
    np.testing.assert_array_equal(wider.lengths[:40], found.lengths[:40])
    assert wider.lengths[40] == length_above(0.5, 8.0, found.bar[0])
    assert wider.miss[79] == 8.0 / 8.5
