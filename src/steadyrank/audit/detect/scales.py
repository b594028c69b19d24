"""A log at one scale: its stretches, each weighed against what comes before or after it.

At fine scales stretches are counted look by look. At coarse ones items are looked at many times in half a stretch:
looks of the same item are put together first, and each coarser scale is made from the one below it.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...click_logs.looks import Impressions, ItemNumbers
from ...core.arrays import Floats, Ints
from ...core.compiling.jit import kernel, no_refcount
from .bayes_factors import GROUP_COLUMNS, GROUPS, REFERENCE, weigh

WORTH = 4.0  # looks at an item, on average, in what is put together


class Units(NamedTuple):
    """Parts of a log in order: impressions, or as many of them as `span` says, with each item once.

    The entries of part i are places first[i] to first[i + 1].
    """

    item: ItemNumbers
    looks: ItemNumbers
    clicks: ItemNumbers
    first: Ints
    span: int
    whole: int  # parts that are: the last one may be shorter

    @property
    def n(self) -> int:
        """How many parts."""
        return self.first.size - 1


@no_refcount
def add(item, looks, clicks, first, t, sign, all_looks, all_clicks):
    """Add the entries of a part to counts, or take them away."""
    for q in range(first[t], first[t + 1]):
        k = item[q]
        all_looks[k] += sign * looks[q]
        all_clicks[k] += sign * clicks[q]


@kernel
def put_together(item, looks, clicks, first, many, n_items, new_item, new_looks, new_clicks, new_first):
    """Write parts of `many` parts each, the last one of what is left, with each item once; return their entries."""
    n = first.size - 1
    at = np.full(n_items, -1, np.int64)
    size = 0
    for i in range(new_first.size - 1):
        start = size
        for q in range(first[many * i], first[min(many * (i + 1), n)]):
            k = item[q]
            if at[k] < start:
                at[k] = size
                new_item[size] = k
                new_looks[size] = 0
                new_clicks[size] = 0
                size += 1
            new_looks[at[k]] += looks[q]
            new_clicks[at[k]] += clicks[q]
        new_first[i + 1] = size
    return size


@kernel
def scan(item, looks, clicks, first, size, backward, bands, usual, out):
    """Write the evidence that `size` parts of a log do not behave as the REFERENCE times as many before them.

    out[i]: for the stretch that begins after i half sizes; -inf where there is too little of either. `backward`
    counts from the end, and the reference comes after. O(entries) and a Bayes factor for each item of a stretch.
    """
    n = first.size - 1
    n_items = usual.size
    here = np.zeros((2, n_items), np.int64)
    before = np.zeros((2, n_items), np.int64)
    there = np.empty(n_items, np.int64)
    turn = np.zeros(n_items, np.int64)
    rates = np.empty(n_items)
    groups = np.empty((GROUPS, GROUP_COLUMNS))
    low = mid = high = 0  # the reference is [low, mid), the stretch [mid, high)
    for i in range(out.size):
        start = i * (size // 2)
        end = min(start + size, n)
        while high < end:
            add(item, looks, clicks, first, n - 1 - high if backward else high, 1, here[0], here[1])
            high += 1
        while mid < start:
            t = n - 1 - mid if backward else mid
            add(item, looks, clicks, first, t, -1, here[0], here[1])
            add(item, looks, clicks, first, t, 1, before[0], before[1])
            mid += 1
        while low < start - REFERENCE * size:
            add(item, looks, clicks, first, n - 1 - low if backward else low, -1, before[0], before[1])
            low += 1
        out[i] = -np.inf
        if mid - low < size // 2 or end - start < size // 2:
            continue
        m = 0
        for u in range(start, end):
            t = n - 1 - u if backward else u
            for q in range(first[t], first[t + 1]):
                k = item[q]
                if turn[k] != i + 1:
                    turn[k] = i + 1
                    there[m] = k
                    m += 1
        out[i], _ = weigh(there, m, here[0], here[1], before[0], before[1], bands, usual, rates, groups)


def of_impressions(shown: Impressions) -> Units:
    """Each impression a part of its own, without a copy."""
    ones = np.broadcast_to(np.int32(1), shown.item.size)
    return Units(shown.item, ones, shown.bits.view(np.int8), shown.first, 1, shown.n)


def coarser(units: Units, many: int, n_items: int) -> Units:
    """Parts that are `many` times as long. O(entries)."""
    n = -(-units.n // many)
    room = min(units.item.size, n * n_items)
    item, looks, clicks = (np.empty(room, np.int32) for _ in range(3))  # pages of memory beyond `size` are not used
    first = np.zeros(n + 1, np.int64)
    size = put_together(*units[:4], many, n_items, item, looks, clicks, first)
    return Units(item[:size], looks[:size], clicks[:size], first, many * units.span, units.whole // many)


def at_scales(shown: Impressions, shortest: int) -> Iterator[tuple[int, Units]]:
    """Sizes of stretches in impressions, each twice the one before, and what to count them by."""
    units = of_impressions(shown)
    looks = shown.item.size / max(shown.n, 1)  # an impression's
    size = shortest
    while 2 * size <= shown.n:
        half = size // 2
        if looks * half >= WORTH * shown.n_items:
            units = coarser(units, half // units.span, shown.n_items)
        yield size, units
        size *= 2


def evidence(units: Units, size: int, backward: bool, bands: Ints, usual: Floats) -> tuple[Floats, Ints]:
    """What `scan` says of stretches of `size` impressions, and at which impression each would have changed."""
    n = size // units.span  # parts of a stretch
    out = np.empty(units.whole // (n // 2))
    scan(*units[:4], n, backward, bands, usual, out)
    at: Ints = np.arange(out.size) * (n // 2)
    return out, (units.n - at if backward else at) * units.span
