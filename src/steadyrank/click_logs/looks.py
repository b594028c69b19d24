"""Impressions as an audit holds them: items looked at, from the top of each list, and whether they were clicked."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.arrays import Bools, Ints, Small

ItemNumbers = npt.NDArray[np.int32]
BLOCK = 1 << 18  # impressions at once: what is held for each look on the way must not grow with a log


def blocks(n: int) -> Iterator[slice]:
    """The numbers below n, so many at a time."""
    return (slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK))


class Impressions(NamedTuple):
    """Impressions in order, look by look; the looks of impression i are places first[i] to first[i + 1]."""

    item: ItemNumbers  # [look] numbers of items
    bits: Bools  # [look] whether it was clicked
    first: Ints  # [impression + 1]
    n_items: int
    shown: Small | None = None  # [impression] places of its list; None where no more is known than was looked at
    top: Small | None = None  # [impression] place of its first look, 0 the top of the page; None for all 0

    @property
    def n(self) -> int:
        """How many impressions."""
        return self.first.size - 1

    def only(self, chosen: Ints) -> "Impressions":
        """Some of them, in the order given."""
        sizes = self.first[chosen + 1] - self.first[chosen]
        first = np.zeros(chosen.size + 1, np.int64)
        np.cumsum(sizes, out=first[1:])
        item, bits = np.empty(first[-1], np.int32), np.empty(first[-1], np.bool_)
        for some in blocks(chosen.size):
            low, high = first[some.start], first[some.stop]
            places = np.repeat(self.first[chosen[some]] - first[some], sizes[some]) + np.arange(low, high)
            item[low:high], bits[low:high] = self.item[places], self.bits[places]
        shown, top = (None if of is None else of[chosen] for of in (self.shown, self.top))
        return Impressions(item, bits, first, self.n_items, shown, top)

    def clicks(self) -> Ints:
        """Clicks of each impression, int64[n]."""
        out = np.empty(self.n, np.int64)
        for some in blocks(self.n):
            first = self.first[some.start : some.stop + 1]
            so_far = np.concatenate([[0], np.cumsum(self.bits[first[0] : first[-1]])])
            out[some] = np.diff(so_far[first - first[0]])
        return out

    def lengths(self) -> Ints:
        """Places of each list."""
        return np.diff(self.first) if self.shown is None else self.shown.astype(np.int64)

    def places(self) -> Ints:
        """The place of each look, 0 the top of the page."""
        sizes = np.diff(self.first)
        start = self.first[:-1] if self.top is None else self.first[:-1] - self.top
        return np.arange(self.item.size) - np.repeat(start, sizes)
