"""Layers of elimination: counts and confidence intervals of items, each layer seeing a share of the rounds.

Shared by CascadeRKC, CascadeRAC, FAR and FORC, after Lykouris, Mirrokni, Paes Leme (2018): layer l is drawn
with chance 2^-l, so a layer with 2^l >= C sees hardly any of C corrupted rounds, and what it rules out is ruled
out in all faster layers. Only summaries of the cascade versions are public; the treatment of positions and
relations is our reconstruction.
"""

import math
from typing import NamedTuple

import numpy as np

from ...core.arrays import Counts, Floats, Ints
from ...core.compiling.jit import kernel


class Layers(NamedTuple):
    """Statistics of each layer and item; 0 is the fastest layer."""

    looks: Ints  # [layers, K]
    clicks: Ints  # [layers, K]
    low: Floats  # [layers, K] lower end of the confidence interval
    high: Floats  # [layers, K] upper end
    beaten: Counts  # [layers, K] items whose interval now lies entirely above
    barred: Counts  # [layers, K] places ruled out so far: item k can still be at places > barred[k]
    log: float  # the radius is rho (sqrt(log / n) + extra / n)
    extra: float
    rho: float

    @classmethod
    def create(cls, n_layers: int, n_items: int, *, log: float, extra: float, rho: float) -> "Layers":
        """Empty layers."""
        shape = (n_layers, n_items)
        return cls(
            np.zeros(shape, np.int64),
            np.zeros(shape, np.int64),
            np.full(shape, -np.inf),
            np.full(shape, np.inf),
            np.zeros(shape, np.int32),
            np.zeros(shape, np.int32),
            float(log),
            float(extra),
            float(rho),
        )


def count_layers(horizon: int) -> int:
    """ceil(log2 T), at least one."""
    return max(1, math.ceil(math.log2(horizon)))


@kernel
def draw_layer(n_layers, u):
    """Draw layer l (from 0) with chance 2^-(l + 1); the remainder goes to the fastest."""
    drawn = int(-math.log2(1.0 - u))
    return drawn if drawn < n_layers else 0


@kernel
def observe_layer(book, layer, ranking, clicks, examined):
    """Add a round's bits to a layer and update intervals and their order. O(K), O(d K) once intervals separate."""
    low, high, beaten = book.low[layer], book.high[layer], book.beaten[layer]
    least, most = np.inf, -np.inf  # while every interval contains these two, none beats another
    for k in range(low.size):
        least, most = min(least, high[k]), max(most, low[k])
    for p in range(examined):
        k = ranking[p]
        book.looks[layer, k] += 1
        book.clicks[layer, k] += 1 if clicks[p] else 0
        n = book.looks[layer, k]
        width = book.rho * (math.sqrt(book.log / n) + book.extra / n)
        was, now = low[k], book.clicks[layer, k] / n - width
        low[k], high[k] = now, book.clicks[layer, k] / n + width
        least, most = min(least, high[k]), max(most, was, now)
        if most <= least:
            continue  # no item was beaten, and none is now
        above = 0
        for j in range(low.size):
            if j != k:
                beaten[j] += (1 if now > high[j] else 0) - (1 if was > high[j] else 0)
                above += 1 if low[j] > high[k] else 0
        beaten[k] = above


@kernel
def bar(book, layer):
    """Rule out the places of a layer's beaten items, there and in all faster layers."""
    for k in range(book.looks.shape[1]):
        r = book.beaten[layer, k]
        if r > book.barred[layer, k]:
            for i in range(layer + 1):
                book.barred[i, k] = max(book.barred[i, k], r)


@kernel
def acting_layer(book, layer, length):
    """The fastest layer from this one on that still has `length` items for the list; the slowest if none has."""
    n_layers = book.looks.shape[0]
    for a in range(layer, n_layers):
        left = 0
        for k in range(book.looks.shape[1]):
            left += 1 if book.barred[a, k] < length else 0
        if left >= length:
            return a
    return n_layers - 1


@kernel
def seen_least(looks, eligible, tied):
    """Write the eligible items with the fewest looks, in item order; returns how many there are."""
    least, n = 2**62, 0
    for k in range(looks.size):
        if eligible[k] and looks[k] <= least:
            n = n if looks[k] == least else 0
            least = looks[k]
            tied[n] = k
            n += 1
    return n


@kernel
def pick_least(looks, eligible, tied, u):
    """The eligible item with the fewest looks, ties by the uniform u; -1 if there is none. Overwrites `tied` [K]."""
    n = seen_least(looks, eligible, tied)
    return tied[int(u * n)] if n > 0 else -1


@kernel
def rank_freely(looks, free, tied, ranking, rng):
    """Fill each place with the least seen free item, ties at random; for layers without eliminations. O(K)."""
    n = 0
    for p in range(ranking.size):
        if n == 0:
            n = seen_least(looks, free, tied)
        place = int(rng.random() * n)
        ranking[p] = tied[place]
        free[tied[place]] = False
        n -= 1
        for i in range(place, n):  # the others stay in item order
            tied[i] = tied[i + 1]


@kernel
def rank_by_position(book, layer, acting, allowed, ranking, rng):
    """Fill each place with the item seen least in `layer` among those that layer `acting` has not ruled out for it.

    If none is left, the item of the best mean. O(d K), O(K) while nothing is ruled out.
    """
    looks, clicks, barred = book.looks[layer], book.clicks[layer], book.barred[acting]
    free = allowed.copy()
    eligible, tied = np.empty(free.size, np.bool_), np.empty(free.size, np.int64)
    if barred.max() == 0:
        rank_freely(looks, free, tied, ranking, rng)
        return
    for p in range(ranking.size):
        for k in range(free.size):
            eligible[k] = free[k] and barred[k] <= p
        u = rng.random()
        chosen = pick_least(looks, eligible, tied, u)
        if chosen < 0:
            best = -1.0
            for k in range(free.size):
                mean = clicks[k] / looks[k] if looks[k] > 0 else 0.0
                if free[k] and mean > best:
                    best = mean
            for k in range(free.size):
                mean = clicks[k] / looks[k] if looks[k] > 0 else 0.0
                eligible[k] = free[k] and mean == best
            chosen = pick_least(looks, eligible, tied, u)
        ranking[p] = chosen
        free[chosen] = False
