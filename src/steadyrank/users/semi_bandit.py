"""Semi-bandit users: look at the whole list and click all that attracts them."""

from typing import NamedTuple

import numpy as np

from ..contract import ANYONE, Floats, Ints
from ..kernels import cascade_value


class SemiBandit(NamedTuple):
    """`Cascade` without its end: the same bits, all of them reported, several clicks possible (Chen et al. 2013).

    The value of a list stays the chance that something in it attracts: regrets compare with those of `Cascade`.
    Some public code gives learners for cascades this richer feedback.
    """

    attraction: Floats
    favourites: Ints  # the best list, best first

    @classmethod
    def create(cls, attraction: Floats, length: int) -> "SemiBandit":
        attraction = np.ascontiguousarray(attraction, np.float64)
        return cls(attraction, np.argsort(-attraction, kind="stable")[:length].astype(np.int64))

    def arrive(self, t, features, rng):
        return ANYONE

    def click(self, visit, ranking, clicks, rng):
        for p in range(self.favourites.size):
            u = rng.random()
            if p < ranking.size:
                clicks[p] = u < self.attraction[ranking[p]]
        return ranking.size

    def reach(self, clicks, size):
        return size

    def value(self, visit, ranking):
        return cascade_value(self.attraction, ranking)

    def best(self, visit, ranking):
        for p in range(ranking.size):
            ranking[p] = self.favourites[p]
