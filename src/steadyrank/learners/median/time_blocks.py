"""TimeBlocks: CascadeUCB-V on a median over blocks of time."""

from typing import NamedTuple

import numpy as np

from ...core.arrays import Floats, Ints
from ...core.contract import Problem
from ...core.kernels import LOG_CLOCK, IndexTable, mean_index
from ...core.settings import real, whole
from ..shared.ucb.bounds import GUESSED, Bounds, keep, rank_by_bounds
from .means import TimeMedians, median_in_time, observe_in_time


class TimeBlocks(NamedTuple):
    """CascadeUCB-V whose mean is the median of the means of `n_blocks` or more blocks in order of arrival (ours).

    A sound form of the paper's idea: an attack confined to less than half of an item's blocks hardly moves
    its estimate; one spread evenly over time moves it as it moves the mean.

    Settings: `n_blocks`, least number of blocks; `mean_until`, observations below which the plain mean is used;
    `a`, `b`, widths as in CascadeUCBV.
    """

    book: TimeMedians
    looks: Ints  # [K]
    clicks: Ints  # [K]
    level: Floats  # [K]
    root: Floats  # [K]
    linear: Floats  # [K]
    bounds: Bounds
    mean_until: int
    a: float
    b: float

    live = True

    @classmethod
    def create(
        cls, problem: Problem, *, n_blocks: int = 8, mean_until: int = 32, a: float = 2.0, b: float = 6.0
    ) -> "TimeBlocks":
        k = problem.n_items
        n_blocks = whole("n_blocks", n_blocks, 1, 1024)
        return cls(
            TimeMedians.create(k, n_blocks),
            np.zeros(k, np.int64),
            np.zeros(k, np.int64),
            np.zeros(k),
            np.zeros(k),
            np.zeros(k),
            Bounds.create(k),
            whole("mean_until", mean_until, 1),
            real("a", a, 0.0),
            real("b", b, 0.0),
        )

    def rank(self, visit, allowed, ranking, note, rng):
        table = IndexTable(self.looks, self.level, self.root, self.linear, 1.0, LOG_CLOCK, 1.0)
        note[GUESSED] = rank_by_bounds(self.bounds, table, visit.t, 1, allowed, ranking, note, rng)

    def update(self, visit, ranking, note, clicks, examined):
        for p in range(examined):
            k = ranking[p]
            bit = 1 if clicks[p] else 0
            self.looks[k] += 1
            self.clicks[k] += bit
            observe_in_time(self.book, k, bit)
            n = self.looks[k]
            mean = self.clicks[k] / n if n < self.mean_until else median_in_time(self.book, k)
            mean_index(self.level, self.root, self.linear, k, mean, n, self.a, self.b)
        table = IndexTable(self.looks, self.level, self.root, self.linear, 1.0, LOG_CLOCK, 1.0)
        keep(self.bounds, table, visit.t, ranking, examined, note[GUESSED])
