"""CascadeUCB-V: an upper confidence bound for each item, with a width that uses the variance."""

from typing import NamedTuple

import numpy as np

from ..core.arrays import Floats, Ints
from ..core.contract import Problem
from ..core.kernels import LOG_CLOCK, IndexTable, Ties, count_bits, mean_index, tie_noise_of, uncount_bits
from ..core.settings import real
from .shared.ucb.bounds import GUESSED, Bounds, keep, rank_by_bounds, void


class CascadeUCBV(NamedTuple):
    """Index min{m + a sqrt(m (1 - m) log t / n) + b log t / n, 1}, m = S/n (Vial et al. 2022, CascadeUCB-V).

    a = 2 and b = 6 are that paper's sqrt(4) and 6. No defence. Minimax-optimal on clean feedback up to
    logarithms. An item stays at the cap, tied with many, until n > 6 log t.

    Settings: `a`, `b`, factors of the variance and the bias term; `ties`, broken at random or by item number.
    """

    looks: Ints  # [K]
    clicks: Ints  # [K]
    level: Floats  # [K] S / n
    root: Floats  # [K] a sqrt(m (1 - m) / n)
    linear: Floats  # [K] b / n
    bounds: Bounds
    a: float
    b: float
    tie_noise: float  # random part that breaks ties

    live = True

    @classmethod
    def create(cls, problem: Problem, *, a: float = 2.0, b: float = 6.0, ties: Ties = "random") -> "CascadeUCBV":
        k = problem.n_items
        counts = np.zeros(k, np.int64), np.zeros(k, np.int64)
        return cls(
            *counts,
            np.zeros(k),
            np.zeros(k),
            np.zeros(k),
            Bounds.create(k),
            real("a", a, 0.0),
            real("b", b, 0.0),
            tie_noise_of(ties),
        )

    def rank(self, visit, allowed, ranking, note, rng):
        table = IndexTable(self.looks, self.level, self.root, self.linear, 1.0, LOG_CLOCK, self.tie_noise)
        note[GUESSED] = rank_by_bounds(self.bounds, table, visit.t, 1, allowed, ranking, note, rng)

    def update(self, visit, ranking, note, clicks, examined):
        count_bits(self.looks, self.clicks, ranking, clicks, examined)
        for k in ranking[:examined]:
            mean = self.clicks[k] / self.looks[k]
            mean_index(self.level, self.root, self.linear, k, mean, self.looks[k], self.a, self.b)
        table = IndexTable(self.looks, self.level, self.root, self.linear, 1.0, LOG_CLOCK, self.tie_noise)
        keep(self.bounds, table, visit.t, ranking, examined, note[GUESSED])

    def forget(self, visit, ranking, note, clicks, examined):
        uncount_bits(self.looks, self.clicks, ranking, clicks, examined)
        for k in ranking[:examined]:
            if self.looks[k] > 0:
                mean = self.clicks[k] / self.looks[k]
                mean_index(self.level, self.root, self.linear, k, mean, self.looks[k], self.a, self.b)
            else:
                self.level[k] = self.root[k] = self.linear[k] = 0.0
        void(self.bounds)
