"""TS-Cascade: Thompson sampling with one Gaussian draw shared by all items."""

import math
from typing import NamedTuple

import numpy as np

from ..contract import Ints, Problem
from ..kernels import count_bits, top


class TSCascade(NamedTuple):
    """Ranks by m + Z max(sqrt(m (1 - m) log(t + 1) / (n + 1)), log(t + 1) / (n + 1)), one Z ~ N(0, 1) a round.

    Zhong, Cheung, Tan 2021, Algorithm 1 (TS-Cascade). m is S/n, 0 before any observation. No defence.
    """

    seen: Ints  # [K]
    wins: Ints  # [K]

    live = True

    @classmethod
    def create(cls, problem: Problem) -> "TSCascade":
        return cls(np.zeros(problem.n_items, np.int64), np.zeros(problem.n_items, np.int64))

    def rank(self, t, allowed, ranking, note, rng):
        z = rng.standard_normal()
        lt = math.log(t + 1.0)
        index = np.full(self.seen.size, -np.inf)
        for k in range(self.seen.size):
            if allowed[k]:
                n = self.seen[k]
                m = self.wins[k] / n if n > 0 else 0.0
                index[k] = m + z * max(math.sqrt(m * (1.0 - m) * lt / (n + 1)), lt / (n + 1))
        top(index, ranking, rng)

    def update(self, t, ranking, note, clicks, examined):
        count_bits(self.seen, self.wins, ranking, clicks, examined)
