"""A list for several views of the items at once."""

import numpy as np

from .._jit import kernel, uncounted
from ..kernels import top


@uncounted
def expect(looks, clicks, a, b, value):
    """Write the view that what was learnt is true: each item's posterior mean, with prior Beta(a, b)."""
    for k in range(value.size):
        value[k] = (a + clicks[k]) / (a + b + looks[k])


@uncounted
def invert(mean, value):
    """Write the view that all that was learnt is inverted: who liked an item does not, and the other way round."""
    for k in range(value.size):
        value[k] = 1.0 - mean[k]


@uncounted
def add_new(found, n, places):
    """Append the items in `places` that `found[:n]` lacks; returns how many there are then."""
    for p in range(places.size):
        new = True
        for i in range(n):
            new = new and found[i] != places[p]
        if new:
            found[n] = places[p]
            n += 1
    return n


@uncounted
def add_best(values, mean, candidates, n, miss, ranking):
    """Fill `ranking` from the first n candidates, each place with the one that adds most. Overwrites the rest."""
    for p in range(ranking.size):
        most = -1.0
        place = 0
        for i in range(n):
            gain = 0.0
            for v in range(miss.size):
                gain += miss[v] * max(values[v, candidates[i]], 0.0)
            if gain > most:
                most = gain
                place = i
        pick = candidates[place]
        ranking[p] = pick
        miss[0] *= 1.0 - max(min(values[0, pick], mean[pick]), 0.0)
        for v in range(1, miss.size):
            miss[v] *= 1.0 - max(values[v, pick], 0.0)
        n -= 1
        for i in range(place, n):  # the others keep their order, in which `top` has dealt ties
            candidates[i] = candidates[i + 1]


@kernel
def hedged_list(values, mean, weights, allowed, ranking, rng):
    """Fill `ranking` so that a cascade user is likely to click, whichever of several views of the items is true.

    `values` [V, K]: attraction of each item in each view; overwritten with -inf where an item is not allowed. The
    first view is drawn: -inf marks items that are not among its largest draws, and `mean` [K] is what it expects.
    `weights` [V] of the views. Items are added one by one, each the one that adds most to the chance of a click,
    1 - prod(1 - attraction), averaged over the views: once a view is likely to be served, the places left go to the
    others. A view that is drawn counts as served by no more than it expects: lucky draws are no users. Candidates are
    the `ranking.size` best of each view, ties broken by `top`; docs/steadyrank.md proves what that is good for.
    O(V K + V^3 d^2).
    """
    views, items = values.shape
    candidates = np.empty(views * ranking.size, np.int64)
    best = np.empty(ranking.size, np.int64)
    n = 0
    for v in range(views):
        for k in range(items):
            if not allowed[k]:
                values[v, k] = -np.inf
        top(values[v], best, rng)
        n = add_new(candidates, n, best)
    add_best(values, mean, candidates, n, weights.copy(), ranking)
