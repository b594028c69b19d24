"""Items whose clicks rise while what comes of them does not, in the lists that a board remembers.

The answered lists are cut into BLOCKS of age, and PARTS of a few blocks. An item has risen in a part where it was
clicked by RAISED standard deviations more often than in the median part. What is due of these clicks is what the
item's other clicks lead to, times what clicks of the same blocks lead to on all other items against what is usual for
those: so clicks that are too young for their outcomes are held against no item. Whether less came than was due is
asked as the audit asks it (`count_tests.fewer_than_due`).
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
FEWEST_LISTS = 400  # ten a block
FEWEST_OUTCOMES = 20
FEWEST_CLICKS = 20  # on an item
RAISED = 4.0  # standard deviations: only what was clicked clearly more is asked about
SURE = 0.05  # share of the items told of that may be honest (Benjamini and Hochberg 1995)
_TRIED = 100  # items, those clicked most, that say how far honest ones differ
_PASSES = 3  # of learning what is usual of items and of blocks, each from the other


class FewOutcomesOut(Schema):
    """An item that was clicked more than before from round `start` to `end`, while less came of its clicks.

    `clicks` where `expected_clicks` are usual in as many lists; `outcomes`: how many of them led to
    something, where `expected_outcomes` were to be expected of as many clicks.
    """

    item: str
    start: int
    end: int
    clicks: int
    expected_clicks: float
    outcomes: int
    expected_outcomes: float


class AnsweredLists(NamedTuple):
    """Copied from a board, so that another thread may look at them: its answered lists by age, the oldest first."""

    round: Ints  # [n]
    examined: Ints  # [n]
    ranking: Ints  # [n, places]
    clicks: Bools  # [n, places]
    came: Ints  # rounds times `slots` plus the slot, of clicks of which something came
    slots: int
    names: list[str]  # of items by slot: the board's own, which only ever grows


class _Tally(NamedTuple):
    """Of each block and item clicked often enough: clicks, and those of which something came."""

    slots: Ints  # [K]
    clicks: Floats  # [BLOCKS, K]
    bought: Floats


class _Stretch(NamedTuple):
    """Parts in a row in which an item has risen: from `first` to before `end`."""

    k: int
    first: int
    end: int

    @property
    def blocks(self) -> slice:
        """The same in blocks."""
        each = BLOCKS // PARTS
        return slice(self.first * each, self.end * each)


def answered_lists(board: Board) -> AnsweredLists | None:
    """What is known of a board's answered lists; None where too little came of clicks to say anything."""
    impressions, book = board.impressions, board.learner_state.outcomes
    if book is None or len(book.clicks) < FEWEST_OUTCOMES:
        return None
    slots = board.learner_state.capacity
    came = [t * slots + slot for (t, slot), click in book.clicks.items() if click.worth > 0.0]
    places: Ints = np.arange(impressions.forgotten + 1, impressions.last + 1) % impressions.places
    places = places[impressions.state[places] == DONE]
    if len(came) < FEWEST_OUTCOMES or places.size < FEWEST_LISTS:
        return None
    return AnsweredLists(
        impressions.round[places],
        impressions.examined[places],
        impressions.ranking[places],
        impressions.clicks[places],
        np.array(came, np.int64),
        slots,
        board.learner_state.names,
    )


def few_outcomes(lists: AnsweredLists | None) -> list[FewOutcomesOut]:
    """The items that are told of, the most clicks too many first. O(clicks log clicks)."""
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
            outcomes=int(tally.bought[one.blocks, one.k].sum()),
            expected_outcomes=round(float(due[one.blocks, one.k].sum()), 1),
        )
        for one, share in zip(stretches, shares.tolist(), strict=True)
        if share <= SURE
    ]
    return sorted(rows, key=lambda row: row.expected_clicks - row.clicks)


def _tally(lists: AnsweredLists) -> _Tally | None:
    """Counts by block and item; None where no item was clicked often enough."""
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
    bought = np.isin(lists.round[at] * lists.slots + slot, lists.came)
    tables = [
        np.bincount(of, minlength=BLOCKS * often.size).reshape(BLOCKS, -1).astype(np.float64)
        for of in (cell, cell[bought])
    ]
    return _Tally(seen[often], *tables)


def _in_parts(counts: Floats) -> Floats:
    """Counts of blocks, summed up to those of parts."""
    summed: Floats = counts.reshape(PARTS, BLOCKS // PARTS, -1).sum(axis=1)
    return summed


def _prior(n: Floats, got: Floats) -> Floats:
    """The prior that items have in common: pseudo-counts of what is got, and of all."""
    prior = np.ones(2)
    fit_prior(n, got, prior)
    return np.array([prior[0], prior.sum()])


def _raised(tally: _Tally) -> tuple[Bools, Floats]:
    """In which parts each item has risen, and how many clicks are usual there, [PARTS, K] each."""
    clicks = _in_parts(tally.clicks)
    due: Floats = np.broadcast_to(np.median(clicks, axis=0), clicks.shape)
    raised: Bools = clicks - due > RAISED * np.sqrt(np.maximum(due, 1.0))
    return raised, due


def _stretches(raised: Bools) -> list[_Stretch]:
    """Parts in a row in which an item has risen, one stretch each."""
    edges = np.diff(np.pad(raised, ((1, 1), (0, 0))).astype(np.int8), axis=0).T
    begins, ends = np.argwhere(edges == 1), np.argwhere(edges == -1)
    return [_Stretch(int(k), int(first), int(end)) for (k, first), (_, end) in zip(begins, ends, strict=True)]


def _due(tally: _Tally, raised: Bools) -> tuple[Floats, Floats]:
    """How many of the clicks of each block and item would have led to something by now, were they as all others.

    And what is not known of that, by item: the correlation that it gives to its clicks.
    """
    others = np.repeat(~raised, BLOCKS // PARTS, axis=0)
    clicks, bought = tally.clicks * others, tally.bought * others
    matured = np.ones(BLOCKS)  # what clicks of a block lead to by now, against what is usual
    share, below, full = np.zeros(tally.slots.size), 1.0, np.zeros(tally.slots.size)
    for _ in range(_PASSES):
        full = matured @ clicks
        above, below = _prior(full, bought.sum(axis=0))
        share = (above + bought.sum(axis=0)) / (below + full)
        matured = bought.sum(axis=1) / (clicks @ share + 1.0)  # a little too low, rather than too high
    due: Floats = tally.clicks * np.minimum(matured[:, None] * share, 1.0)
    return due, 1.0 / (below + full + 1.0)


def _counts(tally: _Tally, due: Floats, stretches: list[_Stretch]) -> Counts:
    """What came of the clicks of some stretches."""
    sums = [[table[one.blocks, one.k].sum() for one in stretches] for table in (tally.bought, tally.clicks, due)]
    return Counts(*map(np.array, sums))


def _usual(tally: _Tally, due: Floats, raised: Bools) -> Counts:
    """What came of clicks in parts in which items have not risen, of those clicked most."""
    most = np.argsort(-tally.clicks.sum(axis=0), kind="stable")[:_TRIED]
    kept = ~raised[:, most]
    return Counts(*[_in_parts(table)[:, most][kept] for table in (tally.bought, tally.clicks, due)])
