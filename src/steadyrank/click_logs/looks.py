"""Impressions as arrays: the items looked at, from the top of each list, and whether each was clicked.

The arrays of a long log are memory-mapped from disk (`mapped`); iterate over them block by block.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.arrays import Bools, Ints, Small
from . import mapped

ItemNumbers = npt.NDArray[np.int32]
BLOCK = 1 << 18  # impressions per block: temporary arrays must not grow with the log


def blocks(n: int, size: int = BLOCK) -> Iterator[slice]:
    """Slices of at most `size` that cover range(n)."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def first_of(n: int, sizes: Callable[[slice], Ints]) -> Ints:
    """Offsets int64[n + 1] of n groups, from a function that gives the sizes of a slice of them."""
    first: Ints = mapped.empty(n + 1, np.int64)
    first[0] = 0
    for some in blocks(n):
        np.cumsum(sizes(some), out=first[some.start + 1 : some.stop + 1])
        first[some.start + 1 : some.stop + 1] += first[some.start]
    return first


def picked(array: mapped.Array, chosen: Ints | ItemNumbers) -> mapped.Array:
    """The chosen entries of an array."""
    out = mapped.empty(chosen.size, array.dtype)
    for some in blocks(chosen.size):
        out[some] = array[chosen[some]]
        mapped.release(array, out, chosen)
    return out


class Impressions(NamedTuple):
    """Impressions in order; the looks of impression i are entries first[i] up to first[i + 1]."""

    item: ItemNumbers  # [look] numbers of items
    bits: Bools  # [look] whether it was clicked
    first: Ints  # [impression + 1]
    n_items: int
    shown: Small | None = None  # [impression] length of its list; None if only the places looked at are known
    top: Small | None = None  # [impression] place of its first look, 0 for the top of the page; None if all are 0

    @property
    def n(self) -> int:
        """The number of impressions."""
        return self.first.size - 1

    def only(self, chosen: Ints) -> "Impressions":
        """A copy with the chosen impressions, in the order given."""
        first = first_of(chosen.size, lambda some: self.first[chosen[some] + 1] - self.first[chosen[some]])
        item, bits = mapped.empty(int(first[-1]), np.int32), mapped.empty(int(first[-1]), np.bool_)
        for some in blocks(chosen.size):
            low, high = first[some.start], first[some.stop]
            sizes = np.diff(first[some.start : some.stop + 1])
            places = np.repeat(self.first[chosen[some]] - first[some], sizes) + np.arange(low, high)
            item[low:high], bits[low:high] = self.item[places], self.bits[places]
            mapped.release(*self[:3], item, bits)
        shown, top = (None if of is None else picked(of, chosen) for of in (self.shown, self.top))
        return Impressions(item, bits, first, self.n_items, shown, top)

    def part(self, some: slice) -> "Impressions":
        """The impressions from `some.start` to before `some.stop`, as views of the looks."""
        edges = self.first[some.start : some.stop + 1]
        shown, top = (None if of is None else of[some] for of in (self.shown, self.top))
        low, high = (int(edges[0]), int(edges[-1])) if edges.size else (0, 0)
        return Impressions(self.item[low:high], self.bits[low:high], edges - low, self.n_items, shown, top)

    def parts(self, size: int = BLOCK) -> Iterator[tuple[slice, "Impressions"]]:
        """Iterate in order over slices of `size` impressions and these impressions; releases memory after each."""
        for some in blocks(self.n, size):
            yield some, self.part(some)
            self.release()

    def release(self) -> None:
        """Release the memory of mapped arrays."""
        mapped.release(self.item, self.bits, self.first, self.shown, self.top)

    def clicks(self) -> Ints:
        """Clicks of each impression, int64[n]. For long logs, call it on `parts`."""
        so_far = np.concatenate([[0], np.cumsum(self.bits)])
        return np.diff(so_far[self.first])

    def lengths(self) -> Ints:
        """The length of each list, int64[n]."""
        return np.diff(self.first) if self.shown is None else self.shown.astype(np.int64)

    def places(self) -> Ints:
        """The place of each look, 0 for the top of the page."""
        sizes = np.diff(self.first)
        start = self.first[:-1] if self.top is None else self.first[:-1] - self.top
        return np.arange(self.item.size) - np.repeat(start, sizes)
