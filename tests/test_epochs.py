"""CascadeCBARBAR against a plain version, and its schedule."""

import math

import numpy as np
import pytest

import references
import steadyrank as sr
from duels import D, K, duel
from steadyrank.core import philox
from steadyrank.core.contract import NOTE_EXTRA, Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_update
from steadyrank.learners import cascade_cbarbar

pytestmark = pytest.mark.interpreted


class CBARBAR:
    """Appendix C in plain Python; random ties at an epoch's end come from the learner's own generator."""

    def __init__(self, n0, use_all):
        self.n0, self.use_all, self.m = n0, use_all, 1
        self.gap, self.ends, self.rounds = [1.0] * K, [], 0

    def meet(self, learner):
        self.best = learner.favourites.tolist()
        self.memory = learner.chance.copy()
        self.begin()

    def begin(self):
        self.plan = [self.n0 / g**2 for g in self.gap] + [self.n0 * K * 2 ** ((self.m - 1) / 2)]
        self.left = math.ceil(sum(self.plan))
        self.hits, self.draws = [0] * K, [0] * K

    def rank(self, t, allowed, size, rng):
        u = rng.random() * sum(self.plan)
        self.arm = arm = next(i for i in range(K + 1) if u < sum(self.plan[: i + 1]))
        index = [0.0] * K
        for p, k in enumerate(self.best):
            index[k] = D - p
        if arm < K:
            index[arm] = math.inf
        return references.top([v if ok else -math.inf for v, ok in zip(index, allowed, strict=True)], size, rng)

    def update(self, ranking, clicks, examined):
        self.rounds += 1
        for p, (k, bit) in enumerate(list(zip(ranking, clicks, strict=True))[:examined]):
            if self.use_all or (p == 0 and k == self.arm):
                self.draws[k] += 1
                self.hits[k] += int(bit)
        self.left -= 1
        if self.left == 0:
            self.finish()

    def finish(self):
        means = []
        for k in range(K):
            planned = self.n0 / self.gap[k] ** 2
            few = planned < 30 or self.use_all
            means.append(self.hits[k] / (max(self.draws[k], 1) if few else planned))
        up = [min(max(m + g / (16 * D), 0), 1) for m, g in zip(means, self.gap, strict=True)]
        down = [min(max(m - g / (16 * D), 0), 1) for m, g in zip(means, self.gap, strict=True)]
        uniforms = [philox.uniform(self.memory) for _ in range(D)]

        class Fixed:
            def __init__(self):
                self.left = list(uniforms)

            def random(self):
                return self.left.pop(0)

        def value(items, p):
            return 1 - math.prod(1 - p[k] for k in items)

        most = value(references.top(up, D, Fixed()), up)
        self.best = references.top(down, D, Fixed())
        for k in range(K):
            own = value(self.best if k in self.best else [*self.best[: D - 1], k], down)
            self.gap[k] = max(2 ** (-self.m / 4), most - own, self.gap[k] / 2)
        self.m += 1
        self.ends.append(self.rounds)
        self.begin()


@pytest.mark.parametrize("use_all", [False, True])
@pytest.mark.parametrize(("n0", "rounds"), [(2.0, 1200), (30.0, 4500)])
def test_cascade_cbarbar(use_all, n0, rounds):
    """With n0 = 30 the planned number of draws is the divisor, unless every observation counts."""
    _, slow = duel("CascadeCBARBAR", CBARBAR(n0, use_all), rounds=rounds, n0=n0, use_all=use_all)
    assert len(slow.ends) > 1


@pytest.mark.parametrize(
    ("n0", "ends"),
    [
        (1.0, [1000, 2415, 4415, 7244, 11244, 16901, 24901, 36215]),
        (4.0, [4000, 9657, 17657, 28971]),
    ],
)
def test_epochs_end_when_the_schedule_says(n0, ends):
    """K = 500, d = 10, no clicks at all: the gaps stay at their floor."""
    learner = make(sr.learners()["CascadeCBARBAR"], Problem(500, 10, 40_000), settings={"n0": n0})
    ranking, note, clicks = np.arange(10), np.zeros(10 + NOTE_EXTRA), np.zeros(10, np.bool_)
    note[0] = 500
    code = call_update.bind(learner, Visit(1), ranking, note, clicks, 10)
    seen, epoch = [], 1
    for t in range(1, 40_001):
        code(learner, Visit(t), ranking, note, clicks, 10)
        if learner.clock[0] > epoch:
            seen.append(t)
            epoch = learner.clock[0]
    assert seen == ends


@pytest.mark.parametrize(
    ("name", "lam", "horizons"),
    [
        ("paper", 2.40e5, 600_000), ("log2", 1.97e4, 49_000), ("code-1024", 5.6e4, 141_000),
        ("code-64", 1_230, 3_080), ("code-4", 77, 192), ("one", 1.0, 2.5),
    ],
)  # fmt: skip
def test_readings_of_lambda(name, lam, horizons):
    """K = 500, d = 10, T = 40,000, delta = 0.1: lambda, and the first epoch 2 lambda K d^2 in horizons."""
    assert cascade_cbarbar.LAMBDAS[name](500, 40_000, 0.1) == pytest.approx(lam, rel=0.01)
    settings = {"schedule": "literal", "lam": name}
    learner = make(sr.learners()["CascadeCBARBAR"], Problem(500, 10, 40_000), settings=settings)
    assert learner.clock[2] / 40_000 == pytest.approx(horizons, rel=0.02)


def test_end_of_an_epoch_by_hand():
    """Three items, lists of two, n0 = 4, four draws each with 4, 2, 0 clicks: means 1, 1/2, 0, width 1/32.

    Optimistic 1, 17/32, 1/32: the best list is worth 1. Pessimistic 31/32, 15/32, 0: list 0,1 is worth
    1 - 1/32 * 17/32 = 0.98340, list 0,2 31/32. Gaps 0.0166, 0.0166 and 1/32, all below the floor 2^(-1/4).
    """
    gap, clock = np.ones(3), np.array([1, 0, 0])
    hits, draws, best = np.array([4, 2, 0]), np.array([4, 4, 4]), np.zeros(2, np.int64)
    cascade_cbarbar.end_epoch(gap, hits, draws, best, clock, 4.0, 0, philox.start(0))
    assert best.tolist() == [0, 1]
    assert gap == pytest.approx([2**-0.25] * 3)
    assert (hits.sum(), draws.sum(), clock[0]) == (0, 0, 2)


def test_gaps_by_hand():
    """Two items, lists of one, epoch 9 with floor 2^(-9/4) = 0.21, gaps 1, means 1 and 0, width 1/16.

    r_* = 1. Item 0: r_0 = 15/16, gap max(0.21, 1/16, 1/2) = 1/2, half of the old one. Item 1: r_1 = 0, gap 1.
    Next epoch, floor 2^(-10/4): item 0's gap is half of 1/2 again, item 1's stays 1.
    """
    gap, clock, best = np.ones(2), np.array([9, 0, 0]), np.zeros(1, np.int64)
    for expected in ([0.5, 1.0], [0.25, 1.0]):
        hits, draws = np.array([4, 0]), np.array([4, 4])
        cascade_cbarbar.end_epoch(gap, hits, draws, best, clock, 4.0, 0, philox.start(0))
        assert best.tolist() == [0]
        assert gap == pytest.approx(expected)


def test_draws_follow_the_plan():
    """Items 1 : 2 and the list 5, over 4,000 evenly spaced u."""
    ladder = np.array([1.0, 3.0, 8.0])
    arms = [cascade_cbarbar.draw_arm(ladder, (i + 0.5) / 4000) for i in range(4000)]
    assert [arms.count(a) for a in range(3)] == [500, 1000, 2500]
