"""PIE: the best items by their means, and one place to explore."""

import math
from typing import NamedTuple

import numpy as np

from ..core.arrays import Ints
from ..core.compiling.jit import kernel
from ..core.contract import Problem
from ..core.kernels import count_bits, top, uncount_bits
from ..core.settings import whole

_EDGE = 1e-12  # keeps means away from 0 and 1, which have no logarithm


@kernel
def candidates(looks, clicks, open_to, x, level):
    """Items with open_to[k] whose bound max{q : n kl(S/n, q) <= level} is at least x; in item order."""
    items, size = np.empty(looks.size, np.int64), 0
    x = min(max(x, _EDGE), 1.0 - _EDGE)
    for k in range(looks.size):
        if not open_to[k]:
            continue
        n, s = looks[k], clicks[k]
        cost = 0.0
        if s < x * n:
            cost = (n - s) * math.log((n - s) / (n * (1.0 - x)))
            cost += s * math.log(s / (n * x)) if s > 0 else 0.0
        if cost <= level:
            items[size] = k
            size += 1
    return items[:size]


class PIE(NamedTuple):
    """The best items by their means S/n; half of the time another that may be better is inserted at one place.

    Combes, Magureanu, Proutiere, Laroche 2015, PIE(slot), for users who scan until they click. An item may be better
    if its KL bound max{q : n kl(S/n, q) <= log t + 4 log log t} reaches the mean of the last listed one. One of them,
    drawn uniformly, takes the place `slot` and those behind it move down. Items never seen come first, in random
    order. No defence.

    Settings: `slot`, from 1, the place to explore: the first one is always looked at.
    """

    looks: Ints  # [K]
    clicks: Ints  # [K]
    slot: int

    live = True

    @classmethod
    def create(cls, problem: Problem, *, slot: int = 1) -> "PIE":
        k = problem.n_items
        return cls(np.zeros(k, np.int64), np.zeros(k, np.int64), whole("slot", slot, 1, problem.length))

    def rank(self, visit, allowed, ranking, note, rng):
        mean, d = np.empty(allowed.size), ranking.size
        for k in range(allowed.size):
            mean[k] = self.clicks[k] / self.looks[k] if self.looks[k] > 0 else np.inf
            mean[k] = mean[k] if allowed[k] else -np.inf
        top(mean, ranking, rng)
        coin, pick = rng.random(), rng.random()
        x = mean[ranking[-1]]
        if coin >= 0.5 or x == np.inf:
            return
        open_to = allowed.copy()
        for p in range(d):
            open_to[ranking[p]] = False
        lt = math.log(max(visit.t, 2))
        others = candidates(self.looks, self.clicks, open_to, x, lt + 4.0 * max(math.log(lt), 0.0))
        if others.size > 0:
            for p in range(d - 1, min(self.slot, d) - 1, -1):
                ranking[p] = ranking[p - 1]
            ranking[min(self.slot, d) - 1] = others[int(pick * others.size)]

    def update(self, visit, ranking, note, clicks, examined):
        count_bits(self.looks, self.clicks, ranking, clicks, examined)

    def forget(self, visit, ranking, note, clicks, examined):
        uncount_bits(self.looks, self.clicks, ranking, clicks, examined)
