"""PBM-UCB: an upper confidence bound for each item, for users whose attention by place is known."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.arrays import Floats, Ints
from ..core.compiling.jit import no_refcount
from ..core.contract import Problem
from ..core.kernels import LOG_CLOCK, IndexTable
from ..core.places import attention_of, place_best_first
from ..core.settings import real
from .shared.place_counts import PlaceCounts, count_places, sums, uncount_places
from .shared.ucb.bounds import GUESSED, Bounds, keep, rank_by_bounds, void


@no_refcount
def set_indices(counts, looks, level, root, width, ranking, examined):
    """Update the parts of the indices of items whose counts have changed."""
    for p in range(examined):
        k = ranking[p]
        n, looked, s = sums(counts, k)
        looks[k] = n
        level[k] = s / looked if n > 0 else 0.0
        root[k] = math.sqrt(width * n) / looked if n > 0 else 0.0


class PBMUCB(NamedTuple):
    """Index S/N~ + sqrt(N/N~) sqrt(delta / (2 N~)), delta = (1 + epsilon) log t (Lagree, Vernade, Cappe 2016).

    N is how often an item was shown, N~ the total attention of its places, S its clicks. The item with the k-th
    highest index goes to the place with the k-th most attention. Items never shown come first. No defence.

    Settings: `eta` or `attention`, the assumed attention of users, as for `PositionBased`; `epsilon`, 0.
    """

    counts: PlaceCounts
    looks: Ints  # [K] N
    level: Floats  # [K] S / N~
    root: Floats  # [K] sqrt(N (1 + epsilon) / 2) / N~
    linear: Floats  # [K] zero
    bounds: Bounds
    width: float  # (1 + epsilon) / 2

    live = True

    @classmethod
    def create(
        cls,
        problem: Problem,
        *,
        eta: float | None = None,
        attention: Sequence[float] | str | None = None,
        epsilon: float = 0.0,
    ) -> "PBMUCB":
        k, looks = problem.n_items, attention_of(eta, attention, problem.length)
        width = 0.5 * (1.0 + real("epsilon", epsilon, 0.0))
        index = np.zeros(k, np.int64), np.zeros(k), np.zeros(k), np.zeros(k)
        return cls(PlaceCounts.create(k, looks), *index, Bounds.create(k), width)

    def rank(self, visit, allowed, ranking, note, rng):
        table = IndexTable(self.looks, self.level, self.root, self.linear, np.inf, LOG_CLOCK, 1.0)
        note[GUESSED] = rank_by_bounds(self.bounds, table, visit.t, 1, allowed, ranking, note, rng)
        place_best_first(self.counts.order, ranking)

    def update(self, visit, ranking, note, clicks, examined):
        count_places(self.counts, ranking, clicks, examined)
        set_indices(self.counts, self.looks, self.level, self.root, self.width, ranking, examined)
        table = IndexTable(self.looks, self.level, self.root, self.linear, np.inf, LOG_CLOCK, 1.0)
        keep(self.bounds, table, visit.t, ranking, examined, note[GUESSED])

    def forget(self, visit, ranking, note, clicks, examined):
        uncount_places(self.counts, ranking, clicks, examined)
        set_indices(self.counts, self.looks, self.level, self.root, self.width, ranking, examined)
        void(self.bounds)
