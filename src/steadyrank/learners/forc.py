"""FORC: FAR on levels that learn from one another, for an unknown number of fake users."""

import math
from typing import NamedTuple

import numpy as np

from ..contract import Counts, Problem
from ..parts.layers import Layers, count_layers, draw_layer, observe_layer
from ..parts.relations import add_edges, pick, release
from ..settings import known_horizon, real

LEVEL = 0  # place of the note: the level that ranked


class FORC(NamedTuple):
    """FAR in ceil(log2 T) levels; a level trusts what slower ones proved (Golrezaei et al. 2021, "fake-oblivious").

    Reconstruction: levels with cross-learning in both directions is from the abstract; the rest follows
    CascadeRAC's layers. Downwards: relations hold on all faster levels. Upwards: among items seen equally often,
    the faster levels' means decide. A level whose relations close a cycle starts over. Relations are kept as one
    bit a level and pair, 4 bytes a pair. With rho = 1, 500 items and 40,000 rounds no relation is ever proved.

    Settings: `rho`, factor of the radius; `delta`, chance of failure.
    """

    book: Layers
    edges: Counts  # [K, K] bit l: level l proved row better than column
    above: Counts  # [levels, K] items better than this one by this level or slower ones

    live = False

    @classmethod
    def create(cls, problem: Problem, *, rho: float = 1.0, delta: float = 0.1) -> "FORC":
        k, horizon = problem.n_items, known_horizon("FORC", problem.horizon)
        levels = min(count_layers(horizon), 30)
        log = math.log(4.0 * k * horizon * levels / real("delta", delta, 1e-12, 1.0))
        book = Layers.create(levels, k, log=log, extra=log, rho=real("rho", rho, 0.0))
        return cls(book, np.zeros((k, k), np.int32), np.zeros((levels, k), np.int32))

    def rank(self, visit, allowed, ranking, note, rng):
        level = draw_layer(self.above.shape[0], rng.random())
        note[LEVEL] = level
        pending = self.above[level].copy()
        free = allowed.copy()
        for i in range(free.size):
            if not free[i]:
                release(self.edges, pending, level, i)
        for p in range(ranking.size):
            i = pick(self.book, level, free, pending, rng.random())
            ranking[p] = i
            free[i] = False
            release(self.edges, pending, level, i)

    def update(self, visit, ranking, note, clicks, examined):
        level = int(note[LEVEL])
        observe_layer(self.book, level, ranking, clicks, examined)
        add_edges(self.edges, self.above, level, self.book.low[level], self.book.high[level], ranking[:examined])
