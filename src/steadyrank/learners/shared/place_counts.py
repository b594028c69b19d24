"""How often each item was shown and clicked at each place, for learners that know the attention of places."""

from typing import NamedTuple

import numpy as np

from ...core.arrays import Counts, Floats, Ints
from ...core.compiling.jit import no_refcount
from ...core.places import order_of_places


class PlaceCounts(NamedTuple):
    """Counts by item and place, and the attention of places. 8 bytes for each item and place."""

    shown: Counts  # [K, length]
    clicks: Counts  # [K, length]
    attention: Floats  # [length] chance that a place is looked at
    order: Ints  # [length, length] places by attention

    @classmethod
    def create(cls, n_items: int, attention: Floats) -> "PlaceCounts":
        """Nothing shown."""
        shape = n_items, attention.size
        counts = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        return cls(*counts, attention, order_of_places(attention))


@no_refcount
def count_places(counts, ranking, bits, examined):
    """Add the bits of a list; places that nobody looks at are ignored."""
    for p in range(examined):
        if counts.attention[p] > 0.0:
            counts.shown[ranking[p], p] += 1
            counts.clicks[ranking[p], p] += 1 if bits[p] else 0


@no_refcount
def uncount_places(counts, ranking, bits, examined):
    """Subtract the bits of a list; does nothing if the counts do not contain them."""
    for p in range(examined):
        k = ranking[p]
        spare = counts.clicks[k, p] if bits[p] else counts.shown[k, p] - counts.clicks[k, p]
        if counts.attention[p] > 0.0 and spare < 1:
            return
    for p in range(examined):
        if counts.attention[p] > 0.0:
            counts.shown[ranking[p], p] -= 1
            counts.clicks[ranking[p], p] -= 1 if bits[p] else 0


@no_refcount
def sums(counts, k):
    """N, N~ and S of an item: how often it was shown, its total attention, its clicks.

    Lagree, Vernade, Cappe 2016, section 4: N~ sums the attention of the places where the item was shown.
    """
    n = s = 0
    looked = 0.0
    for p in range(counts.attention.size):
        n += counts.shown[k, p]
        s += counts.clicks[k, p]
        looked += counts.attention[p] * counts.shown[k, p]
    return n, looked, s
