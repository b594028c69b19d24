"""PBM-PIE: the best items by their means, and one place to explore."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.arrays import Floats
from ..core.compiling.jit import kernel, no_refcount
from ..core.contract import Problem
from ..core.kernels import top
from ..core.places import attention_of, place_best_first
from ..core.settings import known_horizon, real
from .shared.place_counts import PlaceCounts, count_places, sums, uncount_places

_EDGE = 1e-12  # keeps means away from 0 and 1, which have no logarithm


@no_refcount
def set_means(counts, mean, fixed, ranking, examined):
    """Update the mean S/N~ of items whose counts have changed, and the part of their Phi(q) that is constant in q."""
    for p in range(examined):
        k = ranking[p]
        n, looked, s = sums(counts, k)
        mean[k] = s / looked if n > 0 else np.inf
        fixed[k] = 0.0
        for q in range(counts.attention.size):
            n, s = counts.shown[k, q], counts.clicks[k, q]
            if s > 0:
                fixed[k] += s * (math.log(s / n) - math.log(counts.attention[q]))
            if n > s:
                fixed[k] += (n - s) * math.log((n - s) / n)


@no_refcount
def may_reach(counts, fixed, k, x, misses, delta):
    """Whether U = max{q >= q_min : Phi(q) <= delta} is at least x, Phi(q) = sum_p N_p kl(S_p / N_p, attention_p q).

    Phi is convex with its minimum at q_min: U >= x if Phi(x) <= delta, or if Phi still falls at x. `misses` has
    log(1 - attention_p x).
    """
    clicks, value, slope = 0, fixed[k], 0.0
    for p in range(counts.attention.size):
        without = counts.shown[k, p] - counts.clicks[k, p]
        clicks += counts.clicks[k, p]
        value -= without * misses[p]
        slope += without * counts.attention[p] / (1.0 - counts.attention[p] * x)
    return value - clicks * math.log(x) <= delta or slope <= clicks / x


@kernel
def explore(counts, mean, fixed, allowed, delta, ranking, coin, pick):
    """With chance 1/2 give the last place to a uniformly drawn item that may be better; `ranking` is best first."""
    d, x = ranking.size, mean[ranking[-1]]
    if coin >= 0.5 or x > 1.0:
        return
    x = min(max(x, _EDGE), 1.0 - _EDGE)
    misses = np.log(1.0 - counts.attention * x)
    open_to = allowed.copy()
    for p in range(d):
        open_to[ranking[p]] = False
    candidates, n = np.empty(allowed.size, np.int64), 0
    for k in range(allowed.size):
        if open_to[k] and may_reach(counts, fixed, k, x, misses, delta):
            candidates[n] = k
            n += 1
    if n > 0:
        ranking[d - 1] = candidates[int(pick * n)]


class PBMPIE(NamedTuple):
    """The best items by their means S/N~; half of the time the last place goes to another that may be better.

    Lagree, Vernade, Cappe 2016, Algorithm 1, after PIE of Combes et al. 2015. An item may be better if its KL bound U
    = max{q : sum_p N_p kl(S_p / N_p, attention_p q) <= (1 + epsilon) log T} reaches the mean of the last listed one.
    The last place is the one with the least attention. The paper's first K rounds, in which each item stands at each
    place, are shorter here: items never shown come first, in random order. No defence.

    Settings: `eta` or `attention`, the assumed attention of users, as for `PositionBased`; `epsilon`, 0.
    """

    counts: PlaceCounts
    mean: Floats  # [K] S / N~, infinite if never shown
    fixed: Floats  # [K]
    delta: float

    live = False

    @classmethod
    def create(
        cls,
        problem: Problem,
        *,
        eta: float | None = None,
        attention: Sequence[float] | str | None = None,
        epsilon: float = 0.0,
    ) -> "PBMPIE":
        k, looks = problem.n_items, attention_of(eta, attention, problem.length)
        delta = (1.0 + real("epsilon", epsilon, 0.0)) * math.log(known_horizon("PBMPIE", problem.horizon))
        return cls(PlaceCounts.create(k, looks), np.full(k, np.inf), np.zeros(k), delta)

    def rank(self, visit, allowed, ranking, note, rng):
        index = self.mean.copy()
        for k in range(index.size):
            index[k] = index[k] if allowed[k] else -np.inf
        top(index, ranking, rng)
        coin, pick = rng.random(), rng.random()
        explore(self.counts, self.mean, self.fixed, allowed, self.delta, ranking, coin, pick)
        place_best_first(self.counts.order, ranking)

    def update(self, visit, ranking, note, clicks, examined):
        count_places(self.counts, ranking, clicks, examined)
        set_means(self.counts, self.mean, self.fixed, ranking, examined)

    def forget(self, visit, ranking, note, clicks, examined):
        uncount_places(self.counts, ranking, clicks, examined)
        set_means(self.counts, self.mean, self.fixed, ranking, examined)
