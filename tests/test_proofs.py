"""The numbers of docs/proofs-of-the-paper.md, where the paper's proofs do not hold as printed, and steps of ours."""

import math

import numpy as np
import pytest
from scipy import special, stats

import references
from steady_reference import add_best
from steadyrank.core.beta_prior import fit_prior
from steadyrank.learners.median.calibration import calibrate, majority

pytestmark = pytest.mark.pure


def odd_block(alpha, s):
    b = math.ceil(alpha * math.log(s))
    return b - 1 + b % 2


def log_slope(b, p):
    """log q_b'(p), q_b' = r choose(b, r) (p (1 - p))^(r - 1)."""
    r = (b + 1) // 2
    return math.log(r * math.comb(b, r)) + (r - 1) * math.log(p * (1 - p))


def corrupted_majority(b, mu, s, corrupted):
    """The chance that a random block of b out of s bits has a majority of ones, `corrupted` of the s inverted."""
    chance = 0.0
    for h in range(b + 1):
        ones = np.convolve(stats.binom.pmf(range(b - h + 1), b - h, mu), stats.binom.pmf(range(h + 1), h, 1 - mu))
        chance += stats.hypergeom.pmf(h, s, corrupted, b) * ones[(b + 1) // 2 :].sum()
    return chance


def test_an_honest_majority_of_three_bits_does_not_fix_their_median():
    """One of three bits inverted, mu = 0.1: both honest ones 0.01, or one of them and the inverted 0.18 * 0.9."""
    bits = [0.1, 0.1, 0.9]
    chance = sum(
        math.prod(p if one else 1 - p for p, one in zip(bits, (i & 1, i & 2, i & 4), strict=True))
        for i in range(8)
        if i.bit_count() >= 2
    )
    assert chance == pytest.approx(0.01 + 0.18 * 0.9) == pytest.approx(0.172)
    assert majority(3, 0.1) == pytest.approx(3 * 0.01 * 0.9 + 0.001) == pytest.approx(0.028)
    assert calibrate(3, chance) == pytest.approx(0.264, abs=5e-4)


def test_lemma_2_fails_under_corruption_at_its_own_sizes():
    """A tenth of 10^6 bits inverted: every block keeps its honest majority, and the mean of medians is elsewhere."""
    s, mu = 10**6, 0.4
    b = odd_block(15.7, s)
    blocks = s // b
    assert b == 217
    assert blocks * stats.hypergeom.sf((b - 1) // 2, s, s // 10, b) < 1e-30
    said, true = references.majority(b, mu), corrupted_majority(b, mu, s, s // 10)
    assert (said, true) == (pytest.approx(0.00144, abs=5e-6), pytest.approx(0.00877, abs=5e-6))
    assert calibrate(b, true) == pytest.approx(0.1 * 0.6 + 0.9 * 0.4, abs=1e-6)  # the mean of the corrupted bits
    log = math.log(2 / 0.05)
    bound = math.sqrt(2 * b * said * (1 - said) * log / s) + 2 * b * log / (3 * s)
    assert (bound, true - said) == (pytest.approx(0.00205, abs=5e-6), pytest.approx(0.0073, abs=5e-5))
    beyond = (true - said - bound) / math.sqrt(true * (1 - true) / blocks)
    assert beyond == pytest.approx(3.84, abs=0.01)
    assert stats.norm.sf(beyond) < 0.001


def test_the_constants_of_theorem_1_grow_with_the_rounds():
    table = {
        (2.0, 100): (0.41, 0.48, 0.82, 24),
        (2.0, 1_000): (0.34, 0.44, 0.97, 157),
        (2.0, 40_000): (0.27, 0.41, 1.5, 7_400),
        (15.7, 100): (0.15, 0.64, 78, 1.4e15),
        (15.7, 1_000): (0.12, 1.1, 1_500, 1.1e23),
        (15.7, 40_000): (0.097, 2.9, 190_000, 6.5e35),
    }
    for (alpha, s), row in table.items():
        b = odd_block(alpha, s)
        found = [math.exp(-log_slope(b, p)) for p in (0.5, 0.4, 0.3, 0.1)]
        assert found == [pytest.approx(x, rel=0.04) for x in row]  # as rounded on the page
    step = 1e-5  # the slope is that of the map
    assert math.exp(log_slope(21, 0.3)) == pytest.approx(
        (majority(21, 0.3 + step) - majority(21, 0.3 - step)) / (2 * step), rel=1e-6
    )
    assert 2 * math.sqrt(2 * 21) / math.exp(log_slope(21, 0.1)) == pytest.approx(96_000, rel=0.01)
    for alpha, power in ((15.7, 8.0), (2.0, 1.02)):
        assert -alpha / 2 * math.log(4 * 0.1 * 0.9) == pytest.approx(power, abs=0.03)
        low, high = (log_slope(odd_block(alpha, s), 0.1) for s in (10**6, 10**12))
        assert (low - high) / math.log(10**6) == pytest.approx(power, rel=0.05)


def test_the_exponent_of_lemma_1_is_above_the_true_rate():
    """KL(1/2 || 1/10) = log(5/3): half of log 5 and half of log(5/9)."""
    rate = 0.5 * math.log(0.5 / 0.1) + 0.5 * math.log(0.5 / 0.9)
    assert rate == pytest.approx(math.log(5 / 3)) == pytest.approx(0.511, abs=5e-4)
    assert rate < 4**2 / 3 * 0.1 == pytest.approx(8 / 15)
    assert stats.binom.sf(79, 160, 0.1) == pytest.approx(2.26e-37, rel=0.01)
    assert math.exp(-8 / 15 * 160) == pytest.approx(8.7e-38, rel=0.01)
    above = [n for n in range(2, 600, 2) if stats.binom.logsf(n // 2 - 1, n, 0.1) > -8 / 15 * n]
    assert above == list(range(110, 600, 2))
    assert 1 - rate / 2 * 15 > -3 >= 1 - rate / 2 * 15.67


def test_gamma_the_sum_over_gaps_and_beta4():
    gamma = math.log(2 * (10 * 40_000) ** 2 * 500 * math.pi**4 / 90)
    assert gamma > 2 * math.log(40_000)
    assert 4 * math.log(40_000) + gamma == pytest.approx(75, abs=0.5)
    assert 5 * math.log(40_000) == pytest.approx(53, abs=0.5)
    gaps = np.linspace(1e-3, 1.0, 1_000)
    total = 0.25 / gaps + 1 + np.log(1 / gaps)
    assert (total <= 1.25 / gaps + 1e-12).all()
    assert 0.25 / 0.5 + 1 + math.log(2) == pytest.approx(2.19, abs=0.005)
    beta4 = [1e4 * (2 * 500 * math.log(t) + 42 * 500 * math.log(t)) for t in (40_000, 4.9e9, 5.0e9)]
    assert beta4[0] == pytest.approx(2.3e9, rel=0.02)
    assert beta4[1] > 4.9e9
    assert beta4[2] < 5.0e9
    best, other = 1 - 0.7**10, 1 - 0.7**9 * 0.8
    assert best - other == pytest.approx(0.004, abs=5e-5)


def test_only_the_first_form_of_lemma_3_follows():
    """The largest x <= alpha0 sqrt((v + x) a) + beta0 a, by its quadratic equation, against both forms of B_s."""
    worst = {1.0: 0.0, 0.5: 0.0}
    for alpha0 in (0.1, 1.0, 10.0):
        for beta0 in (0.0, 1.0):
            for v in (0.0, 0.01, 0.25):
                for a in (0.001, 0.1, 1.0):
                    # (x - beta0 a)^2 = alpha0^2 a (v + x)
                    half = beta0 * a + alpha0**2 * a / 2
                    x = half + math.sqrt(half**2 - (beta0 * a) ** 2 + alpha0**2 * a * v)
                    for part in worst:
                        bound = 2 * alpha0 * math.sqrt(v * a) + (2 * beta0 + part * alpha0**2) * a
                        worst[part] = max(worst[part], x / bound)
    assert worst[1.0] == pytest.approx(1.0)
    assert worst[0.5] == pytest.approx(2.0)  # at v = 0, beta0 = 0, where x = alpha0^2 a


def insured(draws, mean, weight, size):
    """The list of SteadyRank in one regime, of the largest draws and the lowest means; and its items' values."""
    drawn = np.argsort(-draws)[:size].tolist()
    best = drawn + [k for k in np.argsort(mean)[:size].tolist() if k not in drawn]
    value = np.where(np.isin(np.arange(draws.size), drawn), draws, 0.0)
    found = add_best([value.tolist(), (1.0 - mean).tolist()], mean.tolist(), [1.0 - weight, weight], best, size)
    return found, value[found]


def test_what_the_bound_on_regret_rests_on():
    """docs/steadyrank-proofs.md: an item drawn above y' stands at the first place with a value below y, or before."""
    rng, tried, insures = np.random.default_rng(0), 0, 0
    for _ in range(4_000):
        n, y = int(rng.integers(2, 9)), rng.uniform(0.0, 0.5)
        size, weight = int(rng.integers(1, n)), rng.uniform(0.0, 0.5) ** 2
        draws, mean = rng.random(n) ** 4, rng.random(n)
        found, values = insured(draws, mean, weight, size)
        missing, below = [k for k in range(n) if k not in found], np.flatnonzero(values <= y)
        if below.size == 0:
            continue
        first = int(below[0])
        a = (1.0 - weight) * np.prod(1.0 - mean[found[:first]])
        least = y + 2.0 * weight / a
        if least >= 1.0:
            continue
        e = int(rng.choice(missing))
        higher = np.where(np.arange(n) == e, rng.uniform(least, 1.0), draws)
        ahead, _ = insured(higher, mean, weight, size)
        place = ahead.index(e)
        assert place <= first
        assert ahead[:place] == found[:place]
        tried += 1
        insures += set(found) != set(np.argsort(-draws)[:size].tolist())
    assert tried > 800
    assert insures > 30


def test_a_fitted_prior_stays_within_the_limits_of_its_proof():
    rng = np.random.default_rng(0)
    for size in (10, 40):
        for share in (0.0, 0.001, 0.5, 1.0):
            prior, looks = np.ones(2), rng.integers(0, 2_000, size)
            for _ in range(20):
                fit_prior(looks, rng.binomial(looks, share), prior)
                assert 0.002 * (1 - 1e-12) <= prior.min() <= prior.max() <= 100.0


@pytest.mark.parametrize(("x", "y"), [(0.5, 0.3), (0.2, 0.1)])
def test_the_sum_in_the_proof_for_a_fitted_prior_falls_exponentially(x, y):
    """Its two bounds, for every number of clicks s of j looks, with the constant (1 - y)^-100 / 0.002."""
    for j in (1, 30, 1_000, 20_000):
        s = np.arange(j + 1)
        r = s / j
        p = stats.beta.logsf(y, 0.002 + s, 100 + j - s)

        def kl(z, r=r):
            return special.rel_entr(r, z) + special.rel_entr(1 - r, 1 - z)

        ratio = stats.binom.logpmf(s, j, x) - p
        most = 2 * math.log(j + 100) - 100 * math.log(1 - y) - math.log(0.002) - j * (kl(x) - kl(y))
        ok = np.isfinite(ratio)
        assert np.all(ratio[ok] <= most[ok])
        above = r > y + 0.02
        if j >= 20_000:
            assert np.all(np.expm1(-p[above]) <= 2 * np.exp(-j * (r[above] - y) ** 2))


def answers(share, users, false):
    """The chances of a cascade's first click at each place, and of none, where a share of the visits is false."""
    passed = [np.concatenate(([1.0], np.cumprod(1.0 - liked))) for liked in (users, false)]
    clicked = [past * np.append(liked, 1.0) for past, liked in zip(passed, (users, false), strict=True)]
    return (1.0 - share) * clicked[0] + share * clicked[1]


def test_two_worlds_that_no_learner_can_tell_apart():
    """docs/limits.md: an item that is promoted, and a better one that is hidden, in even shares and in swings."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        length, s, swing = int(rng.integers(1, 6)), rng.uniform(0.0, 0.5), rng.uniform(0.0, 1.0)
        others, place = rng.random(length), int(rng.integers(0, length))

        def liked(chance, others=others, place=place):
            return np.where(np.arange(others.size) == place, chance, others)

        x = rng.uniform(0.0, 1.0 - s / (1.0 - s))
        promoted, hidden = answers(s, liked(x), liked(1.0)), answers(s, liked(x + s / (1.0 - s)), liked(0.0))
        assert promoted == pytest.approx(hidden)
        assert promoted == pytest.approx(answers(0.0, liked((1.0 - s) * x + s), liked(0.0)))  # all are honest
        best = rng.uniform(0.0, 1.0 / (2.0 - 2.0 * s))
        share = 2.0 * s * swing
        promoted = answers(share, liked((1.0 - 2.0 * s) * best), liked((2.0 - 2.0 * s) * best))
        assert promoted == pytest.approx(answers(2.0 * s - share, liked(best), liked(0.0)))
