"""CascadeKL-UCB: optimism item by item, with the Kullback-Leibler bound."""

import math
from typing import NamedTuple

import numpy as np

from ..contract import Ints, Problem
from ..kernels import count_bits, kl_upper, top


class CascadeKLUCB(NamedTuple):
    """Index max{q : n kl(S/n, q) <= log t + 3 log log t} (Kveton et al. 2015, Algorithm 1 with KL-UCB).

    No defence. Minimax-optimal on clean feedback up to logarithms (Vial et al. 2022).
    """

    seen: Ints  # [K]
    wins: Ints  # [K]

    live = True

    @classmethod
    def create(cls, problem: Problem) -> "CascadeKLUCB":
        return cls(np.zeros(problem.n_items, np.int64), np.zeros(problem.n_items, np.int64))

    def rank(self, t, allowed, ranking, note, rng):
        lt = math.log(max(t, 2))
        level = lt + 3.0 * max(math.log(lt), 0.0)
        index = np.full(self.seen.size, -np.inf)
        for k in range(self.seen.size):
            if allowed[k]:
                n = self.seen[k]
                index[k] = kl_upper(self.wins[k] / n, n, level) if n > 0 else np.inf
        top(index, ranking, rng)

    def update(self, t, ranking, note, clicks, examined):
        count_bits(self.seen, self.wins, ranking, clicks, examined)
