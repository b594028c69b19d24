"""BubbleRank: improves a given list by exchanging neighbours."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import Counts, Ints
from ..core.compiling.jit import kernel, no_refcount
from ..core.contract import Problem
from ..core.kernels import top
from ..core.settings import known_horizon, real, whole

SIZE = 0  # place of `listed`


@no_refcount
def surely_better(wins, i, j, log_term):
    """Whether s > 2 sqrt(n log(1 / delta)); s: clicks on i alone less clicks on j alone, n: their sum."""
    s, n = wins[i, j] - wins[j, i], wins[i, j] + wins[j, i]
    return s > 0 and s * s > 4.0 * n * log_term


@no_refcount
def exchange(base, size, wins, log_term):
    """Pass down the base list once and exchange neighbours of which the lower is surely better."""
    for p in range(size - 1):
        if surely_better(wins, base[p + 1], base[p], log_term):
            base[p], base[p + 1] = base[p + 1], base[p]


@kernel
def start_list(base, size, allowed, ranking, rng):
    """Write the allowed items of the base list into `ranking` in its order, followed by other items at random."""
    index = np.empty(allowed.size)
    for k in range(allowed.size):
        index[k] = -allowed.size if allowed[k] else -np.inf
    for p in range(size):
        if allowed[base[p]]:
            index[base[p]] = -p
    top(index, ranking, rng)


def base_list(base: Any, n_items: int) -> Ints:
    """Parse a base list, best first: `number`, a sequence of items, or text such as `3+0+2`; None: empty."""
    if base is None:
        return np.empty(0, np.int64)
    if base == "number":
        return np.arange(n_items)
    names = base.split("+") if isinstance(base, str) else base
    if not isinstance(names, Sequence | np.ndarray):
        raise ValueError(f"base must be 'number' or distinct items from 0 to {n_items - 1}, best first, not {base!r}")
    items = [whole("base", int(k) if isinstance(k, str) and k.isdigit() else k, 0, n_items - 1) for k in names]
    if len(set(items)) < len(items):
        raise ValueError(f"base must name each item once, best first, not {base!r}")
    return np.array(items, np.int64)


class BubbleRank(NamedTuple):
    """Exchanges neighbours of a base list for good once the lower one is surely better.

    Li, Kveton, Lattimore, Markov, de Rijke, Szepesvari, Zoghi 2019, Algorithm 1. In even rounds places 1 and 2, 3 and
    4, ... stand in random order, in odd rounds 2 and 3, 4 and 5, ..., except where the upper item is surely better.
    If one of two such neighbours was clicked and the other was not, it wins. An item is surely better than its
    neighbour if s > 2 sqrt(n log(1 / delta)), s its wins less its losses against it, n their sum. Every list is the
    base list up to exchanged neighbours, which makes it safe. Statistic, threshold and order of the steps agree with
    third-party code; delta = T^-4 is from memory. Stated bound, from memory: with V pairs of the base list in the
    wrong order, d (d + V) log T / gap, times the ratio of the highest to the lowest attention. No defence: undoing a
    false exchange takes as many clicks as causing it.

    It re-ranks and does not select: the third-party code refuses more items than places. Here it shows and orders the
    first d items of the base list, and other items only if some of these are not allowed. Cascade users value every
    order of a list equally, so with them its regret per round never changes; it is for users who look less at
    lower places.

    Settings: `base`, the items from best to worst, as `[3, 0, 2]`, on the command line `3+0+2`, or `number` for item
    order, which in many data sets says which items are best. By default the base list is unknown: the first list is
    drawn at random and becomes the base list once it is answered. Items shown later because others were not allowed
    are appended. `delta`, chance of a false exchange, T^-4. Cost: O(K) a round, 4 bytes a pair.
    """

    wins: Counts  # [K, K] how often row was clicked and its neighbour, column, was not
    base: Ints  # [K] items of the base list, best first
    listed: Ints  # [1] how many are listed
    log_term: float  # log(1 / delta)

    live = False

    @classmethod
    def create(
        cls, problem: Problem, *, base: Sequence[int] | str | None = None, delta: float | None = None
    ) -> "BubbleRank":
        k = problem.n_items
        if delta is None:
            log_term = 4.0 * math.log(known_horizon("BubbleRank", problem.horizon))
        else:
            log_term = -math.log(real("delta", delta, 1e-300, 1.0))
        first, items = base_list(base, k), np.zeros(k, np.int64)
        items[: first.size] = first
        return cls(np.zeros((k, k), np.int32), items, np.array([first.size]), log_term)

    def rank(self, visit, allowed, ranking, note, rng):
        start_list(self.base, self.listed[SIZE], allowed, ranking, rng)
        for p in range(visit.t % 2, ranking.size - 1, 2):
            coin = rng.random() < 0.5
            if coin and not surely_better(self.wins, ranking[p], ranking[p + 1], self.log_term):
                ranking[p], ranking[p + 1] = ranking[p + 1], ranking[p]

    def update(self, visit, ranking, note, clicks, examined):
        size = self.listed[SIZE]
        for k in ranking:
            known = False
            for p in range(size):
                known = known or self.base[p] == k
            if not known:
                self.base[size] = k
                size += 1
        self.listed[SIZE] = size
        for p in range(visit.t % 2, ranking.size - 1, 2):
            upper, lower = p < examined and clicks[p], p + 1 < examined and clicks[p + 1]
            if upper and not lower:
                self.wins[ranking[p], ranking[p + 1]] += 1
            elif lower and not upper:
                self.wins[ranking[p + 1], ranking[p]] += 1
        exchange(self.base, size, self.wins, self.log_term)
