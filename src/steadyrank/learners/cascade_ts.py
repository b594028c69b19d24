"""CascadeTS: Thompson sampling item by item, with Beta posteriors."""

from typing import NamedTuple

import numpy as np

from ..contract import Ints, Problem
from ..kernels import count_bits, top
from ..parts.hedge import expect, hedged_list, invert
from ..settings import real


class CascadeTS(NamedTuple):
    """Ranks by one draw from each item's Beta(1 + S, 1 + n - S) (Zhong, Cheung, Tan 2021, CTS).

    The strongest published learner on clean feedback at these sizes, and the easiest to mislead early.
    `insurance` (ours, none by default): weight in the list of the view that everything learnt is inverted.
    """

    looks: Ints  # [K]
    clicks: Ints  # [K]
    insurance: float

    live = True

    @classmethod
    def create(cls, problem: Problem, *, insurance: float = 0.0) -> "CascadeTS":
        insurance = real("insurance", insurance, 0.0, 0.5)
        return cls(np.zeros(problem.n_items, np.int64), np.zeros(problem.n_items, np.int64), insurance)

    def rank(self, visit, allowed, ranking, note, rng):
        values = np.full((1 if self.insurance == 0.0 else 2, self.looks.size), -np.inf)
        for k in range(self.looks.size):
            if allowed[k]:
                values[0, k] = rng.beta(1.0 + self.clicks[k], 1.0 + self.looks[k] - self.clicks[k])
        if self.insurance == 0.0:
            top(values[0], ranking, rng)
            return
        mean, weights = np.empty(allowed.size), np.array([1.0 - self.insurance, self.insurance])
        expect(self.looks, self.clicks, 1.0, 1.0, mean)
        invert(mean, values[1])
        hedged_list(values, mean, weights, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        count_bits(self.looks, self.clicks, ranking, clicks, examined)
