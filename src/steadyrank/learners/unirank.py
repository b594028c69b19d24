"""UniRank: sets of items in order, told apart by their clicks alone, whatever users do."""

import math
from typing import NamedTuple

import numpy as np

from .._jit import kernel
from ..contract import Counts, Ints, Problem
from ..kernels import top_allowed
from ..parts.orders import count_win, leading_sets, mix
from ..settings import known_horizon

LAST, JOINED = 0, 1  # places of a note behind those of the list: what `mix` returns


@kernel
def compare(ahead, total, score, part, ranking, sets, bits, examined, last, joined):
    """Count each clicked item against those of its set that were not; returns whether any relation changed.

    Where the list ended in a set of which only some were shown, `last`, the others were not clicked: they are of that
    part of the leading order, or the item that joined it.
    """
    listed = np.zeros(part.size, np.bool_)
    for p in range(ranking.size):
        listed[ranking[p]] = True
    changed = False
    for p in range(examined):
        if not bits[p]:
            continue
        for q in range(ranking.size):
            if sets[q] == sets[p] and not (q < examined and bits[q]):
                changed |= count_win(ahead, total, score, ranking[p], ranking[q])
        if sets[p] == last:
            for j in range(part.size):
                if (part[j] == last or j == joined) and not listed[j]:
                    changed |= count_win(ahead, total, score, ranking[p], j)
    return changed


class UniRank(NamedTuple):
    """Shuffles sets of items in the leading order, and mixes neighbouring sets that may be in the wrong order.

    Gauthier, Gaudel, Fromont 2022, for any click model in which the more attractive of two items that trade places
    is clicked more. Within a set lists are random, so of two of its items the one clicked alone more often is
    better. The leading order is by these duels; a set is mixed with the next if an item of that may win more than
    half of its duels with one of the set, by max{q : n kl(share, q) <= log t + 3 log log t}. A reconstruction:
    certain are the duels, the bound and the search among neighbours of the leading order. Ours are that sets are
    the smallest that beat all the rest, that at most one item comes from a set that does not fit into the list, and
    the logarithm of t, where the paper has that of how often the leader led. No defence, but nothing is decided for
    good. 8 bytes a pair of items.
    """

    ahead: Counts  # [K, K] duels won less those lost
    total: Counts  # [K, K] duels
    score: Ints  # [K] how many others an item beats
    part: Ints  # [K] number of its set in the leading order
    length: int

    live = False

    @classmethod
    def create(cls, problem: Problem) -> "UniRank":
        k = problem.n_items
        known_horizon("UniRank", problem.horizon)
        pairs = np.zeros((k, k), np.int32), np.zeros((k, k), np.int32)
        return cls(*pairs, np.zeros(k, np.int64), np.zeros(k, np.int64), int(problem.length))

    def rank(self, visit, allowed, ranking, note, rng):
        lt = math.log(max(visit.t, 2))
        level = lt + 3.0 * max(math.log(lt), 0.0)
        mixed = np.empty(self.part.size, np.int64)
        last, joined = mix(self.ahead, self.total, self.part, allowed, ranking.size, level, rng.random(), mixed)
        top_allowed(-mixed, allowed, ranking, rng)
        for p in range(ranking.size):
            note[p] = mixed[ranking[p]]
        note[self.length + LAST], note[self.length + JOINED] = last, joined

    def update(self, visit, ranking, note, clicks, examined):
        sets, last, joined = note[: ranking.size], note[self.length + LAST], note[self.length + JOINED]
        if compare(self.ahead, self.total, self.score, self.part, ranking, sets, clicks, examined, last, joined):
            leading_sets(self.ahead, self.score, self.length, self.part)
