"""CascadeUCB-V by its plain formula, with every index evaluated in every round: the reference for lazy evaluation."""

import math
from typing import NamedTuple

import numpy as np

from steadyrank.core.kernels import count_bits, top_allowed


class PlainUCBV(NamedTuple):
    """The rankings of `CascadeUCBV`, with a square root for every item in every round."""

    looks: np.ndarray
    clicks: np.ndarray

    @classmethod
    def create(cls, problem):
        return cls(np.zeros(problem.n_items, np.int64), np.zeros(problem.n_items, np.int64))

    def rank(self, visit, allowed, ranking, note, rng):
        lt = math.log(max(visit.t, 2))
        index = np.empty(self.looks.size)
        for k in range(self.looks.size):
            n = self.looks[k]
            mean = self.clicks[k] / n if n > 0 else 0.0
            width = 2.0 * math.sqrt(mean * (1.0 - mean) / n) * math.sqrt(lt) + 6.0 / n * lt if n > 0 else np.inf
            index[k] = min(mean + width, 1.0) if n > 0 else np.inf
        top_allowed(index, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        count_bits(self.looks, self.clicks, ranking, clicks, examined)
