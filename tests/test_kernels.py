import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

import references
from steadyrank.core import kernels

pytestmark = pytest.mark.pure

values = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, math.inf]) | st.floats(0, 1), min_size=1, max_size=30)


@given(values, st.data(), st.integers(0, 2**32))
def test_top_equals_the_obvious_version_draw_by_draw(index, data, seed):
    size = data.draw(st.integers(1, len(index)))
    ranking = np.zeros(size, np.int64)
    fast, slow = np.random.default_rng(seed), np.random.default_rng(seed)
    kernels.top(np.array(index), ranking, fast)
    assert ranking.tolist() == references.top(index, size, slow)
    assert fast.bit_generator.state == slow.bit_generator.state
    counted = np.random.default_rng(seed)
    counted.random(size)
    assert fast.bit_generator.state == counted.bit_generator.state


@given(values, st.data())
def test_largest_is_a_stable_sort_and_counts_ties_left_out(index, data):
    size = data.draw(st.integers(1, len(index)))
    ranking = np.zeros(size, np.int64)
    left_out = kernels.largest(np.array(index), ranking)
    order = np.argsort(-np.array(index), kind="stable")
    assert ranking.tolist() == order[:size].tolist()
    assert left_out == sum(index[k] == index[ranking[-1]] for k in order[size:])


def test_ties_are_uniform():
    """Five items tie for two places: 20 ordered pairs, chi-square at 12,000 draws, p above 0.001."""
    index = np.array([0.0, 1.0, 1.0, 1.0, 0.5, 1.0, 1.0])
    rng = np.random.default_rng(0)
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(12_000):
        ranking = np.zeros(2, np.int64)
        kernels.top(index, ranking, rng)
        seen[tuple(ranking.tolist())] = seen.get(tuple(ranking.tolist()), 0) + 1
    assert len(seen) == 20
    assert stats.chisquare(list(seen.values())).pvalue > 0.001


def test_ucbv_index_by_hand():
    """m = 3/10, t = 100: 0.3 + 2 sqrt(0.21 * 4.60517 / 10) + 6 * 4.60517 / 10 = 3.68506, above the cap of 1.

    With n = 100, S = 30: 0.3 + 2 sqrt(0.21 * 4.60517 / 100) + 0.27631 = 0.77300.
    """
    level, root, linear = np.zeros(2), np.zeros(2), np.zeros(2)
    kernels.mean_index(level, root, linear, 0, 0.3, 10, 2.0, 6.0)
    kernels.mean_index(level, root, linear, 1, 0.3, 100, 2.0, 6.0)
    lt = math.log(100)
    index = level + root * math.sqrt(lt) + linear * lt
    assert index == pytest.approx([3.6851, 0.77300], abs=5e-5)


def test_capped_items_tie_and_least_seen_items_go_first():
    looks = np.array([10, 200, 10, 3])
    table = kernels.IndexTable(looks, np.full(4, 0.9), np.zeros(4), 6.0 / looks, 1.0, kernels.LOG_CLOCK, 1.0)
    allowed = np.ones(4, np.bool_)
    firsts = set()
    for seed in range(40):
        ranking = np.zeros(3, np.int64)
        kernels.rank_by_index(table, 50, 5, allowed, ranking, np.random.default_rng(seed))
        assert ranking[0] == 3
        firsts.add(tuple(ranking[1:].tolist()))
    assert {(0, 2), (2, 0)} <= firsts  # both at the cap
    assert all(1 in pair or pair in {(0, 2), (2, 0)} for pair in firsts)
    kernels.rank_by_index(table._replace(tie_noise=0.0), 50, 5, allowed, ranking, np.random.default_rng(0))
    assert ranking.tolist() == [3, 0, 1]  # 0, 1 and 2 are at the cap: in item order


@pytest.mark.parametrize("t", [1, 2])
def test_the_clock_starts_at_log_2(t):
    ranking = np.zeros(1, np.int64)
    args = np.array([1, 1]), np.array([0.0, 0.1]), np.array([1.0, 0.0]), np.array([0.0, 1.0])
    kernels.rank_by_index(
        kernels.IndexTable(*args, np.inf, kernels.LOG_CLOCK, 1.0),
        t,
        1,
        np.ones(2, np.bool_),
        ranking,
        np.random.default_rng(0),
    )
    assert ranking[0] == 0  # sqrt(log 2) = 0.8326 beats 0.1 + log 2 = 0.7931


def kl(p, q):
    return stats.entropy([p, 1 - p], [q, 1 - q])


@given(st.integers(0, 400), st.integers(1, 400), st.floats(0.1, 60.0))
def test_kl_upper_solves_its_equation(clicks, n, level):
    clicks = min(clicks, n)
    p = clicks / n
    q = kernels.kl_upper(p, n, level)
    assert p - 1e-12 <= q <= 1.0
    if 0 < p < 1:
        edge = 1 - 1e-12
        if n * kl(p, edge) <= level:
            assert q >= edge - 1e-12
        else:
            exact = optimize.brentq(lambda x: n * kl(p, x) - level, p, edge, xtol=1e-15, rtol=1e-14)
            assert 1 - q == pytest.approx(1 - exact, rel=1e-7, abs=1e-10)


def test_kl_upper_by_hand():
    """No win in n: n log(1/(1 - q)) = level, so q = 1 - exp(-level / n); all clicks: 1."""
    assert kernels.kl_upper(0.0, 10, 5.0) == pytest.approx(1 - math.exp(-0.5), abs=1e-9)
    assert kernels.kl_upper(1.0, 10, 5.0) == pytest.approx(1.0, abs=1e-11)


def test_cascade_value_by_hand():
    assert kernels.cascade_value(np.array([0.5, 0.2, 0.1]), np.array([2, 0])) == pytest.approx(1 - 0.9 * 0.5)


def test_counting_ignores_positions_not_examined():
    looks, clicks = np.zeros(4, np.int64), np.zeros(4, np.int64)
    kernels.count_bits(looks, clicks, np.array([3, 1, 0]), np.array([False, True, True]), 2)
    assert looks.tolist() == [0, 1, 0, 1]
    assert clicks.tolist() == [0, 1, 0, 0]
