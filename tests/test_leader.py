"""FTRL: the convex step, the sampling, and the learner against a plain version."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special

import references
import steadyrank as sr
from duels import ATTRACTION, D, K, T, duel
from steadyrank.core.contract import NOTE_EXTRA, Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_rank, call_update
from steadyrank.learners import ftrl

pytestmark = pytest.mark.interpreted

VARIANTS = ["lbinf", "lbinfv", "hybrid"]


def derivative(variant, x, gamma):
    """phi' as printed."""
    if variant == "lbinf":
        return -1 / x - gamma * (1 + math.log1p(-x))
    if variant == "lbinfv":
        return 1 - 1 / x - gamma * math.log1p(-x)
    return -1 / (2 * math.sqrt(x)) - gamma * (1 + math.log1p(-x))


def marginals(variant, gamma, losses, factor, d):
    """Nested root finding: x of each item for a price, then the price that makes them sum to d."""

    def x_of(price, loss, f):
        def gap(u):
            return f * derivative(variant, float(special.expit(u)), gamma) + loss - price

        low, high = -36.0, 34.0
        u = low if gap(low) > 0 else high if gap(high) < 0 else optimize.brentq(gap, low, high, xtol=1e-13)
        return float(special.expit(u))

    def total(price):
        return sum(x_of(price, a, f) for a, f in zip(losses, factor, strict=True)) - d

    price = optimize.brentq(total, min(losses) - 200, max(losses) + 200, xtol=1e-12)
    return [x_of(price, a, f) for a, f in zip(losses, factor, strict=True)]


def solve(code, gamma, c0, losses, factor, d, logits, price):
    """`ftrl.solve` from these logits."""
    curve = np.empty((5, logits.size))
    ftrl.trace(code, gamma, c0, logits, curve)
    residual = ftrl.solve(code, gamma, c0, losses, factor, d, logits, price, curve, 1e-8)
    assert curve[ftrl.VALUE] == pytest.approx(special.expit(logits))  # the answer's own, for the next round
    return residual


@pytest.mark.parametrize("variant", VARIANTS)
def test_solution_equals_nested_root_finding(variant):
    rng = np.random.default_rng(3)
    code, gamma = VARIANTS.index(variant), 3.0
    c0 = {"lbinf": -gamma, "lbinfv": 1.0, "hybrid": 0.0}[variant]
    for _ in range(5):
        losses, factor = rng.normal(0, 4, 8), rng.uniform(1, 5, 8)
        logits, price = np.zeros(8), np.zeros(2)
        residual = solve(code, gamma, c0, losses, factor, 3, logits, price)
        assert residual < 1e-7
        assert special.expit(logits) == pytest.approx(marginals(variant, gamma, losses, factor, 3), abs=1e-8)


@given(
    st.integers(0, 3), st.lists(st.floats(-1e4, 1e4), min_size=3, max_size=12), st.data(), st.floats(1.0, 50.0),
    st.lists(st.floats(-30, 30), min_size=12, max_size=12), st.floats(-1e3, 1e3),
)  # fmt: skip
def test_the_step_converges_from_anywhere(code, losses, data, factor, start, price):
    """Losses far apart, starts far off: equations within 1e-6 of the losses' scale, the sum within 1e-7."""
    d = 1 if code == 3 else data.draw(st.integers(1, len(losses) - 1))
    logits, memory = np.array(start[: len(losses)]), np.array([price, 0.0])
    gamma = 3.0 if code < 2 else 1.0
    factors = np.full(len(losses), factor)
    c0 = (-gamma, 1.0, 0.0, 0.0)[code]
    residual = solve(code, gamma, c0, np.array(losses), factors, d, logits, memory)
    if np.abs(logits).max() < 590:  # beyond 600 a marginal is 0 or 1 as far as numbers go
        assert residual <= 1e-6 * max(1.0, np.abs(losses).max())
    x = special.expit(logits)
    assert x.sum() == pytest.approx(d, abs=1e-7)
    order = np.argsort(losses)
    assert (np.diff(x[order]) <= 1e-9).all()  # the more loss, the less often shown


def drive(learner, rounds, flip):
    """Play cascade rounds, the first `flip` inverted; yields after each update."""
    mind, world = np.random.default_rng(1), np.random.default_rng(2)
    ranking, note = np.zeros(D, np.int64), np.zeros(D + NOTE_EXTRA)
    for t in range(1, rounds + 1):
        call_rank(learner, Visit(t), np.ones(K, np.bool_), ranking, note, mind)
        bits = world.random(D) < ATTRACTION[ranking]
        examined = int(np.argmax(bits)) + 1 if bits.any() else D
        bits[examined:] = False
        if t <= flip:
            bits[:examined] = ~bits[:examined]
        call_update(learner, Visit(t), ranking, note, bits, examined)
        yield t


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("weights", ["naive", "first-only", "plug-in"])
def test_marginals_sum_to_the_length_and_solve_the_equations_in_every_round(variant, weights):
    """600 rounds, 100 of them inverted: residual below 1e-4 clicks, checked by the printed derivative too."""
    learner = make(sr.learners()["FTRL"], Problem(K, D, T), settings={"variant": variant, "weights": weights})
    for t in drive(learner, 600, 100):
        x = special.expit(learner.logits)
        assert x.sum() == pytest.approx(D, abs=1e-4)
        assert learner.price[1] < 1e-4
        if t % 100 == 0:
            factor = np.full(K, math.sqrt(t + 1)) if variant == "hybrid" else np.sqrt(learner.weight)
            goal = learner.losses + learner.guess - learner.price[0]
            gamma = learner.gamma
            for k in np.flatnonzero((x > 1e-9) & (x < 1 - 1e-9)):
                residual = factor[k] * derivative(variant, x[k], gamma) + goal[k]
                assert abs(residual) < 1e-4 * max(1.0, abs(goal[k]))


def test_tsallis_has_its_closed_form():
    """x = 4 / (eta (L - lambda))^2 with eta = 2 / sqrt(t), summing to 1; for lists of one place only."""
    learner = make(sr.learners()["FTRL"], Problem(6, 1, 500), settings={"variant": "tsallis"})
    ranking, note, mind = np.zeros(1, np.int64), np.zeros(1 + NOTE_EXTRA), np.random.default_rng(0)
    for t in range(1, 300):
        call_rank(learner, Visit(t), np.ones(6, np.bool_), ranking, note, mind)
        call_update(learner, Visit(t), ranking, note, np.array([bool(ranking[0] == 2)]), 1)
        eta = 2 / math.sqrt(t + 1)
        x = 4 / (eta * (learner.losses - learner.price[0])) ** 2
        assert special.expit(learner.logits) == pytest.approx(x, abs=1e-4)
        assert x.sum() == pytest.approx(1.0, abs=1e-4)
    assert np.argmax(learner.logits) == 2
    with pytest.raises(ValueError, match="'tsallis' is for lists of length 1, not 4"):
        make(sr.learners()["FTRL"], Problem(K, D, T), settings={"variant": "tsallis"})


def test_systematic_sampling_has_exact_marginals():
    """40,000 draws of 5 of 20 items: distinct, and each share within 4.5 standard errors."""
    rng = np.random.default_rng(0)
    x = rng.dirichlet(np.ones(20)) * 5
    while x.max() > 1:
        x = np.minimum(x, 0.95)
        x += (5 - x.sum()) / 20
    counts, chosen = np.zeros(20), np.zeros(5, np.int64)
    for _ in range(40_000):
        ftrl.systematic(x, chosen, rng)
        assert len(set(chosen.tolist())) == 5
        counts[chosen] += 1
    z = (counts / 40_000 - x) / np.sqrt(x * (1 - x) / 40_000)
    assert np.abs(z).max() < 4.5


def test_systematic_sampling_fills_every_place_despite_rounding():
    x = np.full(10, 0.3 - 1e-9)
    chosen = np.zeros(3, np.int64)
    rng = np.random.default_rng(1)
    for _ in range(2000):
        ftrl.systematic(x, chosen, rng)
        assert len(set(chosen.tolist())) == 3


class Slow:
    """The printed updates in plain Python, the convex step by nested root finding."""

    def __init__(self, variant, weights):
        self.variant, self.weights = variant, weights
        self.gamma = 1.0 if variant == "hybrid" else math.log(T)
        self.guess = [{"lbinf": 0.25, "lbinfv": 0.5, "hybrid": 0.0}[variant]] * K
        self.weight = [1.2**2 if variant == "lbinfv" else 2.0] * K
        self.losses, self.n, self.s, self.t = [0.0] * K, [0] * K, [0] * K, 1

    def rank(self, t, allowed, size, rng):
        goal = [a + m for a, m in zip(self.losses, self.guess, strict=True)]
        factor = [math.sqrt(self.t if self.variant == "hybrid" else w) for w in self.weight]
        self.x = marginals(self.variant, self.gamma, goal, factor, D)
        stride = K
        while math.gcd(stride, K) > 1:
            stride = 1 + int(rng.random() * (K - 1))
        start = int(rng.random() * K)
        u, running, chosen = rng.random(), 0.0, []
        for k in ((start + i * stride) % K for i in range(K)):
            running += self.x[k]
            if running > u + len(chosen) and len(chosen) < D:
                chosen.append(k)
        index = list(self.x)
        for k in chosen:
            index[k] = 1 + (rng.random() if self.weights == "first-only" else self.x[k])
        return references.top([v if ok else -math.inf for v, ok in zip(index, allowed, strict=True)], size, rng)

    def update(self, ranking, clicks, examined):
        seen = list(zip(ranking, clicks, strict=True))[:examined]
        used, before, reach = seen[:1] if self.weights == "first-only" else seen, list(self.guess), 1.0
        for k, bit in used:
            off, x = 1 - int(bit) - before[k], self.x[k]
            if self.weights == "first-only":
                self.losses[k] += off * D / x
            else:
                self.losses[k] += off / (x * max(reach, 0.05))
            if self.variant != "hybrid":
                self.weight[k] += off**2 * min(1, 2 * (1 - x) / (self.gamma * x**2)) / self.gamma
            if self.weights == "plug-in":
                reach *= 1 - min(max(self.s[k] / self.n[k] if self.n[k] else 0.0, 0.01), 0.99)
        self.losses = [a + m for a, m in zip(self.losses, before, strict=True)]
        for k, bit in seen:
            self.n[k] += 1
            self.s[k] += int(bit)
        for k, bit in used:
            if self.variant == "lbinf":
                self.guess[k] += (1 - int(bit) - self.guess[k]) / 4
            elif self.variant == "lbinfv":
                self.guess[k] = (0.5 + self.n[k] - self.s[k]) / (1 + self.n[k])
        self.t += 1


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("weights", ["naive", "first-only", "plug-in"])
def test_ftrl(variant, weights):
    duel("FTRL", Slow(variant, weights), rounds=25, variant=variant, weights=weights)


def test_hybrid_gamma_where_lists_are_long():
    """gamma = 1 up to d = K / 2, then 1 / sqrt(log(K / (K - d))): K = 10, d = 9 gives 1 / sqrt(log 10) = 0.659."""
    for length, gamma in [(5, 1.0), (9, 0.659), (10, 1.0)]:
        learner = make(sr.learners()["FTRL"], Problem(10, length, 99), settings={"variant": "hybrid"})
        assert learner.gamma == pytest.approx(gamma, abs=1e-3)


def test_a_small_move_by_its_series_is_the_barrier_there():
    """Ten thousand small moves up and down end where the exponential and the logarithm say, for any marginal."""
    rng = np.random.default_rng(3)
    for code, start in itertools.product((ftrl.LBINF, ftrl.LBINFV), (-9.0, -2.0, 0.0, 3.0, 12.0)):
        gamma, c0 = 10.6, (-10.6, 1.0)[code]
        logits, curve = np.array([start]), np.empty((5, 1))
        ftrl.trace(code, gamma, c0, logits, curve)
        for move in rng.uniform(-1e-3, 1e-3, 10_000):
            ftrl.shift(gamma, c0, np.array([move]), logits, curve)
        assert curve[:, 0] == pytest.approx(ftrl.barrier(code, logits[0], gamma, c0), rel=1e-9)
