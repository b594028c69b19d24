"""FORC: FAR on levels that learn from one another, for an unknown number of fake users.

Proven relations between items are kept as one bit for each level and pair. `edges[i, j]` has bit l set if level l
proved i better than j; a level also uses what slower levels proved. `above[l, j]` counts the items better than j on
level l.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.arrays import Counts
from ..core.compiling.jit import kernel
from ..core.contract import Problem
from ..core.settings import known_horizon, real
from .shared.layers import Layers, count_layers, draw_layer, observe_layer


@kernel
def cyclic(edges, above, level):
    """Whether the relation of this level and slower ones has a cycle: repeatedly removing top items stops early."""
    k = edges.shape[0]
    pending = above[level].copy()
    stack = np.empty(k, np.int64)
    size = taken = 0
    for i in range(k):
        if pending[i] == 0:
            stack[size] = i
            size += 1
    while size > 0:
        size -= 1
        i = stack[size]
        taken += 1
        for j in range(k):
            if edges[i, j] >> level > 0:
                pending[j] -= 1
                if pending[j] == 0:
                    stack[size] = j
                    size += 1
    return taken < k


@kernel
def add_edge(edges, above, level, i, j):
    """Record on `level` that i is better than j; returns whether a cycle is possible: i has items above it."""
    was = edges[i, j]
    edges[i, j] = was | 1 << level
    risky = False
    for faster in range(level + 1):
        if was >> faster == 0:
            above[faster, j] += 1
            risky = risky or above[faster, i] > 0
    return risky


@kernel
def forget(edges, above, level):
    """Remove all relations of this level."""
    for i in range(edges.shape[0]):
        for j in range(edges.shape[0]):
            was = edges[i, j]
            if was >> level & 1:
                edges[i, j] = was & ~(1 << level)
                for faster in range(level + 1):
                    above[faster, j] -= 1 if edges[i, j] >> faster == 0 else 0


@kernel
def release(edges, pending, level, i):
    """Mark item i as placed: those below it wait for one item less."""
    for j in range(pending.size):
        pending[j] -= 1 if edges[i, j] >> level > 0 else 0


@kernel
def pick(book, level, free, pending, u):
    """The least seen item that waits for none; ties by the means of faster levels, nearest first, then by u."""
    looks = book.looks[level]
    tied = np.empty(free.size, np.int64)
    least, n_tied = 2**62, 0
    for k in range(free.size):
        if free[k] and pending[k] == 0 and looks[k] <= least:
            n_tied = n_tied if looks[k] == least else 0
            least = looks[k]
            tied[n_tied] = k
            n_tied += 1
    for i in range(level - 1, -1, -1):
        if n_tied == 1:
            break
        best, kept = -1.0, 0
        for n in range(n_tied):
            k = tied[n]
            mean = book.clicks[i, k] / book.looks[i, k] if book.looks[i, k] > 0 else -1.0
            if mean > best:
                best, kept = mean, 0
            if mean == best:
                tied[kept] = k
                kept += 1
        n_tied = kept
    return tied[int(u * n_tied)]


@kernel
def add_edges(edges, above, level, low, high, observed):
    """Add the relations that the observed items' intervals now prove.

    A cycle on this or a faster level shows that this level was misled: it drops all its relations. O(K^2) if cycles
    are possible, else O(K), and less while intervals overlap.
    """
    risky = False
    highest, lowest = low.max(), high.min()
    for k in observed:
        if highest <= high[k] and low[k] <= lowest:
            continue
        for j in range(low.size):
            if low[j] > high[k] and not edges[j, k] >> level & 1:
                risky = add_edge(edges, above, level, j, k) or risky
            elif low[k] > high[j] and not edges[k, j] >> level & 1:
                risky = add_edge(edges, above, level, k, j) or risky
    if risky:
        for faster in range(level, -1, -1):
            if cyclic(edges, above, faster):
                forget(edges, above, faster)


LEVEL = 0  # index in the note: the level that ranked


class FORC(NamedTuple):
    """FAR in ceil(log2 T) levels; a level trusts what slower ones proved (Golrezaei et al. 2021, "fake-oblivious").

    Reconstruction: levels with cross-learning in both directions come from the abstract; the rest follows
    CascadeRAC's layers. Downwards: relations hold on all faster levels. Upwards: among items seen equally often,
    the faster levels' means decide. A level whose relations close a cycle starts over. Relations are kept as one
    bit for each level and pair, 4 bytes a pair. With rho = 1, 500 items and 40,000 rounds no relation is ever proved.

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
        related = pending.max() > 0
        for i in range(free.size):
            if related and not free[i]:
                release(self.edges, pending, level, i)
        for p in range(ranking.size):
            i = pick(self.book, level, free, pending, rng.random())
            ranking[p] = i
            free[i] = False
            if related:
                release(self.edges, pending, level, i)

    def update(self, visit, ranking, note, clicks, examined):
        level = int(note[LEVEL])
        observe_layer(self.book, level, ranking, clicks, examined)
        add_edges(self.edges, self.above, level, self.book.low[level], self.book.high[level], ranking[:examined])
