"""A list for several views of the items: the weight of each view, and the items that serve them all best.

The items that a stored regime likes best are found once, not for every list.
"""

from typing import NamedTuple

import numpy as np

from ...core.arrays import Counts, Floats, Ints
from ...core.compiling.intrinsics import stack_ints
from ...core.compiling.jit import kernel, no_refcount
from ...core.kernels import largest, top
from ..shared.thompson import draw_largest, draw_of, miss_of
from .regimes import number_at, rival

PATIENCE = 64  # most items tried among equals and found not allowed
INSURED = 10_000  # rounds of a regime with full weight of the insurance: docs/steadyrank-measured.md
FEW = 4096  # up to so many items, compare all: it costs little


class Rival(NamedTuple):
    """Another view of the items: what a regime other than the current one learnt."""

    looks: Counts  # [K]
    clicks: Counts  # [K]
    untested_looks: Counts  # [K] looks not tested, in addition
    untested_clicks: Counts  # [K]
    prior: Floats  # [2]
    liked: Counts  # [n] in item order: all other items have smaller means
    tied: Counts  # [m] in item order: all items with the next largest mean; empty if unknown


@no_refcount
def mean_of(rival, k):
    """Item k's posterior mean in another view."""
    clicks = rival.clicks[k] + rival.untested_clicks[k]
    return (rival.prior[0] + clicks) / (rival.prior[0] + rival.prior[1] + rival.looks[k] + rival.untested_looks[k])


@kernel
def best_and_tied(rival, allowed, ranking, n, rng):
    """`best_of` if the n allowed liked items come first, then some of the tied ones; returns whether it succeeded.

    The tied ones are drawn one by one. It fails if few of them are allowed.
    """
    means = np.empty(rival.liked.size)
    for i in range(means.size):
        means[i] = mean_of(rival, rival.liked[i]) if allowed[rival.liked[i]] else -np.inf
    if n > 0:
        top(means, ranking[:n], rng)
    for p in range(n):
        ranking[p] = rival.liked[ranking[p]]
    filled = n
    for _ in range(PATIENCE * ranking.size):
        k = rival.tied[int(rng.random() * rival.tied.size)]
        new = allowed[k]
        for p in range(n, filled):
            new = new and ranking[p] != k
        if new:
            ranking[filled] = k
            filled += 1
        if filled == ranking.size:
            return True
    return False


@kernel
def best_of(rival, allowed, ranking, rng):
    """Fill `ranking` with the allowed items that a view likes best, ties broken by `top`.

    O(d) if enough of the items known to be its best, or next best, are allowed; else O(K).
    """
    n = 0
    for k in rival.liked:
        n += allowed[k]
    short = n >= ranking.size
    if not short and rival.tied.size > 0 and allowed.size > FEW and best_and_tied(rival, allowed, ranking, n, rng):
        return
    means = np.empty(rival.liked.size if short else allowed.size)
    for i in range(means.size):
        k = rival.liked[i] if short else i
        means[i] = mean_of(rival, k) if allowed[k] else -np.inf
    top(means, ranking, rng)
    for p in range(ranking.size if short else 0):
        ranking[p] = rival.liked[ranking[p]]


@no_refcount
def member(groups, g, i):
    """Item number i of those with the same mean as group g, the first of their groups."""
    value = groups.miss[g]
    while i >= groups.items[g]:
        i -= groups.items[g]
        g += 1
        while groups.miss[g] != value:
            g += 1
    return groups.order[groups.first[g] + i]


@no_refcount
def tied_with(groups, g):
    """Number of items with the same mean as group g. O(G)."""
    total = 0
    for h in range(groups.size[0]):
        if groups.miss[h] == groups.miss[g]:
            total += groups.items[h]
    return total


@no_refcount
def deal_members(groups, g, size, allowed, ranking, filled, rng, steps):
    """Fill places of `ranking` with allowed items from `member` 0 to size - 1, shuffled; returns the new `filled`.

    Takes the steps of a Fisher-Yates shuffle, one uniform each, until the list is full: `moved[i]` is what step i
    put at `to[i]`. -1 if too few are allowed within `steps`.
    """
    to, moved = stack_ints(steps), stack_ints(steps)
    i = 0
    while i < size and filled < ranking.size:
        if i == steps:
            return -1
        j = i + int(rng.random() * (size - i))
        one, other = i, j
        for earlier in range(i):
            one = moved[earlier] if to[earlier] == i else one
            other = moved[earlier] if to[earlier] == j else other
        to[i] = j
        moved[i] = one
        k = member(groups, g, other)
        if allowed[k]:
            ranking[filled] = k
            filled += 1
        i += 1
    return filled


@no_refcount
def lowest_means(groups, allowed, ranking, rng):
    """Fill `ranking` with the allowed items of the smallest means, equal ones in random order; returns success.

    It fails if few items of the first `ranking.size` groups are allowed. O(G + d^2).
    """
    best = stack_ints(min(ranking.size, groups.size[0]))
    left_out = largest(groups.miss[: groups.size[0]], best)
    filled = 0
    p = 0
    while p < best.size and 0 <= filled < ranking.size:
        g = best[p]
        size = 0
        while p < best.size and groups.miss[best[p]] == groups.miss[g]:
            size += groups.items[best[p]]
            p += 1
        if p == best.size and left_out > 0:
            size = tied_with(groups, g)
        filled = deal_members(groups, g, size, allowed, ranking, filled, rng, ranking.size + PATIENCE)
    return filled == ranking.size


@kernel
def lowest_means_allowed(posteriors, allowed, ranking, rng):
    """Fill `ranking` with the allowed items of the smallest means, ties in random order. O(K) if few are allowed."""
    if not lowest_means(posteriors.groups, allowed, ranking, rng):
        miss = np.empty(allowed.size)
        for k in range(allowed.size):
            miss[k] = miss_of(posteriors, k) if allowed[k] else -np.inf
        top(miss, ranking, rng)


@no_refcount
def add_new(candidates, n, places):
    """Append the items in `places` that `candidates[:n]` lacks; returns the new n."""
    for p in range(places.size):
        new = True
        for i in range(n):
            new = new and candidates[i] != places[p]
        if new:
            candidates[n] = places[p]
            n += 1
    return n


@no_refcount
def add_best(values, mean, free, miss, ranking):
    """Fill `ranking` greedily with indices into `values`, each adding most. Overwrites `free` and `miss`.

    `values` [V, n]: attraction of each candidate in each view, the first of which is drawn; `mean` [n]: the
    expectation of that one; `free` [n]: 0, 1, ..., n - 1; `miss` [V]: the weights of the views.
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
        for i in range(place, n):  # the others keep their order, in which `top` has broken ties
            free[i] = free[i + 1]


@no_refcount
def weigh_views(weights, rounds, current, other, insurance, caution, window):
    """Write the weight of each view in a list: what was learnt; its inverse; with a third weight, a longer regime.

    The weight of the inverse falls once the current regime is longer than `INSURED` rounds, so that it costs at most
    a logarithm of the rounds. The weight of the longer regime, `other`, falls as the `current` one
    grows; `rounds`: of the regimes.
    """
    insurance *= min(1.0, INSURED / max(rounds[current], 1))
    weights[1] = insurance
    others = insurance
    if other >= 0:
        younger = 1.0 - (rounds[current] + window) / rounds[other]
        weights[2] = (1.0 - insurance) * caution * younger
        others += weights[2]
    weights[0] = 1.0 - others


@kernel
def drawn_list(posteriors, allowed, ranking, rng):
    """Fill `ranking` with the items of the largest draws from their posteriors (Thompson sampling)."""
    items, draws = draw_largest(posteriors, allowed, ranking.size, rng)
    top(draws, ranking, rng)
    for p in range(ranking.size):
        ranking[p] = items[ranking[p]]


@kernel
def hedged_list(posteriors, rival, weights, allowed, ranking, rng):
    """Fill `ranking` so that a cascade user is likely to click, whichever of several views of the items is true.

    The views: attractions drawn from the posteriors; everything learnt inverted, 1 - mean; and, with a third weight,
    `rival`. Items are added one by one, each the one that adds most to the chance of a click, 1 - prod(1 -
    attraction), averaged over the views by their `weights` [V]: once a view is likely to be served, the remaining
    places go to the others. A drawn view counts as served by its expectation at most: lucky draws serve no users.
    Candidates are the `ranking.size` best of each view, ties in random order; docs/steadyrank-proofs.md proves why
    that suffices. With a rival, each candidate has its draw, since both views may like it; else, those beyond the
    largest draws have 0. O(G + V^3 d^2) with G groups of items of equal counts.
    """
    size, views = ranking.size, weights.size
    items, draws = draw_largest(posteriors, allowed, size, rng)
    best, candidates = np.empty(size, np.int64), np.empty(views * size, np.int64)
    values, mean = np.zeros((views, views * size)), np.empty(views * size)
    free = np.empty(views * size, np.int64)
    top(draws, best, rng)
    for p in range(size):
        candidates[p] = items[best[p]]
        values[0, p] = draws[best[p]]
    lowest_means_allowed(posteriors, allowed, best, rng)
    n = add_new(candidates, size, best)
    if views > 2:
        best_of(rival, allowed, best, rng)
        n = add_new(candidates, n, best)
        for i in range(n):
            values[2, i] = mean_of(rival, candidates[i])
        for i in range(size, n):
            values[0, i] = draw_of(posteriors, candidates[i], items, draws, rng)
    for i in range(n):
        values[1, i] = miss_of(posteriors, candidates[i])
        mean[i] = 1.0 - values[1, i]
        free[i] = i
    add_best(values, mean, free[:n], weights.copy(), ranking)
    for p in range(size):
        ranking[p] = candidates[ranking[p]]


NUMBER, SIZE, ALL, TIED = range(4)  # indices in Favourites.of
MORE, EACH = 16, 3  # items kept: MORE, plus EACH per place of a list


class Favourites(NamedTuple):
    """The items that one regime likes better than all others, in item order."""

    items: Counts  # [n]
    tied: Counts  # [K] those with the next largest mean; memory is committed only as far as used
    of: Ints  # [4] the regime's number, 0: none; number of items; items of the board; number of tied ones

    @classmethod
    def create(cls, n_items: int, length: int) -> "Favourites":
        """Of no regime yet."""
        best = np.zeros(min(n_items, MORE + EACH * length), np.int32)
        return cls(best, np.zeros(n_items, np.int32), np.zeros(4, np.int64))


@no_refcount
def are_favourites_of(regimes, favourites, r):
    """Whether these are the favourites of regime r."""
    return favourites.of[NUMBER] == regimes.number[r] and favourites.of[ALL] == regimes.looks.shape[1]


@kernel
def view_of_regime(regimes, favourites, r):
    """The view of regime r, with its favourites if these belong to it."""
    up_to_date = are_favourites_of(regimes, favourites, r)
    best = favourites.items[: favourites.of[SIZE] if up_to_date else 0]
    tied = favourites.tied[: favourites.of[TIED] if up_to_date else 0]
    counts = regimes.looks[r], regimes.clicks[r], regimes.untested_looks[r], regimes.untested_clicks[r]
    return Rival(counts[0], counts[1], counts[2], counts[3], regimes.prior[r], best, tied)


@kernel
def find_favourites(regimes, favourites, r):
    """Find the favourites of regime r: the items with larger means than all others. O(K)."""
    view = view_of_regime(regimes, favourites, r)
    means, best = np.empty(view.looks.size), np.empty(favourites.items.size, np.int64)
    for k in range(means.size):
        means[k] = mean_of(view, k)
    left_out = largest(means, best)
    least = means[best[best.size - 1]]
    n = 0
    m = 0
    for k in range(means.size):
        if means[k] > least or (means[k] == least and left_out == 0):
            favourites.items[n] = k
            n += 1
        elif means[k] == least:
            favourites.tied[m] = k
            m += 1
    favourites.of[TIED] = m
    favourites.of[NUMBER] = regimes.number[r]
    favourites.of[SIZE] = n
    favourites.of[ALL] = means.size


@kernel
def keep_favourites(regimes, favourites, slack, changed):
    """After a window: update the favourites if lists are hedged with another regime. O(K) if so."""
    if changed:
        favourites.of[NUMBER] = 0
    r = rival(regimes, slack)
    if r >= 0 and not are_favourites_of(regimes, favourites, r):
        find_favourites(regimes, favourites, r)


@no_refcount
def drop_favourites(regimes, favourites, t):
    """Invalidate the favourites if the regime of round t, whose counts have changed, is theirs."""
    if number_at(regimes, t) == favourites.of[NUMBER]:
        favourites.of[NUMBER] = 0
