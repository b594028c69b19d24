"""G-COBE against the published algorithms written as nested loops, and its numbers at the paper's size."""

import math

import numpy as np
import pytest

import steadyrank as sr
from steadyrank.core.contract import Problem
from steadyrank.core.discovery import make
from steadyrank.learners.median import gcobe

pytestmark = pytest.mark.pure

LENGTH = 2


class Reference:
    """Algorithms 1 to 4 as a generator: it yields what acts (instance or -1) and is sent list and reward."""

    def __init__(self, horizon, betas, delta):
        self.t, (self.b1, self.b2, self.b3) = horizon, betas
        self.log = math.log(horizon / delta)
        self.b4 = 1e4 * (2 * self.b1 + 42 * self.b2 * self.log + 2 * self.b3)
        self.last = math.ceil(math.log2(horizon))
        self.trace = []

    def bound(self, n, c):
        return math.sqrt(self.b1 * n) + self.b2 * c + self.b3

    def alphas(self, k):
        tail = {i: 2.0 ** (k - i - 1) for i in range(k + 1, self.last + 1)}
        return {k: 1 - sum(tail.values()), **tail}

    def draw(self, alphas, v):
        for i, a in alphas.items():
            v -= a
            if v < 0:
                return i
        return self.last

    def basic(self, k, rounds):
        """BASIC(k); returns whether it failed, and the lists of instance k."""
        k = min(k, self.last)
        alphas = self.alphas(k)
        theta = {i: 1.25 * a * 2**i + 21 * self.log for i, a in alphas.items()}
        n, r = dict.fromkeys(alphas, 0), dict.fromkeys(alphas, 0)
        counts, best, stand_in, t = {}, None, None, 0
        while rounds is None or t < rounds:
            _, v = yield None
            i = self.draw(alphas, v)
            ranking, reward = yield i
            t += 1
            n[i] += 1
            r[i] += reward
            if i == k:
                played = frozenset(ranking)
                counts[played] = counts.get(played, 0) + 1
                if best is None or counts[played] > counts[best]:  # of equals, the first to get there
                    best = played
            else:
                stand_in = frozenset(ranking)
            for a in alphas:
                for b in alphas:
                    if a < b:
                        slack = math.sqrt(t * self.log / alphas[b]) + (self.log + theta[b]) / alphas[b]
                        if (r[a] + self.bound(n[a], theta[a])) / alphas[a] < r[b] / alphas[b] - 8 * slack:
                            return True, None
        return False, stand_in if best is None else best

    def cobe(self, k):
        while True:
            self.trace.append(("cobe", min(k, self.last)))
            yield from self.basic(k, None)
            k += 1

    def run(self):
        k = max(math.ceil(math.log2((math.sqrt(self.b1) + self.b2 + self.b3) / self.b2)), 0)
        while True:
            length = max(1, math.ceil((self.b2 * 2**k) ** 2 / self.b4))
            if length > self.t:
                yield from self.cobe(k)
            self.trace.append(("basic", k, length))
            failed, best = yield from self.basic(k, length)
            if not failed:
                yield from self.challenge(length, best)
            k += 1

    def challenge(self, length, best):
        least = min(math.sqrt(self.b4 / length), 1)
        d, total, epochs = least, 0, 0
        m = self.b4 / d**2
        first = max(0, math.ceil(math.log2((math.sqrt(self.b1 * self.t) + self.b2 + self.b3) / self.b2)))
        while epochs < 3 * math.log2(self.t):
            epochs += 1
            p = self.b4 / (2 * m * d * d)
            self.trace.append(("epoch", round(d, 12), round(m, 6)))
            challenger = self.cobe(first)
            next(challenger)
            tau, r0, r1 = 0, 0, 0
            while True:
                u, v = yield None
                if u < p:
                    i = challenger.send((u, v))
                    ranking, reward = yield i
                    r1 += reward
                    challenger.send((ranking, reward))
                else:
                    ranking, reward = yield -1
                    assert frozenset(ranking) == best
                    r0 += reward
                tau, total = tau + 1, total + 1
                if total >= length:
                    return
                mine, theirs = r0 / (1 - p), r1 / p
                slack = 5 / p * self.bound(p * tau, p * math.sqrt(self.b1 * length) / self.b2)
                if mine <= theirs + tau * d / 2 - slack:
                    d /= 1.25
                    if d < least:
                        return
                    m = self.b4 / d**2
                    break
                if mine >= theirs + 3 * m * d + 8 * math.sqrt(self.b1 * length):
                    d *= 1.25
                    m = self.b4 / d**2
                    break
                if tau >= m:
                    m = 2 * m + self.b4 / d**2
                    break


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("horizon", "betas", "worlds"),
    [
        (3_000, (5.0, 5.0, 5.0), "even"),
        (20_000, (1e-3, 0.02, 1e-3), "slow is better"),
        (4_000, (1e-3, 0.5, 1e-3), "list is worse"),
    ],
)
def test_the_state_machine_equals_the_nested_loops(horizon, betas, worlds):
    state = gcobe.GCOBE.create(horizon, LENGTH, betas, 0.1)
    slow = Reference(horizon, betas, 0.1)
    loops = slow.run()
    next(loops)
    rng = np.random.default_rng(0)
    phases = set()
    for t in range(horizon):
        u, v, w = rng.random(3)
        i = gcobe.choose(state, u, v)
        assert loops.send((u, v)) == i, f"round {t}"
        phases.add(int(state.counts[gcobe.PHASE]))
        ranking = state.favourite.copy() if i < 0 else rng.permutation(5)[:LENGTH]
        chance = {
            "even": 0.5,
            "slow is better": 1.0 if i > state.counts[gcobe.INSTANCE] else 0.0,
            "list is worse": 0.1 if i < 0 else 0.9,
        }[worlds]
        reward = int(w < chance)
        gcobe.advance(state, i, ranking, reward)
        loops.send((ranking, reward))
    kinds = {entry[0] for entry in slow.trace}
    assert {"basic", "epoch"} <= kinds
    if worlds == "slow is better":
        assert len(phases) >= 2
        assert [entry for entry in slow.trace if entry[0] == "cobe" and entry[1] > 2]


def paper_size():
    return gcobe.GCOBE.create(40_000, 10, (500 * math.log(40_000), 500.0, 500.0), 0.1)


@pytest.mark.interpreted
def test_constants_at_the_papers_size():
    """K = 500, T = 40,000: beta4 = 2.8e9, k starts at 2, and phases have the lengths below.

    By hand, with log 40,000 = 10.597 and log 400,000 = 12.899: 10^4 (10,597 + 21,000 * 12.899 + 1,000) = 2.825e9. The
    paper's proof of Theorem 2 has 10^4 (10,597 + 21,000 * 10.597) = 2.331e9.
    """
    state = paper_size()
    assert state.beta4 == pytest.approx(2.825e9, rel=1e-3)
    assert 1e4 * (2.0 * state.beta1 + 42.0 * state.beta2 * math.log(40_000)) == pytest.approx(2.331e9, rel=1e-3)
    assert state.counts[gcobe.K] == 2
    assert [gcobe.phase_length(state, k) for k in range(2, 15)] == [1] * 5 + [2, 6, 24, 93, 372, 1485, 5940, 23758]
    gcobe.start(state, 15)
    assert state.counts[gcobe.PHASE] == 3  # L_15 is beyond the horizon


@pytest.mark.interpreted
def test_basic_cannot_fail_at_the_papers_size():
    """Even when the slow instances earn 1 in each of 40,000 rounds and the fastest 0."""
    state = paper_size()
    gcobe.restart(state, 2)
    last = state.plays.size - 1
    state.counts[gcobe.ENGINE] = 40_000
    for i in range(2, last + 1):
        state.plays[i] = round(40_000 * gcobe.alpha(2, last, i))
        state.gains[i] = 0 if i == 2 else state.plays[i]
    assert not gcobe.fails(state)


@pytest.mark.interpreted
def test_chances_of_instances_sum_to_one():
    for k in range(8):
        assert sum(gcobe.alpha(k, 7, i) for i in range(k, 8)) == pytest.approx(1.0)
        assert gcobe.alpha(k, 7, k) >= 0.5


@pytest.mark.interpreted
def test_epochs_of_the_challenge_by_hand():
    """Test B raises the gap estimate by 1.25; an epoch that runs out doubles its length and adds beta4 / D^2."""
    state = paper_size()
    gcobe.start(state, 14)
    gcobe.begin_challenge(state)
    assert (state.numbers[gcobe.DHAT], state.numbers[gcobe.M]) == (1.0, state.beta4)
    assert gcobe.share_of_challenger(state) == 0.5
    state.numbers[gcobe.R0] = 1e10
    gcobe.settle_challenge(state)
    assert state.numbers[gcobe.DHAT] == 1.25
    assert state.numbers[gcobe.M] == pytest.approx(state.beta4 / 1.5625)
    state.counts[gcobe.TAU] = int(state.numbers[gcobe.M]) + 1
    state.numbers[gcobe.R0] = 0.6 * state.beta4  # between the two tests
    m = state.numbers[gcobe.M]
    gcobe.settle_challenge(state)
    assert state.numbers[gcobe.M] == pytest.approx(3 * m)
    assert gcobe.share_of_challenger(state) == pytest.approx(1 / 6)
    state.numbers[gcobe.R1] = 1e10  # now the challenger wins: the gap estimate falls back to 1, which is its least
    gcobe.settle_challenge(state)
    assert (state.numbers[gcobe.DHAT], state.numbers[gcobe.M]) == (1.0, pytest.approx(state.beta4))
    assert state.counts[gcobe.PHASE] == 2
    state.numbers[gcobe.R1] = 1e10  # and once more: below the least, so the list is given up
    gcobe.settle_challenge(state)
    assert (state.counts[gcobe.PHASE], state.counts[gcobe.K]) == (3, 15)


@pytest.mark.interpreted
def test_the_challenge_has_a_last_epoch():
    """At most 3 log2 T epochs: the one after ends the challenge."""
    state = paper_size()
    gcobe.start(state, 14)
    gcobe.begin_challenge(state)
    state.counts[gcobe.EPOCH] = math.ceil(3 * math.log2(40_000))
    state.numbers[gcobe.R0] = 1e12
    gcobe.settle_challenge(state)
    assert state.counts[gcobe.K] == 15


@pytest.mark.slow
def test_m2ucbv_with_gcobe_restarts_as_the_phases_say():
    """At the paper's size it is inert: half of its rounds go to challengers, and its regret is near Random's."""
    attraction = sr.profile("synthetic-spread").attraction
    run = sr.simulate(
        "M2UCBV", attraction, length=10, horizon=20_000, seeds=[0], settings={"selection": "gcobe"}, marks=2
    )
    random = sr.simulate("Random", attraction, length=10, horizon=20_000, seeds=[0])
    assert 0.6 * random.final[0] < run.final[0] < 1.2 * random.final[0]


def test_what_gcobe_cannot_do_is_refused():
    with pytest.raises(ValueError, match="horizon"):
        make(sr.learners()["M2UCBV"], Problem(30, 4, 0), settings={"selection": "gcobe"})
    with pytest.raises(ValueError, match="data='shared'"):
        make(sr.learners()["M2UCBV"], Problem(30, 4, 99), settings={"selection": "gcobe", "data": "shared"})
