"""A list for several views of the items at once."""

import numpy as np

from .._jit import kernel, uncounted
from ..indices.posteriors import draw_largest, draw_of
from ..kernels import top, top_allowed


@uncounted
def expect(looks, clicks, a, b, value):
    """Write the view that what was learnt is true: each item's posterior mean, with prior Beta(a, b)."""
    for k in range(value.size):
        value[k] = (a + clicks[k]) / (a + b + looks[k])


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
def add_best(values, mean, free, miss, ranking):
    """Fill `ranking` with places of `values`, each time the one that adds most. Overwrites `free` and `miss`.

    `values` [V, n]: attraction of each candidate in each view, the first of which is drawn; `mean` [n]: what that one
    expects; `free` [n]: 0, 1, ..., n - 1; `miss` [V]: the weights of the views.
    """
    n = free.size
    for p in range(ranking.size):
        most = -1.0
        place = 0
        for i in range(n):
            gain = 0.0
            for v in range(miss.size):
                gain += miss[v] * values[v, free[i]]
            if gain > most:
                most = gain
                place = i
        pick = free[place]
        ranking[p] = pick
        miss[0] *= 1.0 - min(values[0, pick], mean[pick])
        for v in range(1, miss.size):
            miss[v] *= 1.0 - values[v, pick]
        n -= 1
        for i in range(place, n):  # the others keep their order, in which `top` has dealt ties
            free[i] = free[i + 1]


@kernel
def drawn_list(posteriors, allowed, ranking, rng):
    """Fill `ranking` with the items of the largest draws from their posteriors (Thompson sampling)."""
    items, draws = np.empty(allowed.size, np.int64), np.empty(allowed.size)
    n = draw_largest(posteriors, allowed, ranking.size, rng, items, draws)
    top(draws[:n], ranking, rng)
    for p in range(ranking.size):
        ranking[p] = items[ranking[p]]


@kernel
def hedged_list(posteriors, rival, weights, allowed, ranking, rng):
    """Fill `ranking` so that a cascade user is likely to click, whichever of several views of the items is true.

    The views: attractions drawn from the posteriors; everything learnt is inverted, 1 - mean; and, with a third
    weight, `rival` [K]. Items are added one by one, each the one that adds most to the chance of a click,
    1 - prod(1 - attraction), averaged over the views by their `weights` [V]: once a view is likely to be served, the
    places left go to the others. A view that is drawn counts as served by no more than it expects: lucky draws are no
    users. Candidates are the `ranking.size` best of each view, ties broken by `top`; docs/steadyrank.md proves what
    that is good for. Beside a rival each has its draw, since both may like it; else, beyond the largest draws, 0.
    O(K + V^3 d^2), of which O(K) is one comparison an item and view that is not drawn.
    """
    size, views = ranking.size, weights.size
    items, draws = np.empty(allowed.size, np.int64), np.empty(allowed.size)
    drawn = draw_largest(posteriors, allowed, size, rng, items, draws)
    best, found = np.empty(size, np.int64), np.empty(views * size, np.int64)
    values, mean = np.zeros((views, views * size)), np.empty(views * size)
    top(draws[:drawn], best, rng)
    for p in range(size):
        found[p] = items[best[p]]
        values[0, p] = draws[best[p]]
    top_allowed(posteriors.miss, allowed, best, rng)
    n = add_new(found, size, best)
    if views > 2:
        top_allowed(rival, allowed, best, rng)
        n = add_new(found, n, best)
        for i in range(n):
            values[2, i] = rival[found[i]]
        for i in range(size, n):
            values[0, i] = draw_of(posteriors, found[i], items, draws, drawn, rng)
    for i in range(n):
        values[1, i] = posteriors.miss[found[i]]
        mean[i] = 1.0 - values[1, i]
    add_best(values, mean, np.arange(n), weights.copy(), ranking)
    for p in range(size):
        ranking[p] = found[ranking[p]]
