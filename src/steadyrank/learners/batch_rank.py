"""BatchRank: batches of items for ranges of positions, explored in stages of growing precision."""

import math
from typing import NamedTuple

import numpy as np

from ..contract import Ints, Problem
from ..parts.batches import ANY, complete, count_least, fill, finish, stage_length
from ..settings import known_horizon


class BatchRank(NamedTuple):
    """Explores batches uniformly and splits or thins them at the end of each stage (Zoghi et al. 2017, Algorithm 1).

    From memory of the paper; the skeleton agrees with public code of its predecessor. Uses clicks, not what was
    examined. No defence: a split or a dropped item is never taken back. At 500 items, lists of 10 and 40,000
    rounds each item has 170 views in stage 0, which ends after 8,500 rounds; stage 1 would take 34,000.
    """

    batch: Ints  # [K] which batch an item is in, -1 when dropped
    looks: Ints  # [K] views in the batch's stage
    clicks: Ints  # [K]
    first: Ints  # [length] a batch's first position
    size: Ints  # [length] its number of positions, 0 when unused
    stage: Ints  # [length]
    log_t: float

    live = False

    @classmethod
    def create(cls, problem: Problem) -> "BatchRank":
        k, d = problem.n_items, problem.length
        items = np.zeros(k, np.int64), np.zeros(k, np.int64), np.zeros(k, np.int64)
        first, size, stage = np.zeros(d, np.int64), np.zeros(d, np.int64), np.zeros(d, np.int64)
        size[0] = d
        return cls(*items, first, size, stage, math.log(max(known_horizon("BatchRank", problem.horizon), 2)))

    def rank(self, visit, allowed, ranking, note, rng):
        left = allowed.copy()
        filled = 0
        for place in range(self.first.size):
            for b in range(self.first.size):
                if self.size[b] > 0 and self.first[b] == place:
                    filled = fill(self.batch, self.looks, b, self.size[b], left, ranking, filled, rng)
        fill(self.batch, self.looks, ANY, ranking.size, left, ranking, filled, rng)

    def update(self, visit, ranking, note, clicks, examined):
        count_least(self.batch, self.looks, self.clicks, self.first.size, ranking, clicks)
        for b in range(self.first.size):
            if self.size[b] > 0 and complete(self.batch, self.looks, b, stage_length(self.stage[b], self.log_t)):
                finish(self.batch, self.looks, self.clicks, self.first, self.size, self.stage, b, self.log_t)
