"""TS-Cascade: Thompson sampling with one Gaussian draw shared by all items."""

import math
from typing import NamedTuple

import numpy as np

from ..core.arrays import Ints
from ..core.compiling.jit import kernel
from ..core.contract import Problem
from ..core.kernels import count_bits, top_allowed, uncount_bits


@kernel
def sample(n, clicks, t, z):
    """One item's value in round t for the shared draw z."""
    lt = math.log(t + 1.0)
    m = clicks / n if n > 0 else 0.0
    return m + z * max(math.sqrt(m * (1.0 - m) * lt / (n + 1)), lt / (n + 1))


class TSCascade(NamedTuple):
    """Ranks by m + Z max(sqrt(m (1 - m) log(t + 1) / (n + 1)), log(t + 1) / (n + 1)), one Z ~ N(0, 1) a round.

    Zhong, Cheung, Tan 2021, Algorithm 1 (TS-Cascade). m is S/n, 0 before any observation. No defence.
    """

    looks: Ints  # [K]
    clicks: Ints  # [K]

    live = True

    @classmethod
    def create(cls, problem: Problem) -> "TSCascade":
        return cls(np.zeros(problem.n_items, np.int64), np.zeros(problem.n_items, np.int64))

    def rank(self, visit, allowed, ranking, note, rng):
        z = rng.standard_normal()
        index = np.empty(self.looks.size)
        for k in range(self.looks.size):
            index[k] = sample(self.looks[k], self.clicks[k], visit.t, z)
        top_allowed(index, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        count_bits(self.looks, self.clicks, ranking, clicks, examined)

    def forget(self, visit, ranking, note, clicks, examined):
        uncount_bits(self.looks, self.clicks, ranking, clicks, examined)
