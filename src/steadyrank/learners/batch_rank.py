"""BatchRank: batches of items for ranges of positions, explored in stages of growing precision."""

import math
from typing import NamedTuple

import numpy as np

from ..core.arrays import Ints
from ..core.compiling.jit import kernel
from ..core.contract import Problem
from ..core.kernels import kl_lower, kl_upper, largest, top
from ..core.settings import known_horizon

ANY = -2  # in place of a batch: all items left


@kernel
def stage_length(stage, log_t):
    """Views of each item that end a stage: ceil(16 * 4^stage * log T), gaps of 2^-stage (Zoghi et al. 2017)."""
    return math.ceil(16.0 * 4.0**stage * log_t)


@kernel
def finish(batch, looks, clicks, first, size, stage, b, log_t):
    """End a stage of batch b: split it, or drop the items surely below its last place and continue."""
    k = batch.size
    level = log_t + 3.0 * max(math.log(log_t), 0.0)
    low, high = np.full(k, -np.inf), np.full(k, -np.inf)
    members = 0
    for i in range(k):
        if batch[i] == b:
            members += 1
            low[i] = kl_lower(clicks[i] / looks[i], looks[i], level)
            high[i] = kl_upper(clicks[i] / looks[i], looks[i], level)
            looks[i] = clicks[i] = 0
    order = np.empty(members, np.int64)
    largest(low, order)
    cut, after = 0, -np.inf
    for p in range(members - 1, 0, -1):  # `after`: the highest bound behind place p
        after = max(after, high[order[p]])
        if cut == 0 and p < size[b] and low[order[p - 1]] > after:
            cut = p
    if cut == 0:
        stage[b] += 1
        last = low[order[min(size[b], members) - 1]]
        for i in order:
            if high[i] < last:
                batch[i] = -1
        return
    new = 0
    while size[new] > 0:
        new += 1
    first[new], size[new], stage[new] = first[b] + cut, size[b] - cut, 0
    size[b], stage[b] = cut, 0
    for p in range(cut, members):
        batch[order[p]] = new


@kernel
def fill(batch, looks, b, want, left, ranking, filled, rng):
    """Place up to `want` least seen items of batch b in random order from place `filled`; returns the new `filled`.

    `left` marks the items that may still be placed.
    """
    index = np.empty(batch.size)
    can = 0
    for k in range(batch.size):
        mine = left[k] and (b == ANY or batch[k] == b)
        index[k] = -looks[k] if mine else -np.inf
        can += 1 if mine else 0
    part = ranking[filled : filled + min(want, can)]
    if part.size == 0:
        return filled
    top(index, part, rng)
    for i in range(part.size):
        j = i + int(rng.random() * (part.size - i))
        part[i], part[j] = part[j], part[i]
        left[part[i]] = False
    return filled + part.size


@kernel
def count_least(batch, looks, clicks, n_batches, ranking, bits):
    """Count the listed items that were seen least in their batch; a place not examined counts as no click."""
    least = np.full(n_batches, 2**62)
    for k in range(batch.size):
        if batch[k] >= 0:
            least[batch[k]] = min(least[batch[k]], looks[k])
    for p in range(ranking.size):
        k = ranking[p]
        if batch[k] >= 0 and looks[k] == least[batch[k]]:
            looks[k] += 1
            clicks[k] += 1 if bits[p] else 0


@kernel
def complete(batch, looks, b, views):
    """Whether every item of batch b has at least `views` views."""
    for k in range(batch.size):
        if batch[k] == b and looks[k] < views:
            return False
    return True


class BatchRank(NamedTuple):
    """Explores batches uniformly and splits or thins them at the end of each stage (Zoghi et al. 2017, Algorithm 1).

    Written from memory of the paper; the structure agrees with public code of its predecessor. Uses clicks, not what
    was examined. No defence: a split or a dropped item is final. With 500 items, lists of 10 and 40,000
    rounds each item has 170 views in stage 0, which ends after 8,500 rounds; stage 1 would take 34,000.
    """

    batch: Ints  # [K] the item's batch, -1 if dropped
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
