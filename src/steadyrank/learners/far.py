"""FAR: exploration along a proven order of items, for a known number of fake users."""

import math
from typing import NamedTuple

import numpy as np

from ..core.contract import Problem
from ..core.settings import known_horizon, real, whole
from .shared.layers import Layers, observe_layer, pick_least


class FAR(NamedTuple):
    """Shows the least seen item that no unplaced item is proven better than; F fake users known.

    Golrezaei, Manshadi, Schneider, Sekar 2021, "fake-aware". Reconstruction: the product-ordering graph is from
    the abstract; the radius sqrt(log(K T) / n) + F / n and the use of examined items as feedback (the original
    has another user model) are ours. The relation is an interval order, that of the current intervals.

    Settings: `corruption`, F, by default the true budget; `rho`, factor of the radius.
    """

    book: Layers

    live = False

    @classmethod
    def create(cls, problem: Problem, *, corruption: int | None = None, rho: float = 1.0) -> "FAR":
        f = whole("corruption", problem.budget if corruption is None else corruption, 0)
        log = math.log(max(problem.n_items * known_horizon("FAR", problem.horizon), 2))
        return cls(Layers.create(1, problem.n_items, log=log, extra=f, rho=real("rho", rho, 0.0)))

    def rank(self, visit, allowed, ranking, note, rng):
        low, high = self.book.low[0], self.book.high[0]
        pending = self.book.beaten[0].copy()
        free = allowed.copy()
        for j in range(free.size):
            if not free[j]:
                for k in range(free.size):
                    pending[k] -= 1 if low[j] > high[k] else 0
        eligible, tied = np.empty(free.size, np.bool_), np.empty(free.size, np.int64)
        for p in range(ranking.size):
            for k in range(free.size):
                eligible[k] = free[k] and pending[k] == 0
            j = pick_least(self.book.looks[0], eligible, tied, rng.random())
            ranking[p] = j
            free[j] = False
            for k in range(free.size):
                pending[k] -= 1 if low[j] > high[k] else 0

    def update(self, visit, ranking, note, clicks, examined):
        observe_layer(self.book, 0, ranking, clicks, examined)
