"""CascadeTS: Thompson sampling item by item, with Beta posteriors."""

from typing import NamedTuple

import numpy as np

from ..contract import Ints, Problem
from ..kernels import count_bits, top


class CascadeTS(NamedTuple):
    """Ranks by one draw from each item's Beta(1 + S, 1 + n - S) (Zhong, Cheung, Tan 2021, CTS).

    The strongest published learner on clean feedback at these sizes, and the easiest to mislead early.
    """

    looks: Ints  # [K]
    clicks: Ints  # [K]

    live = True

    @classmethod
    def create(cls, problem: Problem) -> "CascadeTS":
        return cls(np.zeros(problem.n_items, np.int64), np.zeros(problem.n_items, np.int64))

    def rank(self, visit, allowed, ranking, note, rng):
        index = np.full(self.looks.size, -np.inf)
        for k in range(self.looks.size):
            if allowed[k]:
                index[k] = rng.beta(1.0 + self.clicks[k], 1.0 + self.looks[k] - self.clicks[k])
        top(index, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        count_bits(self.looks, self.clicks, ranking, clicks, examined)
