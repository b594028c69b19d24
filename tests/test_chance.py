import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from steadyrank.core import philox

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0x00000000, 0x00000000), 0x00000000, (0xFF1DAE59, 0x6CD10DF2)),
        ((0xFFFFFFFF, 0xFFFFFFFF), 0xFFFFFFFF, (0x2C3F628B, 0xAB4FD7AD)),
        ((0x243F6A88, 0x85A308D3), 0x13198A2E, (0xDD7CE038, 0xF62A4C12)),
    ],
)
def test_philox_gives_the_published_words(counter, key, expected):
    """Known answers of Philox2x32 with ten rounds, from the authors' Random123 distribution."""
    assert tuple(philox.philox(*counter, key)) == expected


def test_uniform_is_uniform_and_advances_one_step():
    """Kolmogorov-Smirnov at 20,000 draws and lag-one correlation, p above 0.001."""
    memory = philox.start(7)
    draws = np.array([philox.uniform(memory) for _ in range(20_000)])
    assert memory[1] == 20_000
    assert 0.0 <= draws.min() < draws.max() < 1.0
    assert stats.kstest(draws, "uniform").pvalue > 0.001
    assert stats.pearsonr(draws[1:], draws[:-1]).pvalue > 0.001


def test_streams_of_different_seeds_differ():
    first = {philox.uniform(philox.start(seed)) for seed in range(200)}
    assert len(first) == 200


@pytest.mark.parametrize(("n", "ones", "size"), [(21, 9, 5), (420, 100, 21), (3000, 40, 301), (50, 48, 20)])
def test_hypergeometric_has_its_law(n, ones, size):
    """Chi-square over cells with at least 5 expected of 20,000 draws, p above 0.001."""
    memory = philox.start(1)
    draws = np.array([philox.hypergeometric(n, ones, size, memory) for _ in range(20_000)])
    support = np.arange(max(0, size - (n - ones)), min(size, ones) + 1)
    assert set(draws) <= set(support)
    expected = 20_000 * stats.hypergeom(n, ones, size).pmf(support)
    keep = expected >= 5
    seen = np.array([(draws == x).sum() for x in support])
    if keep.all():
        observed, wanted = seen, expected
    else:
        observed = np.append(seen[keep], seen[~keep].sum())
        wanted = np.append(expected[keep], expected[~keep].sum())
    assert stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > 0.001


@given(st.integers(1, 300), st.data(), st.integers(0, 2**20))
def test_hypergeometric_stays_within_its_support(n, data, seed):
    ones, size = data.draw(st.integers(0, n)), data.draw(st.integers(0, n))
    drawn = philox.hypergeometric(n, ones, size, philox.start(seed))
    assert max(0, size - (n - ones)) <= drawn <= min(size, ones)


@given(st.sampled_from([60, 3_000, 131_071, 200_000]), st.integers(1, 60), st.data())
def test_the_chance_of_each_count_is_scipys(n, size, data):
    """By products and by logarithms, on both sides of where these take over; relative error below 1e-8."""
    ones = data.draw(st.integers(0, n))
    x = data.draw(st.integers(max(0, size - (n - ones)), min(size, ones)))
    chances = stats.hypergeom(n, ones, size)
    assert philox.hypergeometric_at(x, n, ones, size) == pytest.approx(chances.pmf(x), rel=1e-8, abs=1e-290)
