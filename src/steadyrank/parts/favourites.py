"""The items that a stored regime likes best, found once and not for every list."""

from typing import NamedTuple

import numpy as np

from .._jit import kernel, uncounted
from ..arrays import Counts, Ints
from ..kernels import largest
from .hedge import Rival, mean_of
from .regimes import number_at, rival

NUMBER, SIZE, ALL, TIED = range(4)  # places of Favourites.of
MORE, EACH = 16, 3  # items kept: so many, and so many for each place of a list


class Favourites(NamedTuple):
    """Items in item order, each liked better than all others by one regime."""

    items: Counts  # [n]
    tied: Counts  # [K] those that come next, all liked alike; memory is taken only for as many as there are
    of: Ints  # [4] the regime's number, 0 for none; how many items; of how many; how many come next

    @classmethod
    def create(cls, n_items: int, length: int) -> "Favourites":
        """Of no regime."""
        best = np.zeros(min(n_items, MORE + EACH * length), np.int32)
        return cls(best, np.zeros(n_items, np.int32), np.zeros(4, np.int64))


@uncounted
def are_known(regimes, favourites, r):
    """Whether these are the favourites of regime r."""
    return favourites.of[NUMBER] == regimes.number[r] and favourites.of[ALL] == regimes.looks.shape[1]


@kernel
def view_of_regime(regimes, favourites, r):
    """What regime r says of the items, with its favourites if they are known."""
    known = are_known(regimes, favourites, r)
    best = favourites.items[: favourites.of[SIZE] if known else 0]
    tied = favourites.tied[: favourites.of[TIED] if known else 0]
    counts = regimes.looks[r], regimes.clicks[r], regimes.apart_looks[r], regimes.apart_clicks[r]
    return Rival(counts[0], counts[1], counts[2], counts[3], regimes.prior[r], best, tied)


@kernel
def find_favourites(regimes, favourites, r):
    """Find the favourites of regime r: all items whose mean is larger than that of any other. O(K)."""
    view = view_of_regime(regimes, favourites, r)
    means, best = np.empty(view.looks.size), np.empty(favourites.items.size, np.int64)
    for k in range(means.size):
        means[k] = mean_of(view, k)
    left_out = largest(means, best)
    least = means[best[best.size - 1]]
    n = 0
    for k in np.sort(best):
        favourites.items[n] = k
        n += left_out == 0 or means[k] > least
    m = 0
    for k in range(means.size if left_out > 0 else 0):
        if means[k] == least:
            favourites.tied[m] = k
            m += 1
    favourites.of[TIED] = m
    favourites.of[NUMBER] = regimes.number[r]
    favourites.of[SIZE] = n
    favourites.of[ALL] = means.size


@kernel
def keep_favourites(regimes, favourites, slack, changed):
    """After a window: know those of the regime that lists are hedged with. O(K) if that is another one."""
    if changed:
        favourites.of[NUMBER] = 0
    r = rival(regimes, slack)
    if r >= 0 and not are_known(regimes, favourites, r):
        find_favourites(regimes, favourites, r)


@uncounted
def drop_favourites(regimes, favourites, t):
    """What the regime of round t knows has changed: its favourites are to be found anew."""
    if number_at(regimes, t) == favourites.of[NUMBER]:
        favourites.of[NUMBER] = 0
