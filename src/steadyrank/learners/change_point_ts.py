"""ChangePointTS: Thompson sampling with a Bayesian posterior of the latest change point."""

import math
from typing import NamedTuple

import numpy as np

from ..core.arrays import Counts, Floats, Ints
from ..core.compiling.jit import no_refcount
from ..core.contract import Problem
from ..core.kernels import top_allowed
from ..core.settings import real, whole

UNKNOWN = 40_000  # horizon assumed by default settings if it is unknown: that of the paper's evaluation
SIZE, NEWEST = range(2)  # indices in `clock`


class Runs(NamedTuple):
    """Candidate rounds of the latest change, the probability of each, and the counts since."""

    order: Ints  # [M] rows of the arrays below, oldest run first; the first SIZE are in use
    begin: Ints  # [M] the first round of the run
    log_weight: Floats  # [M] logarithm of its probability
    looks: Counts  # [M, K] looks since it began
    clicks: Counts  # [M, K]
    clock: Ints  # [2] number of runs, and the round in which the newest began


@no_refcount
def log_mass(runs, t):
    """Logarithm of the probability that the latest change came in round t or before."""
    top, total = -np.inf, 0.0
    for i in range(runs.clock[SIZE]):
        r = runs.order[i]
        if runs.begin[r] <= t:
            top = max(top, runs.log_weight[r])
    for i in range(runs.clock[SIZE]):
        r = runs.order[i]
        if runs.begin[r] <= t:
            total += math.exp(runs.log_weight[r] - top)
    return top + math.log(total)


@no_refcount
def join_two(runs, t):
    """Merge a run into the next younger one, where the gap grows least relative to the younger's age; its row.

    So the ages of runs form roughly a geometric sequence. The younger run stays, because all its counts come from
    after the change that the older stands for.
    """
    least, at = np.inf, 1
    for i in range(1, runs.clock[SIZE] - 1):
        before, after = runs.begin[runs.order[i - 1]], runs.begin[runs.order[i + 1]]
        width = (after - before) / (t - after)
        if width < least:
            least, at = width, i
    gone, younger = runs.order[at], runs.order[at + 1]
    a, b = runs.log_weight[gone], runs.log_weight[younger]
    runs.log_weight[younger] = max(a, b) + math.log1p(math.exp(-abs(a - b)))
    for i in range(at, runs.clock[SIZE] - 1):
        runs.order[i] = runs.order[i + 1]
    runs.clock[SIZE] -= 1
    return gone


@no_refcount
def open_run(runs, t, hazard):
    """Open a run in round t, with the probability of a change since the newest began."""
    size = runs.clock[SIZE]
    row = size if size < runs.order.size else join_two(runs, t)
    stayed = (t - runs.clock[NEWEST]) * math.log1p(-hazard)
    for i in range(runs.clock[SIZE]):
        runs.log_weight[runs.order[i]] += stayed
    runs.order[runs.clock[SIZE]] = row
    runs.begin[row] = t
    runs.log_weight[row] = math.log(-math.expm1(stayed))
    for k in range(runs.looks.shape[1]):
        runs.looks[row, k] = runs.clicks[row, k] = 0
    runs.clock[SIZE] += 1
    runs.clock[NEWEST] = t


@no_refcount
def learn(runs, t, ranking, clicks, examined):
    """Multiply the weight of each run by the likelihood of the bits of round t, and add them to its counts.

    Runs that began after round t are left out: a late answer says nothing about them, and their probability stays.
    """
    before = log_mass(runs, t)
    for i in range(runs.clock[SIZE]):
        r = runs.order[i]
        if runs.begin[r] > t:
            continue
        for p in range(examined):
            k = ranking[p]
            n, s = runs.looks[r, k], runs.clicks[r, k]
            runs.log_weight[r] += math.log((1.0 + (s if clicks[p] else n - s)) / (2.0 + n))
            runs.looks[r, k] += 1
            runs.clicks[r, k] += 1 if clicks[p] else 0
    surprise = before - log_mass(runs, t)
    for i in range(runs.clock[SIZE]):
        r = runs.order[i]
        if runs.begin[r] <= t:
            runs.log_weight[r] += surprise


class ChangePointTS(NamedTuple):
    """Draws the latest change point, then each item from Beta(1 + S, 1 + n - S) of the counts since.

    Global Change-Point Thompson Sampling with a known rate of changes (Mellor, Shapiro 2013), on every place that was
    looked at: in Bayesian change-point detection (Adams, MacKay 2007; Fearnhead, Liu 2007) a run that began in round
    s has the probability that the latest change came in s. Each look multiplies it by (1 + S) / (2 + n) for a click,
    (1 + n - S) / (2 + n) for none. Written from memory of the paper. We differ: the paper keeps M runs by sampling
    among them; here two neighbours are merged, because a young run first has to pay for what it learns again, and
    sampling by its current probability would drop it before it gains. No bound is known, and there is no defence:
    false clicks are a change, and so is their end.

    Cost: K draws and O(M d) a round; 8 M bytes an item. Exact while rounds / `every` is less than M.

    Settings: `hazard`, chance of a change in a round, by default 1 / T, where T = 40,000 if the horizon is unknown;
    `runs`, M; `every`, rounds from one possible change to the next.
    """

    runs: Runs
    hazard: float
    every: int

    live = True

    @classmethod
    def create(
        cls, problem: Problem, *, hazard: float | None = None, runs: int = 32, every: int = 10
    ) -> "ChangePointTS":
        rate = 1.0 / (problem.horizon or UNKNOWN) if hazard is None else real("hazard", hazard, 1e-12, 0.5)
        m, k = whole("runs", runs, 3, 10_000), problem.n_items
        counts = np.zeros((m, k), np.int32), np.zeros((m, k), np.int32)
        rows = np.zeros(m, np.int64), np.zeros(m, np.int64), np.zeros(m)
        return cls(Runs(*rows, *counts, np.array([1, 0])), rate, whole("every", every, 1, 1_000_000))

    def rank(self, visit, allowed, ranking, note, rng):
        drawn, last = rng.random(), self.runs.clock[SIZE] - 1
        i = 0
        while i < last:
            drawn -= math.exp(self.runs.log_weight[self.runs.order[i]])
            if drawn < 0.0:
                break
            i += 1
        r = self.runs.order[i]
        index = np.zeros(allowed.size)
        for k in range(allowed.size):
            if allowed[k]:
                n, s = self.runs.looks[r, k], self.runs.clicks[r, k]
                index[k] = rng.beta(1.0 + s, 1.0 + n - s)
        top_allowed(index, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        t = visit.t
        if t >= self.runs.clock[NEWEST] + self.every:
            open_run(self.runs, t, self.hazard)
        learn(self.runs, t, ranking, clicks, examined)
