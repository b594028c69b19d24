"""CascadeUCB1: an upper confidence bound for each item, with Hoeffding's width."""

import math
from typing import NamedTuple

import numpy as np

from ..core.arrays import Floats, Ints
from ..core.contract import Problem
from ..core.kernels import LOG_CLOCK, IndexTable, Ties, count_bits, tie_noise_of, uncount_bits
from ..core.settings import real
from .shared.ucb.bounds import GUESSED, Bounds, keep, rank_by_bounds, void


class CascadeUCB1(NamedTuple):
    """Index S/n + sqrt(c log t / n), c = 1.5 (Kveton et al. 2015, Algorithm 1 with UCB1); no defence.

    Settings: `c`, width of the confidence interval; `ties`, broken at random or by item number.
    """

    looks: Ints  # [K]
    clicks: Ints  # [K]
    level: Floats  # [K] S / n
    root: Floats  # [K] sqrt(c / n)
    linear: Floats  # [K] zero
    bounds: Bounds
    c: float
    tie_noise: float  # random part that breaks ties

    live = True

    @classmethod
    def create(cls, problem: Problem, *, c: float = 1.5, ties: Ties = "random") -> "CascadeUCB1":
        k = problem.n_items
        counts = np.zeros(k, np.int64), np.zeros(k, np.int64)
        index = np.zeros(k), np.zeros(k), np.zeros(k)
        return cls(*counts, *index, Bounds.create(k), real("c", c, 0.0), tie_noise_of(ties))

    def rank(self, visit, allowed, ranking, note, rng):
        table = IndexTable(self.looks, self.level, self.root, self.linear, np.inf, LOG_CLOCK, self.tie_noise)
        note[GUESSED] = rank_by_bounds(self.bounds, table, visit.t, 1, allowed, ranking, note, rng)

    def update(self, visit, ranking, note, clicks, examined):
        count_bits(self.looks, self.clicks, ranking, clicks, examined)
        for k in ranking[:examined]:
            self.level[k] = self.clicks[k] / self.looks[k]
            self.root[k] = math.sqrt(self.c / self.looks[k])
        table = IndexTable(self.looks, self.level, self.root, self.linear, np.inf, LOG_CLOCK, self.tie_noise)
        keep(self.bounds, table, visit.t, ranking, examined, note[GUESSED])

    def forget(self, visit, ranking, note, clicks, examined):
        uncount_bits(self.looks, self.clicks, ranking, clicks, examined)
        for k in ranking[:examined]:
            seen = self.looks[k] > 0
            self.level[k] = self.clicks[k] / self.looks[k] if seen else 0.0
            self.root[k] = math.sqrt(self.c / self.looks[k]) if seen else 0.0
        void(self.bounds)
