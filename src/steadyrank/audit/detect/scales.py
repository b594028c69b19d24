"""Split a log into parts, single or aggregated impressions, and weigh its stretches at all scales.

At fine scales stretches are counted look by look. At coarse scales, where half a stretch has many looks per item,
looks at the same item are aggregated first, each scale from the one below. A log with more looks than ENTRIES is
aggregated from the start, block by block: the search for changes only needs looks and clicks by item in each part, so
its memory does not grow with the log, but edges are only located to a part.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from ...click_logs.looks import BLOCK, Impressions, ItemNumbers, blocks, first_of
from ...core.arrays import Bools, Floats, Ints
from ...core.compiling.jit import kernel, no_refcount
from .bayes_factors import GROUP_COLUMNS, GROUPS, REFERENCE, weigh, what_is_known

Tally: TypeAlias = tuple[Ints, Ints]  # looks and clicks by item

LEAST_LOOKS = 4.0  # least mean looks per item in half a stretch for aggregation to pay
ENTRIES = 64_000_000  # most pairs of a part and an item in memory: 0.8 GB
SAMPLED_BLOCKS = 4  # sampled blocks of a log from which the length of parts is estimated


class Units(NamedTuple):
    """Parts of a log in order: single impressions, or `span` of them together with one entry per item.

    The entries of part i are first[i] to before first[i + 1].
    """

    item: ItemNumbers
    looks: ItemNumbers
    clicks: ItemNumbers
    first: Ints
    n_items: int
    span: int
    whole: int  # number of complete parts: the last one may be shorter

    @property
    def n(self) -> int:
        """The number of parts."""
        return self.first.size - 1

    def between(self, start: int, end: int) -> "Units":
        """Parts `start` to before `end`, as views."""
        low, high = self.first[start], self.first[end]
        item, looks, clicks = (of[low:high] for of in self[:3])
        return self._replace(item=item, looks=looks, clicks=clicks, first=self.first[start : end + 1] - low)

    def only(self, chosen: Ints) -> "Units":
        """A copy with the chosen parts, in the order given."""
        first = first_of(chosen.size, lambda some: self.first[chosen[some] + 1] - self.first[chosen[some]])
        size = int(first[-1])
        item, clicks = np.empty(size, self.item.dtype), np.empty(size, self.clicks.dtype)
        single = self.looks.strides == (0,)
        looks = np.broadcast_to(np.int32(1), size) if single else np.empty(size, self.looks.dtype)
        for some in blocks(chosen.size):
            low, high = first[some.start], first[some.stop]
            sizes = np.diff(first[some.start : some.stop + 1])
            places = np.repeat(self.first[chosen[some]] - first[some], sizes) + np.arange(low, high)
            item[low:high], clicks[low:high] = self.item[places], self.clicks[places]
            if not single:
                looks[low:high] = self.looks[places]
        return Units(item, looks, clicks, first, self.n_items, self.span, chosen.size)


@no_refcount
def add(item, looks, clicks, first, t, sign, all_looks, all_clicks):
    """Add the entries of part t to counts, or subtract them; `sign`: 1 or -1."""
    for q in range(first[t], first[t + 1]):
        k = item[q]
        all_looks[k] += sign * looks[q]
        all_clicks[k] += sign * clicks[q]


@kernel
def count(item, looks, clicks, first, start, end, all_looks, all_clicks):
    """Add parts from `start` to before `end` to counts."""
    for t in range(start, end):
        add(item, looks, clicks, first, t, 1, all_looks, all_clicks)


@kernel
def count_where(item, looks, clicks, first, chosen, all_looks, all_clicks):
    """Add the chosen parts to counts; chosen: bool[n]."""
    for t in range(chosen.size):
        if chosen[t]:
            add(item, looks, clicks, first, t, 1, all_looks, all_clicks)


def tally(impressions: Impressions, chosen: Bools | None = None) -> Tally:
    """Looks and clicks by item of all impressions, or of the chosen ones, bool[n]. O(looks)."""
    counts = np.zeros(impressions.n_items, np.int64), np.zeros(impressions.n_items, np.int64)
    for some, part in impressions.parts():
        units = of_impressions(part)
        if chosen is None:
            count(*units[:4], 0, part.n, *counts)
        else:
            count_where(*units[:4], chosen[some], *counts)
    return counts


@kernel
def aggregate(item, looks, clicks, first, many, n_items, new_item, new_looks, new_clicks, new_first):
    """Aggregate `many` parts into one, the last from the remainder, an entry per item; returns how many entries."""
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
def scan(item, looks, clicks, first, size, backward, bands, usual, sparse, total, votes, prior, out):
    """Write the evidence that stretches of `size` parts differ from the REFERENCE times as many parts before them.

    `sparse`: whether the reference has hardly any looks at some items; then `total`, `votes` and `prior` give their
    rates elsewhere (`bayes_factors.what_is_known`). out[i] is for the stretch that begins at i size / 2; -inf if it
    or its reference is too short. `backward` counts from the end, and the reference comes after the stretch.
    O(entries), and one Bayes factor for each item of a stretch.
    """
    n = first.size - 1
    n_items = usual.size
    here = np.zeros((2, n_items), np.int64)
    before = np.zeros((2, n_items), np.int64)
    after = np.zeros((2, n_items), np.int64)
    far = np.zeros((2, n_items), np.int64)
    known = np.zeros((2, n_items))
    own = np.empty(n_items)
    there = np.empty(n_items, np.int64)
    turn = np.zeros(n_items, np.int64)
    rates = np.empty(n_items)
    groups = np.empty((GROUPS, GROUP_COLUMNS))
    low = mid = high = last = 0  # the reference is [low, mid), the stretch [mid, high), what comes after [high, last)
    for i in range(out.size):
        start = i * (size // 2)
        end = min(start + size, n)
        while sparse and last < min(end + REFERENCE * size, n):
            add(item, looks, clicks, first, n - 1 - last if backward else last, 1, after[0], after[1])
            last += 1
        while high < end:
            t = n - 1 - high if backward else high
            if sparse:
                add(item, looks, clicks, first, t, -1, after[0], after[1])
            add(item, looks, clicks, first, t, 1, here[0], here[1])
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
        for j in range(m):
            k = there[j]
            for of in range(2):
                if sparse:
                    far[of, k] = total[of, k] - here[of, k] - before[of, k] - after[of, k]
                else:
                    known[of, k] = before[of, k]
            own[k] = usual[k]
        if sparse:
            what_is_known(there, m, before, far, True, votes, prior, known, own)
        out[i], _ = weigh(there, m, here, before, known, own, bands, usual, rates, groups)


def of_impressions(shown: Impressions) -> Units:
    """Parts of one impression each, as views."""
    ones = np.broadcast_to(np.int32(1), shown.item.size)
    return Units(shown.item, ones, shown.bits.view(np.int8), shown.first, shown.n_items, 1, shown.n)


def with_multiclick_item(impressions: Impressions) -> Impressions:
    """Add to each impression a look at a pseudo-item, clicked if the impression has several clicks.

    In the cascade model users click once. If some click more often, how often they do is part of the behaviour.
    """
    several = impressions.clicks() > 1
    at = impressions.first[1:]
    item = np.insert(impressions.item, at, np.int32(impressions.n_items))
    bits = np.insert(impressions.bits, at, several)
    return Impressions(item, bits, impressions.first + np.arange(impressions.n + 1), impressions.n_items + 1)


def prepare_units(impressions: Impressions) -> Units:
    """Prepare a log for the search for changes: one part per impression, or longer parts beyond ENTRIES looks.

    Uses `with_multiclick_item` if any list has several clicks. O(looks).
    """
    several = any(bool((part.clicks() > 1).any()) for _, part in impressions.parts())
    shape = with_multiclick_item if several else lambda part: part
    looks = impressions.item.size + (impressions.n if several else 0)
    if looks <= ENTRIES:
        return of_impressions(shape(impressions))
    blocks_tried = np.linspace(0, max(impressions.n - BLOCK, 0), SAMPLED_BLOCKS).astype(np.int64)
    tried = [of_impressions(shape(impressions.part(slice(at, at + BLOCK)))) for at in blocks_tried.tolist()]
    span, entries = 1, float(looks)
    while entries > ENTRIES and span < BLOCK:
        span, tried = 2 * span, [coarser(one, 2) for one in tried]
        entries = impressions.n / (SAMPLED_BLOCKS * BLOCK) * sum(one.item.size for one in tried)
    parts = [coarser(of_impressions(shape(part)), span) for _, part in impressions.parts()]
    units = _joined(parts)
    while units.item.size > ENTRIES and units.n > 2:
        units = coarser(units, 2)
    return units


def _joined(parts: list[Units]) -> Units:
    """Concatenate parts of a log; all but the last are complete."""
    first = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(one.first) for one in parts]))])
    item, looks, clicks = (np.concatenate([getattr(one, name) for one in parts]) for name in Units._fields[:3])
    whole = sum(one.whole for one in parts)
    return Units(item, looks, clicks, first, parts[0].n_items, parts[0].span, whole)


def coarser(units: Units, many: int) -> Units:
    """Aggregate parts to `many` times their length. O(entries)."""
    n, n_items = -(-units.n // many), units.n_items
    room = min(units.item.size, n * n_items)
    item, looks, clicks = (np.empty(room, np.int32) for _ in range(3))  # memory pages beyond `size` are never touched
    first = np.zeros(n + 1, np.int64)
    size = aggregate(*units[:4], many, n_items, item, looks, clicks, first)
    return Units(item[:size], looks[:size], clicks[:size], first, n_items, many * units.span, units.whole // many)


def at_scales(finest: Units, shortest: int) -> Iterator[tuple[int, Units]]:
    """Iterate over sizes of stretches, each twice the one before, and the units to count them in.

    Sizes are in parts of `finest`; the `span` of the units is, too.
    """
    units = finest._replace(span=1)
    looks = int(finest.looks.sum(dtype=np.int64)) / max(finest.n, 1)  # per part
    size = shortest
    while 2 * size <= finest.n:
        half = size // 2
        if looks * half >= LEAST_LOOKS * finest.n_items:
            units = coarser(units, half // units.span)
        yield size, units
        size *= 2


class ScanContext(NamedTuple):
    """What `scan` needs beside the units: groups of items, and what is known of items in the whole log."""

    bands: Ints  # [K] group of each item
    usual: Floats  # [K] usual rates
    sparse: bool  # whether the reference has hardly any looks at some items
    total: Ints  # [2, K] looks and clicks
    votes: Floats  # [2, K]
    prior: Floats  # [2]


def evidence(units: Units, size: int, backward: bool, rest: ScanContext) -> tuple[Floats, Ints]:
    """Scan stretches of `size` parts: returns the evidence of each, and the part at which it would begin."""
    n = size // units.span  # parts of a stretch
    out = np.empty(units.whole // (n // 2))
    scan(*units[:4], n, backward, *rest, out)
    at: Ints = np.arange(out.size) * (n // 2)
    return out, (units.n - at if backward else at) * units.span
