"""What made clicks change: all items alike, places and lengths of lists, or single items beyond what is honest.

A stretch is explained step by step against what is usual. First all items may have shifted together (a weekend, a
sale). Then every cell may have a shift of its own (another layout, shorter lists; items that a new ranker shows
elsewhere are expected to be clicked as at that place anyway). Then single items may have moved as far as a promotion
moves them. What evidence is left after each step says which of them explains the change; what no step explains is
suspect.
"""

import math
from typing import NamedTuple

import numpy as np

from ...click_logs.looks import ItemNumbers
from ...core.arrays import Bools, Floats, Ints
from ...core.item_evidence import KNOWN
from .attention import CLICKS, LOOKS, Appeal, fit, sums
from .bayes_factors import BEYOND, CHANGED, CHOICE, DISPERSED, EDGE, GROUP_CHANGED, GROUPS, HOLD, evidence_by_item
from .stretches import BANDS, prior_of

SHIFT = BEYOND  # of log-odds, that honest users make together; beyond it is suspect
MOVED = math.log(6.0)  # of log-odds, that another layout makes at a place
PROMOTED = 0.18  # points that an honest promotion adds to an item's click rate: 15, and some room
FADED = 0.5  # share of its clicks that an item whose promotion ends, or that others crowd out, keeps at least
FEW = 0.06  # share of the items, as many as looks are spread over, that are promoted at once: one at least
WIGGLE = 0.1  # of log-odds, that any item honestly moves
STEPS = 12  # of fitting shifts
SEEN = 50  # looks at a cell before what is usual there is known
HIGH = 200.0  # nats: as good as certain


class Usual(NamedTuple):
    """What is usual in a log."""

    appeal: Appeal
    looks: Ints  # [K]
    strength: Ints  # [K] looks that rates are worth: with those of what items have in common, 0 for unknown ones
    at_cell: Ints  # [cell] looks
    bands: Ints  # [K] group of items by their appeal


class StretchCounts(NamedTuple):
    """Looks and clicks of a stretch by item and cell, a row for each pair that occurs."""

    item: Ints
    cell: Ints
    looks: Floats
    clicks: Floats


class Explanation(NamedTuple):
    """Nats of evidence for a change: in all, and left when more and more is allowed for."""

    all: float
    after_level: float  # all items together
    after_places: float  # and each cell on its own
    left: float  # and single items as a promotion moves them
    level: float  # factor of the odds of all items together

    def kind(self, bar: float) -> str:
        """What explains the change: level, places, items (honestly); or clicks, if nothing does."""
        if self.left >= bar:
            return "clicks"
        if self.after_places >= bar:
            return "items"
        return "places" if self.after_level >= bar else "level"


def usual_of(counts: Ints) -> Usual:
    """What is usual in some impressions, counted by item and cell (`counts_of`). O(items times cells)."""
    appeal = fit(counts)
    looks = counts[LOOKS].sum(axis=1)
    edges = np.quantile(appeal.item[looks > 0], BANDS) if looks.any() else np.zeros(len(BANDS))
    bands = np.searchsorted(edges, appeal.item).astype(np.int64)
    return Usual(appeal, looks, strength_of(looks, counts[CLICKS].sum(axis=1)), counts[LOOKS].sum(axis=0), bands)


def strength_of(looks: Ints, clicks: Ints) -> Ints:
    """Looks that the rate of each item is worth, int64[K]: its own and, HOLD at most, those of the items' prior."""
    prior = np.rint(min(prior_of(looks, clicks)[1], HOLD)).astype(np.int64)
    strength: Ints = np.where(looks >= KNOWN, looks + prior, 0)
    return strength


def explain(usual: Usual, counts: StretchCounts) -> Explanation:
    """How much of a stretch's clicks is explained by what. O(pairs of item and cell)."""
    base = usual.appeal.item[counts.item] + usual.appeal.cell[counts.cell]
    n_cells, n_items = usual.at_cell.size, usual.looks.size
    looks = sums(counts.item, counts.looks, n_items)
    clicks = sums(counts.item, counts.clicks, n_items)
    level = float(_shift(base, counts, np.zeros(counts.item.size, np.int64), 1, np.array([SHIFT]))[0])
    places = _places(usual, base, counts, n_cells)

    def due(shift: Floats | float) -> Floats:
        return sums(counts.item, counts.looks / (1.0 + np.exp(-(base + shift))), n_items)

    expected = due(places[counts.cell])
    whole, after_level, after_places = (
        _evidence(usual, looks, clicks, of) for of in (due(0.0), due(level), expected)
    )
    left = _evidence(usual, looks, clicks, _allowed(usual, looks, clicks, expected))
    after_level, after_places = min(after_level, whole), min(after_places, whole)
    return Explanation(whole, after_level, after_places, min(left, after_places), math.exp(level))


def _places(usual: Usual, base: Floats, counts: StretchCounts, n_cells: int) -> Floats:
    """The shift of each cell: its own, within MOVED, around one that all share, within SHIFT."""
    known = usual.at_cell >= SEEN
    places = _shift(base, counts, counts.cell, n_cells, np.where(known, MOVED, 12.0))
    weight = sums(counts.cell, counts.looks / (1.0 + np.exp(-base)), n_cells) * known
    if not weight.any():
        return places
    shared = float(np.average(places, weights=weight))
    return np.where(known, places - shared + float(np.clip(shared, -SHIFT, SHIFT)), places)


def _shift(base: Floats, counts: StretchCounts, group: Ints, n: int, room: Floats) -> Floats:
    """The shift of log-odds of each group at which it gets its clicks, within `room`; half a click joins both."""
    shift: Floats = np.zeros(n)
    got = sums(group, counts.clicks, n) + 0.5
    for _ in range(STEPS):
        due = sums(group, counts.looks / (1.0 + np.exp(-(base + shift[group]))), n) + 0.5
        shift = np.clip(shift + np.log(got / due), -room, room)
    return shift


def _allowed(usual: Usual, looks: Floats, clicks: Floats, expected: Floats) -> Floats:
    """Expected clicks, moved towards those seen as far as honest items move alone: most a little, few a lot."""
    rate = np.clip(expected / np.maximum(looks, 1.0), EDGE, 1.0 - EDGE)
    low, high = (looks / (1.0 + (1.0 - rate) / rate * math.exp(by)) for by in (WIGGLE, -WIGGLE))
    near = np.clip(clicks, low, high)
    alone = _novelty(looks, clicks, near, usual.strength)
    spread = float(looks.sum()) ** 2 / max(float((looks**2).sum()), 1.0)
    most = max(1, round(FEW * spread))
    moved = np.argsort(-alone, kind="stable")[:most]
    near[moved] = np.clip(clicks, FADED * expected, expected + PROMOTED * looks)[moved]
    return near


def _evidence(usual: Usual, looks: Floats, clicks: Floats, expected: Floats) -> float:
    """Nats that items, groups, or all together do not have the clicks expected: as `bayes_factors.weigh` has it."""
    alone = _novelty(looks, clicks, expected, usual.strength)
    items = max(float(np.log1p(share * np.expm1(alone)).sum()) for share in CHANGED)
    kinds = [sums(usual.bands, of, GROUPS) for of in (looks, clicks, expected, usual.looks)]
    groups = _novelty(kinds[0], kinds[1], kinds[2], kinds[3])
    together = _together(float(looks.sum()), float(clicks.sum()), float(expected.sum()))
    return max(items, float(np.log1p(GROUP_CHANGED * np.expm1(groups)).sum()), together) - CHOICE


def _together(looks: float, got: float, due: float) -> float:
    """Nats of all clicks against all expected, as in `bayes_factors.beyond`."""
    nats = due - got + (got * math.log(got / max(due, EDGE)) if got > 0.0 else 0.0)
    return nats / DISPERSED - 0.5 * math.log1p(looks)


def _novelty(looks: Floats, clicks: Floats, expected: Floats, strength: Floats | Ints) -> Floats:
    rates = np.clip(expected / np.maximum(looks, 1.0), EDGE, 1.0 - EDGE)
    out: Floats = np.zeros(looks.size)
    n, x = np.rint(looks).astype(np.int64), np.rint(clicks).astype(np.int64)
    evidence_by_item(n, x, rates, np.rint(strength).astype(np.int64), out)
    return np.minimum(out, HIGH)


def by_pairs(counts: Ints) -> StretchCounts:
    """What `attention.counts_of` counts, as pairs that occur."""
    item, cell = np.nonzero(counts[LOOKS])
    looks, clicks = (counts[of, item, cell].astype(np.float64) for of in (LOOKS, CLICKS))
    return StretchCounts(item, cell, looks, clicks)


def gathered(item: ItemNumbers, cell: Ints, bits: Bools, n_cells: int) -> StretchCounts:
    """Looks, one a row, as counts by item and cell."""
    key, where, looks = np.unique(item.astype(np.int64) * n_cells + cell, return_inverse=True, return_counts=True)
    clicks = sums(where, bits, key.size)
    return StretchCounts(key // n_cells, key % n_cells, looks.astype(np.float64), clicks)
