"""Find items whose clicks rise while their outcomes do not, in the lists that a board remembers.

The answered lists are cut into BLOCKS by age, and PARTS of a few blocks. An item is raised in a part where its clicks
exceed those of its median part by RAISED standard deviations. The outcomes due from these clicks are the item's usual
rate of outcomes, times the ratio of all other items' outcomes in the same blocks to their usual number: so clicks too
young for their outcomes are held against no item. The test of fewer outcomes than due is that of the audit
(`count_tests.fewer_than_due`).
"""

from typing import NamedTuple

import numpy as np

from ...comparison.count_tests import Counts, fewer_than_due
from ...core.arrays import Bools, Floats, Ints
from ...core.beta_prior import fit_prior
from ...live.impression_buffer import DONE
from .board import Board
from .schema import Schema

BLOCKS, PARTS = 40, 10
FEWEST_LISTS = 400  # ten per block
FEWEST_OUTCOMES = 20
FEWEST_CLICKS = 20  # on an item
RAISED = 4.0  # standard deviations: only clearly raised items are tested
SURE = 0.05  # false discovery rate of the reported items (Benjamini and Hochberg 1995)
_TRIED = 100  # items, those with the most clicks, from which the spread of honest items is estimated
_PASSES = 3  # alternating estimates of the rates of items and of blocks


class FewOutcomesOut(Schema):
    """An item with more clicks than before from round `start` to `end`, but fewer outcomes of them.

    `expected_clicks`: the usual number in as many lists; `expected_outcomes`: the usual number for as many clicks.
    """

    item: str
    start: int
    end: int
    clicks: int
    expected_clicks: float
    outcomes: int
    expected_outcomes: float


class AnsweredLists(NamedTuple):
    """The answered lists of a board by age, oldest first, copied so that another thread can test them."""

    round: Ints  # [n]
    examined: Ints  # [n]
    ranking: Ints  # [n, places]
    clicks: Bools  # [n, places]
    converted: Ints  # of clicks with outcomes: round times `slots` plus slot
    slots: int
    names: list[str]  # of items by slot; shared with the board, which only appends


class _Tally(NamedTuple):
    """Clicks, and clicks with outcomes, by block and item, for items with enough clicks."""

    slots: Ints  # [K]
    clicks: Floats  # [BLOCKS, K]
    converted: Floats


class _Stretch(NamedTuple):
    """Consecutive parts in which an item is raised: from `first` to before `end`."""

    k: int
    first: int
    end: int

    @property
    def blocks(self) -> slice:
        """The same range in blocks."""
        each = BLOCKS // PARTS
        return slice(self.first * each, self.end * each)


def answered_lists(board: Board) -> AnsweredLists | None:
    """Copy a board's answered lists; None if there are too few lists or outcomes to say anything."""
    impressions, book = board.impressions, board.learner_state.outcomes
    if book is None or len(book.clicks) < FEWEST_OUTCOMES:
        return None
    slots = board.learner_state.capacity
    converted = [t * slots + slot for (t, slot), click in book.clicks.items() if click.worth > 0.0]
    places: Ints = np.arange(impressions.forgotten + 1, impressions.last + 1) % impressions.places
    places = places[impressions.state[places] == DONE]
    if len(converted) < FEWEST_OUTCOMES or places.size < FEWEST_LISTS:
        return None
    return AnsweredLists(
        impressions.round[places],
        impressions.examined[places],
        impressions.ranking[places],
        impressions.clicks[places],
        np.array(converted, np.int64),
        slots,
        board.learner_state.names,
    )


def few_outcomes(lists: AnsweredLists | None) -> list[FewOutcomesOut]:
    """Find the items with too few outcomes, those with the most excess clicks first. O(clicks log clicks)."""
    tally = None if lists is None else _tally(lists)
    if lists is None or tally is None:
        return []
    raised, due_clicks = _raised(tally)
    stretches = list(_stretches(raised))
    if not stretches:
        return []
    due, doubt = _due(tally, raised)
    which = [one.k for one in stretches]
    shares = fewer_than_due(_counts(tally, due, stretches), _usual(tally, due, raised), doubt[which])
    each = lists.round.size / PARTS
    rows = [
        FewOutcomesOut(
            item=lists.names[int(tally.slots[one.k])],
            start=int(lists.round[int(np.ceil(one.first * each))]),
            end=int(lists.round[int(np.ceil(one.end * each)) - 1]),
            clicks=int(tally.clicks[one.blocks, one.k].sum()),
            expected_clicks=round(float(due_clicks[one.first : one.end, one.k].sum()), 1),
            outcomes=int(tally.converted[one.blocks, one.k].sum()),
            expected_outcomes=round(float(due[one.blocks, one.k].sum()), 1),
        )
        for one, share in zip(stretches, shares.tolist(), strict=True)
        if share <= SURE
    ]
    return sorted(rows, key=lambda row: row.expected_clicks - row.clicks)


def _tally(lists: AnsweredLists) -> _Tally | None:
    """Count by block and item; None if no item has enough clicks."""
    n, length = lists.ranking.shape
    at, place = np.nonzero(lists.clicks & (np.arange(length) < lists.examined[:, None]))
    slot = lists.ranking[at, place]
    seen, number = np.unique(slot, return_inverse=True)
    often = np.flatnonzero(np.bincount(number) >= FEWEST_CLICKS)
    if not often.size:
        return None
    rank: Ints = np.full(seen.size, -1, np.int64)
    rank[often] = np.arange(often.size)
    kept = rank[number] >= 0
    at, slot, number = at[kept], slot[kept], rank[number[kept]]
    cell = at * BLOCKS // n * often.size + number
    converted = np.isin(lists.round[at] * lists.slots + slot, lists.converted)
    tables = [
        np.bincount(of, minlength=BLOCKS * often.size).reshape(BLOCKS, -1).astype(np.float64)
        for of in (cell, cell[converted])
    ]
    return _Tally(seen[often], *tables)


def _in_parts(counts: Floats) -> Floats:
    """Sum the counts of blocks to those of parts."""
    summed: Floats = counts.reshape(PARTS, BLOCKS // PARTS, -1).sum(axis=1)
    return summed


def _prior(n: Floats, got: Floats) -> Floats:
    """Fit the prior common to all items; returns pseudo-counts of successes and of trials."""
    prior = np.ones(2)
    fit_prior(n, got, prior)
    return np.array([prior[0], prior.sum()])


def _raised(tally: _Tally) -> tuple[Bools, Floats]:
    """In which parts each item is raised, and the usual number of clicks there, [PARTS, K] each."""
    clicks = _in_parts(tally.clicks)
    due: Floats = np.broadcast_to(np.median(clicks, axis=0), clicks.shape)
    raised: Bools = clicks - due > RAISED * np.sqrt(np.maximum(due, 1.0))
    return raised, due


def _stretches(raised: Bools) -> list[_Stretch]:
    """The runs of consecutive raised parts, of every item."""
    edges = np.diff(np.pad(raised, ((1, 1), (0, 0))).astype(np.int8), axis=0).T
    begins, ends = np.argwhere(edges == 1), np.argwhere(edges == -1)
    return [_Stretch(int(k), int(first), int(end)) for (k, first), (_, end) in zip(begins, ends, strict=True)]


def _due(tally: _Tally, raised: Bools) -> tuple[Floats, Floats]:
    """How many clicks of each block and item should have outcomes by now, if they were like all others.

    Also returns the uncertainty of that by item, as the correlation that it causes between its clicks.
    """
    others = np.repeat(~raised, BLOCKS // PARTS, axis=0)
    clicks, converted = tally.clicks * others, tally.converted * others
    matured = np.ones(BLOCKS)  # rate of outcomes of a block's clicks so far, relative to the usual rate
    share, below, full = np.zeros(tally.slots.size), 1.0, np.zeros(tally.slots.size)
    for _ in range(_PASSES):
        full = matured @ clicks
        above, below = _prior(full, converted.sum(axis=0))
        share = (above + converted.sum(axis=0)) / (below + full)
        matured = converted.sum(axis=1) / (clicks @ share + 1.0)  # biased slightly low rather than high
    due: Floats = tally.clicks * np.minimum(matured[:, None] * share, 1.0)
    return due, 1.0 / (below + full + 1.0)


def _counts(tally: _Tally, due: Floats, stretches: list[_Stretch]) -> Counts:
    """The counts of some stretches."""
    sums = [[table[one.blocks, one.k].sum() for one in stretches] for table in (tally.converted, tally.clicks, due)]
    return Counts(*map(np.array, sums))


def _usual(tally: _Tally, due: Floats, raised: Bools) -> Counts:
    """The counts of parts in which items are not raised, for the items with the most clicks."""
    most = np.argsort(-tally.clicks.sum(axis=0), kind="stable")[:_TRIED]
    kept = ~raised[:, most]
    return Counts(*[_in_parts(table)[:, most][kept] for table in (tally.converted, tally.clicks, due)])
