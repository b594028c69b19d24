"""UniRank: ordered sets of items, separated by clicks alone, for any click model."""

import math
from typing import NamedTuple

import numpy as np

from ..core.arrays import Counts, Ints
from ..core.compiling.jit import kernel, no_refcount
from ..core.contract import Problem
from ..core.kernels import kl_upper, top_allowed
from ..core.settings import known_horizon


@no_refcount
def count_win(ahead, total, score, i, j):
    """Count that item i was clicked and j of the same set was not; returns whether it changed who beats whom.

    ahead[i, j]: duels that i won less those that j won; total[i, j]: duels; score[i]: number of items that i beats.
    """
    ahead[i, j] += 1
    ahead[j, i] -= 1
    total[i, j] += 1
    total[j, i] += 1
    score[i] += ahead[i, j] == 1
    score[j] -= ahead[i, j] == 0
    return ahead[i, j] == 1 or ahead[i, j] == 0


@kernel
def leading_sets(ahead, score, enough, part):
    """Number the sets of the leading order into `part`, 0 for the first.

    A set is the smallest group of the remaining items each of which beats all the others. The item that beats most
    belongs to it, and so does every item that some member does not beat. Items behind `enough` others form one last
    set. O(K) for each item of a set, so O(K^2) while nothing is known.
    """
    n_items = part.size
    queue, worth = np.empty(n_items, np.int64), score.copy()
    part[:] = -1
    number = placed = 0
    while placed < enough and placed < n_items:
        first = -1
        for i in range(n_items):
            if part[i] < 0 and (first < 0 or worth[i] > worth[first]):
                first = i
        part[first], queue[0] = number, first
        size, looked = 1, 0
        while looked < size:
            row = ahead[queue[looked]]
            looked += 1
            for j in range(n_items):
                if part[j] < 0 and row[j] <= 0:
                    part[j], queue[size] = number, j
                    size += 1
        for q in range(size):
            column = ahead[queue[q]]
            for i in range(n_items):
                worth[i] -= column[i] < 0  # only duels among the remaining items count
        placed += size
        number += 1
    for i in range(n_items):
        part[i] = number if part[i] < 0 else part[i]


@no_refcount
def may_win(ahead, total, j, i, most, level):
    """The largest share of j's wins over i that KL-UCB allows, if it is above `most`; else `most`.

    1 if they never met. One divergence rejects most pairs, without solving for the bound.
    """
    n = total[j, i]
    if n == 0:
        return 1.0
    mean = 0.5 * (n + ahead[j, i]) / n
    if mean < most:
        kl = (1.0 - mean) * math.log((1.0 - mean) / (1.0 - most)) if most < 1.0 else np.inf
        kl += mean * math.log(mean / most) if mean > 0.0 else 0.0
        if n * kl >= level:
            return most
    return max(kl_upper(mean, n, level), most)


@kernel
def members(mixed, allowed, c):
    """The allowed items of set c, in item order."""
    items, n = np.empty(mixed.size, np.int64), 0
    for k in range(mixed.size):
        if allowed[k] and mixed[k] == c:
            items[n] = k
            n += 1
    return items[:n]


@kernel
def challenger(ahead, total, leaders, others, level, u):
    """The one of `others` that may win most duels with one of the leaders, if more than half; else -1. Ties by u."""
    most, ties = 0.5, 0
    shares = np.empty(others.size)
    for q in range(others.size):
        shares[q] = 0.5
        for i in leaders:
            shares[q] = may_win(ahead, total, others[q], i, shares[q], level)
        if shares[q] > most:
            most, ties = shares[q], 0
        ties += shares[q] == most
    pick = int(u * ties)
    for q in range(others.size):
        if shares[q] == most > 0.5:
            if pick == 0:
                return others[q]
            pick -= 1
    return -1


@kernel
def mix(ahead, total, part, allowed, size, level, u, mixed):
    """Write the sets that are shown into `mixed`, joining neighbours of the leading order that may be in wrong order.

    From the first set on: two sets that both fit into the list are joined if an item of the second may win against
    one of the first; then neither is joined to another. If the next set does not fit, only its one item that may win
    most joins. Returns the set in which the list ends, if only a part of it is shown, else
    -1; and the item that joined a set which filled the list without it, or -1.
    """
    mixed[:] = part
    c = placed = 0
    while placed < size:
        leaders, others = members(mixed, allowed, c), members(mixed, allowed, c + 1)
        here = leaders.size
        if placed + here > size:
            return c, -1
        best = challenger(ahead, total, leaders, others, level, u) if here > 0 else -1
        if best >= 0 and placed + here + others.size <= size:
            for k in others:
                mixed[k] = c
            here += others.size
            c += 1
        elif best >= 0:
            mixed[best] = c
            if placed + here == size:
                return c, best
            here += 1
        placed += here
        c += 1
    return -1, -1


LAST, JOINED = 0, 1  # indices in a note, behind the list's: what `mix` returns


@kernel
def compare(ahead, total, score, part, ranking, sets, bits, examined, last, joined):
    """Count each clicked item against those of its set that were not; returns whether any relation changed.

    If the list ended in a set of which only a part was shown, `last`, the rest of it counts as not clicked: the items
    of that part of the leading order, or the item that joined it.
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

    Gauthier, Gaudel, Fromont 2022, for any click model in which the more attractive of two items that trade places is
    clicked more. Within a set lists are random, so of two of its items the one clicked alone more often is better.
    The leading order results from these duels. A set is mixed with the next one if an item of that may win more than
    half of its duels with one of the set, by max{q : n kl(share, q) <= log t + 3 log log t}. A reconstruction: the
    duels, the bound and the search among neighbours of the leading order are the paper's. Ours are that sets are the
    smallest that beat all the rest, that at most one item comes from a set that does not fit into the list, and the
    logarithm of t, where the paper has that of how often the leader led. No defence, but no decision is final. 8
    bytes a pair of items.
    """

    ahead: Counts  # [K, K] duels won less those lost
    total: Counts  # [K, K] duels
    score: Ints  # [K] number of others that an item beats
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
