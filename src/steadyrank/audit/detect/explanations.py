"""Explain a change of clicks: by all items alike, by places and lengths of lists, or by single items.

A stretch is compared with what is usual, allowing for more in each step. First, all items may have shifted together
(a weekend, a sale). Then every cell may have its own shift (another layout, shorter lists; items that a new ranker
shows elsewhere are already expected to be clicked as at that place). Then single items may have moved as far as a
promotion moves them. The first step after which little evidence is left explains the change; if much is left after
all of them, the change is suspect.
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

SHIFT = BEYOND  # largest honest shift of all log-odds together; a larger one is suspect
MOVED = math.log(6.0)  # largest shift of log-odds at a place by another layout
PROMOTED = 0.18  # most that an honest promotion adds to a click rate: 15 percentage points, and some room
FADED = 0.5  # least share of its clicks that an item keeps when its promotion ends or others crowd it out
FEW = 0.06  # share of the effective number of items that may be promoted at once, at least one item
WIGGLE = 0.1  # shift of log-odds that any item may have
STEPS = 12  # iterations of fitting shifts
SEEN = 50  # least looks at a cell for its usual rate to be known
HIGH = 200.0  # nats: as good as certain


class Usual(NamedTuple):
    """What is usual in a log."""

    appeal: Appeal
    looks: Ints  # [K]
    strength: Ints  # [K] looks that rates are worth, those of the prior included; 0 for unknown items
    at_cell: Ints  # [cell] looks
    bands: Ints  # [K] group of items by their appeal


class StretchCounts(NamedTuple):
    """Looks and clicks of a stretch by item and cell, one row per pair that occurs."""

    item: Ints
    cell: Ints
    looks: Floats
    clicks: Floats


class Explanation(NamedTuple):
    """Nats of evidence for a change: in total, and left after allowing for more and more."""

    all: float
    after_level: float  # a shift of all items together
    after_places: float  # and one of each cell
    left: float  # and single items as a promotion moves them
    level: float  # factor on the odds of all items together

    def kind(self, bar: float) -> str:
        """What explains the change: level, places or items; or "clicks" if nothing honest does."""
        if self.left >= bar:
            return "clicks"
        if self.after_places >= bar:
            return "items"
        return "places" if self.after_level >= bar else "level"


def usual_of(counts: Ints) -> Usual:
    """Learn what is usual from counts by item and cell (`counts_of`). O(items times cells)."""
    appeal = fit(counts)
    looks = counts[LOOKS].sum(axis=1)
    edges = np.quantile(appeal.item[looks > 0], BANDS) if looks.any() else np.zeros(len(BANDS))
    bands = np.searchsorted(edges, appeal.item).astype(np.int64)
    return Usual(appeal, looks, strength_of(looks, counts[CLICKS].sum(axis=1)), counts[LOOKS].sum(axis=0), bands)


def strength_of(looks: Ints, clicks: Ints) -> Ints:
    """The weight of each item's rate in looks, int64[K]: its own looks plus at most HOLD of the common prior."""
    prior = np.rint(min(prior_of(looks, clicks)[1], HOLD)).astype(np.int64)
    strength: Ints = np.where(looks >= KNOWN, looks + prior, 0)
    return strength


def explain(usual: Usual, counts: StretchCounts) -> Explanation:
    """Explain a stretch's clicks step by step. O(pairs of item and cell)."""
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
    """The shift of each cell: its own, up to MOVED, around a common one, up to SHIFT."""
    known = usual.at_cell >= SEEN
    places = _shift(base, counts, counts.cell, n_cells, np.where(known, MOVED, 12.0))
    weight = sums(counts.cell, counts.looks / (1.0 + np.exp(-base)), n_cells) * known
    if not weight.any():
        return places
    shared = float(np.average(places, weights=weight))
    return np.where(known, places - shared + float(np.clip(shared, -SHIFT, SHIFT)), places)


def _shift(base: Floats, counts: StretchCounts, group: Ints, n: int, room: Floats) -> Floats:
    """The shift of log-odds of each group that yields its clicks, up to `room`; both counts get half a click."""
    shift: Floats = np.zeros(n)
    got = sums(group, counts.clicks, n) + 0.5
    for _ in range(STEPS):
        due = sums(group, counts.looks / (1.0 + np.exp(-(base + shift[group]))), n) + 0.5
        shift = np.clip(shift + np.log(got / due), -room, room)
    return shift


def _allowed(usual: Usual, looks: Floats, clicks: Floats, expected: Floats) -> Floats:
    """Expected clicks moved towards the observed ones as far as honest items move: most a little, few a lot."""
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
    """Nats that items, groups, or all together differ from expected clicks, combined as in `bayes_factors.weigh`."""
    alone = _novelty(looks, clicks, expected, usual.strength)
    items = max(float(np.log1p(share * np.expm1(alone)).sum()) for share in CHANGED)
    kinds = [sums(usual.bands, of, GROUPS) for of in (looks, clicks, expected, usual.looks)]
    groups = _novelty(kinds[0], kinds[1], kinds[2], kinds[3])
    together = _together(float(looks.sum()), float(clicks.sum()), float(expected.sum()))
    return max(items, float(np.log1p(GROUP_CHANGED * np.expm1(groups)).sum()), together) - CHOICE


def _together(looks: float, got: float, due: float) -> float:
    """Nats that the total of clicks differs from the expected one, as in `bayes_factors.beyond`."""
    nats = due - got + (got * math.log(got / max(due, EDGE)) if got > 0.0 else 0.0)
    return nats / DISPERSED - 0.5 * math.log1p(looks)


def _novelty(looks: Floats, clicks: Floats, expected: Floats, strength: Floats | Ints) -> Floats:
    rates = np.clip(expected / np.maximum(looks, 1.0), EDGE, 1.0 - EDGE)
    out: Floats = np.zeros(looks.size)
    n, x = np.rint(looks).astype(np.int64), np.rint(clicks).astype(np.int64)
    evidence_by_item(n, x, rates, np.rint(strength).astype(np.int64), out)
    return np.minimum(out, HIGH)


def by_pairs(counts: Ints) -> StretchCounts:
    """Convert counts of `attention.counts_of` to pairs that occur."""
    item, cell = np.nonzero(counts[LOOKS])
    looks, clicks = (counts[of, item, cell].astype(np.float64) for of in (LOOKS, CLICKS))
    return StretchCounts(item, cell, looks, clicks)


def gathered(item: ItemNumbers, cell: Ints, bits: Bools, n_cells: int) -> StretchCounts:
    """Count looks, one per row, by item and cell."""
    key, where, looks = np.unique(item.astype(np.int64) * n_cells + cell, return_inverse=True, return_counts=True)
    clicks = sums(where, bits, key.size)
    return StretchCounts(key // n_cells, key % n_cells, looks.astype(np.float64), clicks)
