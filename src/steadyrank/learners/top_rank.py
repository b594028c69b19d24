"""TopRank: blocks of items, split when one is surely clicked more than another."""

import math
from typing import NamedTuple

import numpy as np

from ..core.arrays import Bools, Counts, Ints
from ..core.compiling.jit import kernel
from ..core.contract import Problem
from ..core.kernels import top_allowed
from ..core.settings import known_horizon

C = 4.0 * math.sqrt(2.0 / math.pi) / math.erf(math.sqrt(2.0))  # 3.43 (Lattimore et al. 2018, Algorithm 1)


@kernel
def compare(wins, better, block, clicked, log_c):
    """Count clicked item i against every item of its block that was not; returns whether a relation was added.

    S = wins[i, j] - wins[j, i] and N their sum; i is better once S >= sqrt(2 N log(c sqrt(N) / delta)).
    """
    added = False
    for i in range(block.size):
        if not clicked[i]:
            continue
        for j in range(block.size):
            if clicked[j] or block[j] != block[i]:
                continue
            wins[i, j] += 1
            n = wins[i, j] + wins[j, i]
            s = wins[i, j] - wins[j, i]
            if s > 0 and s * s >= 2.0 * n * (log_c + 0.5 * math.log(n)) and not better[i, j]:
                better[i, j] = True
                added = True
    return added


@kernel
def split(better, block, length):
    """Number the blocks: 0 for items with nothing better, 1 for those with nothing better among the rest, ...

    Stops when the list is full. False clicks can make the relation cyclic; the remaining items then form one block.
    """
    k = block.size
    above = np.zeros(k, np.int32)
    for i in range(k):
        for j in range(k):
            above[j] += better[i, j]
    block[:] = -1
    placed = number = 0
    while placed < k:
        size = 0
        for i in range(k):
            if block[i] < 0 and above[i] == 0:
                block[i] = number
                size += 1
        if size == 0 or placed >= length:
            for i in range(k):
                if block[i] < 0:
                    block[i] = number
            return
        for i in range(k):
            if block[i] == number:
                for j in range(k):
                    above[j] -= better[i, j]
        placed += size
        number += 1


class TopRank(NamedTuple):
    """Shuffles blocks of items whose order is not proven (Lattimore, Kveton, Li, Szepesvari 2018, Algorithm 1).

    Statistic, threshold and constant agree with third-party source code; delta = 1/T. Works for many click
    models, because it uses clicks and not what was examined: an item of a clicked item's block that was not
    clicked lost against it, shown or not. No defence: a wrong relation is never revoked. With T = 40,000 it
    takes at least 27 more clicks on one than on the other to order a pair. 5 bytes a pair.
    """

    wins: Counts  # [K, K] rounds in which row was clicked and column was not, within a block
    better: Bools  # [K, K] row is proven better than column
    block: Ints  # [K]
    length: int
    log_c: float  # log(c / delta)

    live = False

    @classmethod
    def create(cls, problem: Problem) -> "TopRank":
        k, horizon = problem.n_items, known_horizon("TopRank", problem.horizon)
        pairs = np.zeros((k, k), np.int32), np.zeros((k, k), np.bool_)
        return cls(*pairs, np.zeros(k, np.int64), int(problem.length), math.log(C * horizon))

    def rank(self, visit, allowed, ranking, note, rng):
        top_allowed(-self.block, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        clicked = np.zeros(self.block.size, np.bool_)
        some = False
        for p in range(examined):
            clicked[ranking[p]] = clicks[p]
            some = some or clicks[p]
        if some and compare(self.wins, self.better, self.block, clicked, self.log_c):
            split(self.better, self.block, self.length)
