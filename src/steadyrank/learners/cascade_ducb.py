"""CascadeDUCB: CascadeUCB1 on discounted counts, for users whose taste changes."""

import math
from typing import NamedTuple

import numpy as np

from ..core.arrays import Floats, Ints
from ..core.compiling.jit import no_refcount
from ..core.contract import Problem
from ..core.kernels import counted, top_allowed
from ..core.settings import real

UNKNOWN = 40_000  # horizon assumed by default settings if it is unknown: that of the paper's evaluation


@no_refcount
def add_discounted(learner, t, k, bit, sign):
    """Add a look of round t at item k, or subtract it (sign -1); its sums are those of round `latest[k]`."""
    gap = t - learner.latest[k]
    weight = 1.0
    if gap > 0:
        kept = math.exp(learner.log_gamma * gap)
        learner.discounted_looks[k] *= kept
        learner.discounted_clicks[k] *= kept
        learner.latest[k] = t
    elif gap < 0:  # a late answer gets the weight that it would have had in time
        weight = math.exp(-learner.log_gamma * gap)
    learner.looks[k] += sign
    learner.clicks[k] += sign * bit
    learner.discounted_looks[k] = max(learner.discounted_looks[k] + sign * weight, 0.0)
    learner.discounted_clicks[k] = max(learner.discounted_clicks[k] + sign * bit * weight, 0.0)


@no_refcount
def discounted_index(learner, k, t):
    """X / N + 2 sqrt(epsilon log M / N) at round t; infinite if nothing is left of N.

    N and X are item k's looks and clicks, those of round s multiplied by gamma^(t - 1 - s); M = (1 - gamma^(t - 1)) /
    (1 - gamma) is the discounted number of rounds.
    """
    n = learner.discounted_looks[k] * math.exp(learner.log_gamma * (t - 1 - learner.latest[k]))
    if learner.looks[k] < 1 or n < 1e-300:
        return np.inf
    rounds = math.expm1(learner.log_gamma * (t - 1)) / math.expm1(learner.log_gamma)
    width = 2.0 * math.sqrt(learner.epsilon * math.log(max(rounds, 1.0)) / n)
    return learner.discounted_clicks[k] / learner.discounted_looks[k] + width


class CascadeDUCB(NamedTuple):
    """Index X/N + 2 sqrt(epsilon log M / N) of discounted counts (Li, de Rijke 2019, Algorithm 1, CascadeDUCB).

    A look s rounds ago has weight gamma^(s - 1). N and X are an item's discounted looks and clicks, M the discounted
    rounds. It is D-UCB (Garivier, Moulines 2011) on every place that was looked at. Written from memory: public code
    of others confirms the discounting and gamma = 1 - 1 / (4 sqrt T), which is for one change; the factor 2 and
    epsilon = 0.5 could not be checked. Stated bound, from memory: with G changes, sum over items of sqrt(T G) log T /
    gap^2. No defence: false clicks only fade.

    An item not seen for long loses its evidence and is shown again. With K items and lists of d, about d / (K
    (1 - gamma)) looks of an item count: 16 at K = 500, d = 10 and T = 40,000. Cost: O(K) exponentials a round, 40
    bytes an item.

    Settings: `gamma`, by default 1 - 1 / (4 sqrt T), where T = 40,000 if the horizon is unknown; `epsilon`, width of
    the interval, 0.5.
    """

    looks: Ints  # [K]
    clicks: Ints  # [K]
    discounted_looks: Floats  # [K] at the round `latest`
    discounted_clicks: Floats  # [K]
    latest: Ints  # [K] round of the newest look
    log_gamma: float
    epsilon: float

    live = True

    @classmethod
    def create(cls, problem: Problem, *, gamma: float | None = None, epsilon: float = 0.5) -> "CascadeDUCB":
        k, horizon = problem.n_items, problem.horizon or UNKNOWN
        gamma = 1.0 - 0.25 / math.sqrt(horizon) if gamma is None else real("gamma", gamma, 0.01, 1.0 - 1e-9)
        counts = np.zeros(k, np.int64), np.zeros(k, np.int64)
        sums = np.zeros(k), np.zeros(k)
        return cls(*counts, *sums, np.zeros(k, np.int64), math.log(gamma), real("epsilon", epsilon, 0.0))

    def rank(self, visit, allowed, ranking, note, rng):
        index = np.empty(allowed.size)
        for k in range(allowed.size):
            index[k] = discounted_index(self, k, visit.t)
        top_allowed(index, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        for p in range(examined):
            add_discounted(self, visit.t, ranking[p], 1 if clicks[p] else 0, 1)

    def forget(self, visit, ranking, note, clicks, examined):
        if counted(self.looks, self.clicks, ranking, clicks, examined):
            for p in range(examined):
                add_discounted(self, visit.t, ranking[p], 1 if clicks[p] else 0, -1)
