"""Separate the appeal of items from the effect of the place they were shown at.

The log-odds of a click are the sum of an item effect and a cell effect; a cell is a place in lists of one length.
Both are fitted to the margins of the log by iterative scaling (Deming and Stephan 1940, in odds), with pseudo-looks
from the common prior of items. This is the examination hypothesis of Richardson, Dominowska and Ragno 2007 in odds
instead of probabilities, so that no rate leaves (0, 1).
"""

from typing import Any, NamedTuple

import numpy as np

from ...click_logs.looks import Impressions, ItemNumbers
from ...core.arrays import Bools, Floats, Ints
from ...core.beta_prior import fit_prior
from ...core.compiling.jit import kernel, no_refcount

PLACES = 24  # places with cells of their own; those further down share the last
LENGTHS = 4  # most list lengths with cells of their own
COMMON = 0.05  # least share of lists for a length to have its own cells
LONG = 10_000  # lists of this length and more are counted as one length
ITEMS = 400_000  # with about as many items and more, fewer places have cells, to keep the table of counts small
SWEEPS = 12
EDGE = 1e-4  # least distance of a rate from 0 and 1
LOOKS, CLICKS = range(2)


class PlaceCells(NamedTuple):
    """Assigns the looks of a log to cells, by the length of the list and the place in it."""

    lengths: tuple[int, ...]  # list lengths with cells of their own; all others share the first cells
    places: int

    @property
    def n(self) -> int:
        """The number of cells."""
        return (1 + len(self.lengths)) * self.places

    def of(self, impressions: Impressions) -> tuple[Ints, Ints]:
        """Return int64[n] base, the cell of each impression's first look, and last, its cell of the lowest places.

        Look q of impression t, from 0, is in cell min(base[t] + q, last[t]).
        """
        group: Ints = np.zeros(impressions.n, np.int64)
        if self.lengths:
            lengths = impressions.lengths()
            for i, size in enumerate(self.lengths, 1):
                group[lengths == size] = i
        top = 0 if impressions.top is None else np.minimum(impressions.top, self.places - 1)
        return group * self.places + top, (group + 1) * self.places - 1


class Appeal(NamedTuple):
    """The log-odds of a click: item[k] + cell[c]."""

    item: Floats  # [K]
    cell: Floats  # [cell]


def place_cells(impressions: Impressions) -> PlaceCells:
    """Choose the cells for a log. O(impressions).

    If the lengths of lists are unknown, they are not distinguished: the number of places looked at depends on clicks.
    """
    places = PLACES if impressions.n_items * PLACES <= ITEMS * 8 else 3
    if impressions.shown is None:
        return PlaceCells((), places)
    counts: Ints = np.zeros(LONG + 1, np.int64)
    for _, part in impressions.parts():
        counts += np.bincount(np.minimum(part.lengths(), LONG), minlength=LONG + 1)
    often = np.argsort(-counts, kind="stable")[:LENGTHS]
    common = tuple(int(size) for size in often if counts[size] >= COMMON * max(impressions.n, 1))
    return PlaceCells(common if len(common) > 1 else (), places)


def looks_of(impressions: Impressions, cells: PlaceCells, chosen: Ints) -> tuple[ItemNumbers, Ints, Bools]:
    """Item, cell and click of every look in the impressions with the numbers `chosen`. O(looks in them)."""
    part = impressions.only(chosen)
    sizes = np.diff(part.first)
    offset = np.arange(part.item.size) - np.repeat(part.first[:-1], sizes)
    base, last = cells.of(part)
    cell = np.minimum(np.repeat(base, sizes) + offset, np.repeat(last, sizes))
    return part.item, cell, part.bits


@no_refcount
def cell_at(base, last, offset):
    """The cell of the look `offset` places below the first look of its impression."""
    return min(base + offset, last)


@no_refcount
def chance(log_odds):
    """The probability for log-odds."""
    return 1.0 / (1.0 + np.exp(-log_odds))


def sums(group: Ints | ItemNumbers, values: Any, n: int) -> Floats:
    """The sum of the values of each of n groups."""
    out: Floats = np.bincount(group, values, n).astype(np.float64, copy=False)
    return out


@kernel
def count_by_cell(item, bits, first, base, last, chosen, out):
    """Add the looks and clicks of the chosen impressions to out, int64[2, K, cell]; chosen: bool[n]."""
    for t in range(chosen.size):
        if chosen[t]:
            for q in range(first[t], first[t + 1]):
                c = cell_at(base[t], last[t], q - first[t])
                out[LOOKS, item[q], c] += 1
                out[CLICKS, item[q], c] += 1 if bits[q] else 0


@kernel
def scale(counts, pseudo, mean, item, cell, sweeps):
    """Fit item[K] and cell[C], log-odds, to the margins of counts[2, K, C], in place.

    Each item gets `pseudo` pseudo-looks with rate `mean`.
    """
    n_items, n_cells = item.size, cell.size
    seen = np.zeros(n_cells)
    clicked = np.zeros(n_cells)
    for k in range(n_items):
        for c in range(n_cells):
            seen[c] += counts[LOOKS, k, c]
            clicked[c] += counts[CLICKS, k, c]
    usual = np.log(mean / (1.0 - mean))
    for _ in range(sweeps):
        expected = np.zeros(n_cells)
        for k in range(n_items):
            got = pseudo * mean
            due = pseudo * chance(item[k])
            for c in range(n_cells):
                if counts[LOOKS, k, c] > 0:
                    got += counts[CLICKS, k, c]
                    due += counts[LOOKS, k, c] * chance(item[k] + cell[c])
            item[k] += np.log(got / due)
            for c in range(n_cells):
                if counts[LOOKS, k, c] > 0:
                    expected[c] += counts[LOOKS, k, c] * chance(item[k] + cell[c])
        level = 0.0
        total = 0.0
        for c in range(n_cells):
            if seen[c] > 0.0:
                cell[c] += np.log((clicked[c] + 0.5) / (expected[c] + 0.5))
                cell[c] = min(max(cell[c], -6.0), 6.0)
                level += seen[c] * cell[c]
                total += seen[c]
        if total > 0.0:
            level /= total
        for c in range(n_cells):  # the mean of the cells is moved to the items
            cell[c] -= level
        for k in range(n_items):
            item[k] = min(max(item[k] + level, usual - 12.0), usual + 12.0)


def counts_of(impressions: Impressions, cells: PlaceCells, chosen: Bools) -> Ints:
    """Looks and clicks by item and cell, int64[2, K, cell], of the chosen impressions, bool[n]. O(looks)."""
    out: Ints = np.zeros((2, impressions.n_items, cells.n), np.int64)
    for some, part in impressions.parts():
        count_by_cell(part.item, part.bits, part.first, *cells.of(part), chosen[some], out)
    return out


def fit(counts: Ints) -> Appeal:
    """Fit item and cell effects to counts[2, K, cell]. O(items times cells) per sweep."""
    looks, clicks = counts[LOOKS].sum(axis=1), counts[CLICKS].sum(axis=1)
    prior = np.ones(2)
    fit_prior(looks, clicks, prior)
    mean = float(np.clip(prior[0] / prior.sum(), EDGE, 1.0 - EDGE))
    item: Floats = np.full(looks.size, np.log(mean / (1.0 - mean)))
    cell: Floats = np.zeros(counts.shape[2])
    scale(counts, float(prior.sum()), mean, item, cell, SWEEPS)
    return Appeal(item, cell)
