"""CascadeKL-UCB: optimism item by item, with the Kullback-Leibler bound."""

from typing import NamedTuple

import numpy as np

from ..contract import Floats, Ints, Problem
from ..indices.bounds import Bounds
from ..indices.kl_lines import keep_kl, rank_by_kl
from ..kernels import count_bits


class CascadeKLUCB(NamedTuple):
    """Index max{q : n kl(S/n, q) <= log t + 3 log log t} (Kveton et al. 2015, Algorithm 1 with KL-UCB).

    No defence. Minimax-optimal on clean feedback up to logarithms (Vial et al. 2022).
    """

    looks: Ints  # [K]
    clicks: Ints  # [K]
    level: Floats  # [K] with `root` and `linear`: the tangent of the index, and how fast the index leaves it
    root: Floats  # [K]
    linear: Floats  # [K]
    epoch: Floats  # [2] where the tangents were drawn, and until which round they serve
    bounds: Bounds

    live = True

    @classmethod
    def create(cls, problem: Problem) -> "CascadeKLUCB":
        k = problem.n_items
        counts = np.zeros(k, np.int64), np.zeros(k, np.int64)
        return cls(*counts, np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(2), Bounds.create(k))

    def rank(self, visit, allowed, ranking, note, rng):
        index = self.looks, self.clicks, self.level, self.root, self.linear, self.epoch
        note[0] = rank_by_kl(self.bounds, *index, visit.t, allowed, ranking, note, rng)

    def update(self, visit, ranking, note, clicks, examined):
        count_bits(self.looks, self.clicks, ranking, clicks, examined)
        index = self.looks, self.clicks, self.level, self.root, self.linear, self.epoch
        keep_kl(self.bounds, *index, visit.t, ranking, examined, note[0])
