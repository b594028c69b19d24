"""Cascade users: scan from the top, click the first attractive item, stop."""

from typing import NamedTuple

import numpy as np

from ..contract import ANYONE, Floats, Ints
from ..kernels import cascade_stop, cascade_value


class Cascade(NamedTuple):
    """Cascade users with fixed attractions (Craswell et al. 2008; Kveton et al. 2015, section 2)."""

    attraction: Floats
    favourites: Ints  # the best list, best first

    @classmethod
    def create(cls, attraction: Floats, length: int) -> "Cascade":
        attraction = np.ascontiguousarray(attraction, np.float64)
        # numpy, not a kernel: nothing is compiled before every setting has been checked
        return cls(attraction, np.argsort(-attraction, kind="stable")[:length].astype(np.int64))

    def arrive(self, t, features, rng):
        return ANYONE

    def click(self, visit, ranking, clicks, rng):
        for p in range(self.favourites.size):
            u = rng.random()
            if p < ranking.size:
                clicks[p] = u < self.attraction[ranking[p]]
        return cascade_stop(clicks, ranking.size)

    def reach(self, clicks, size):
        return cascade_stop(clicks, size)

    def value(self, visit, ranking):
        return cascade_value(self.attraction, ranking)

    def best(self, visit, ranking):
        for p in range(ranking.size):  # numba compiles a loop in a tenth of the time of a slice
            ranking[p] = self.favourites[p]
