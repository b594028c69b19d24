"""Another ranker and ours on the same lists: what both show, what ours would have got, how far to believe it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .arrays import Bools, Floats, Ints
from .off_policy import Estimate, Interval, Lists, clicks_of, clusters, estimates, mean

ENOUGH = 50  # effective lists below which an interval is said to be too narrow: a judgement, not measured
COVERED = 0.9  # mean weight below which a part of ours is said to be unknown


class Row(NamedTuple):
    """One list: slots of items from the top, positions clicked from 0, places looked at; chances empty: not known."""

    shown: Sequence[int]
    ours: Sequence[int]
    clicks: Sequence[int]
    examined: int
    propensities: Sequence[float]
    marginals: Sequence[float]
    sender: int


class Part(NamedTuple):
    """A comparison over some lists. `alike`: share of the places of ours with the same item there on their list."""

    lists: int
    theirs: Interval
    alike: float
    estimates: list[Estimate]


class Comparison(NamedTuple):
    """Both rankers over all lists, and over those that are not suspect; None: none is, or all are.

    `theirs` and `ours`: at each place the item that was there most often.
    """

    whole: Part
    trusted: Part | None
    suspect: int
    theirs: list[str]
    ours: list[str]
    says: list[str]


def lists_of(rows: Sequence[Row]) -> Lists:
    """Rows as arrays; those for which ours had nothing to show have no place here."""
    n, length = len(rows), max((len(row.shown) for row in rows), default=1)
    shown, ours = np.full((n, length), -1), np.full((n, length), -1)
    clicks = np.zeros((n, length), np.bool_)
    propensities, marginals = np.full((n, length), np.nan), np.full((n, length), np.nan)
    for i, row in enumerate(rows):
        shown[i, : len(row.shown)] = row.shown
        ours[i, : len(row.ours)] = row.ours[:length]
        clicks[i, list(row.clicks)] = True
        propensities[i, : len(row.propensities)] = row.propensities
        marginals[i, : len(row.marginals)] = row.marginals
    numbers: tuple[Ints, Ints] = (
        np.array([row.examined for row in rows], np.int64),
        np.array([row.sender for row in rows], np.int64),
    )
    return Lists(shown, ours, clicks, numbers[0], propensities, marginals, numbers[1])


def compare(lists: Lists, suspect: Bools, names: Sequence[str]) -> Comparison:
    """Compare both rankers; `suspect`: which lists are left out of the second part. At least two lists."""
    whole = _part(lists, len(names))
    count = int(np.count_nonzero(suspect))
    trusted = _part(lists.only(~suspect), len(names)) if 0 < count < suspect.size - 1 else None
    theirs, ours = ([names[slot] for slot in _most_often(part)] for part in (lists.shown, lists.ours))
    return Comparison(whole, trusted, count, theirs, ours, _says(whole, trusted, count))


def _part(lists: Lists, n_items: int) -> Part:
    places = lists.ours >= 0
    alike = float((lists.shown == lists.ours)[places].mean()) if places.any() else 0.0
    theirs: Floats = clicks_of(lists)
    return Part(theirs.size, mean(theirs, clusters(lists.sender)), alike, estimates(lists, n_items))


def _most_often(lists: Ints) -> list[int]:
    found = []
    for place in lists.T:
        slots, count = np.unique(place[place >= 0], return_counts=True)
        if slots.size:
            found.append(int(slots[np.argmax(count)]))
    return found


def _says(whole: Part, trusted: Part | None, suspect: int) -> list[str]:
    """What a reader has to know before believing the numbers, in sentences."""
    said = []
    if not all(one.given for one in whole.estimates):
        missing = sorted({one.model for one in whole.estimates if not one.given})
        said.append(
            f"Without propensities of the other ranker ({' and '.join(missing)}), the share of lists with an item at "
            "its place stands for them: right only if it shows everybody lists of the same kind, whoever they are."
        )
    last = trusted or whole
    for one in last.estimates[::2]:
        if one.spread.covered < COVERED:
            said.append(
                f"{one.model}: the other ranker shows about {one.spread.covered:.0%} of what ours would. Inverse "
                "propensities leave the rest out and say too little; doubly robust fills it in by a model of clicks, "
                "which nothing here checks."
            )
        if one.spread.effective < ENOUGH:
            said.append(
                f"{one.model}: its lists are worth {one.spread.effective:.0f} of ours, fewer than {ENOUGH}: the "
                "intervals are too narrow to be believed. Wait for more lists, or let the other ranker vary more."
            )
    if suspect:
        said.append(
            f"{suspect} of {whole.lists} lists are suspect: not heard by the guard, labelled as fraud, or of rounds "
            "outside of the trusted regime."
        )
    return said
