"""CascadeUCB1: optimism item by item, with Hoeffding's width."""

import math
from typing import NamedTuple

import numpy as np

from ..contract import Floats, Ints, Problem
from ..indices.bounds import Bounds, keep
from ..indices.ranks import GUESSED, rank_by_bounds
from ..kernels import LOG_CLOCK, IndexTable, count_bits
from ..settings import real


class CascadeUCB1(NamedTuple):
    """Index S/n + sqrt(c log t / n), c = 1.5 (Kveton et al. 2015, Algorithm 1 with UCB1); no defence.

    Settings: `c`, width of the confidence interval.
    """

    looks: Ints  # [K]
    clicks: Ints  # [K]
    level: Floats  # [K] S / n
    root: Floats  # [K] sqrt(c / n)
    linear: Floats  # [K] zero
    bounds: Bounds
    c: float

    live = True

    @classmethod
    def create(cls, problem: Problem, *, c: float = 1.5) -> "CascadeUCB1":
        k = problem.n_items
        counts = np.zeros(k, np.int64), np.zeros(k, np.int64)
        return cls(*counts, np.zeros(k), np.zeros(k), np.zeros(k), Bounds.create(k), real("c", c, 0.0))

    def rank(self, visit, allowed, ranking, note, rng):
        table = IndexTable(self.looks, self.level, self.root, self.linear, np.inf, LOG_CLOCK)
        note[GUESSED] = rank_by_bounds(self.bounds, table, visit.t, 1, allowed, ranking, note, rng)

    def update(self, visit, ranking, note, clicks, examined):
        count_bits(self.looks, self.clicks, ranking, clicks, examined)
        for k in ranking[:examined]:
            self.level[k] = self.clicks[k] / self.looks[k]
            self.root[k] = math.sqrt(self.c / self.looks[k])
        table = IndexTable(self.looks, self.level, self.root, self.linear, np.inf, LOG_CLOCK)
        keep(self.bounds, table, visit.t, ranking, examined, note[GUESSED])
