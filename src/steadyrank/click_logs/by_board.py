"""A log by board: each with numbers of its own for its items and clients, so that it costs what it holds.

What a reader should know of how a log was read: what it cannot say because of what it holds.
"""

import itertools
from typing import NamedTuple

import numpy as np

from ..core.arrays import Ints
from .click_log import ClickLog
from .looks import Impressions, ItemNumbers

FEW = 30  # clicks in a log of which anything can be said


def notes_of(log: ClickLog) -> list[str]:
    """Sentences."""
    told = list(log.notes)
    shown = log.impressions
    clicks = int(shown.bits.sum())
    if shown.n and shown.item.size == clicks and shown.item.size == shown.n and _alone(log):
        told.append(
            "Every row is a click, and nothing says what else was shown: how often items were seen and not clicked "
            "cannot be known, so neither can click rates, clients who never click, or a ranking by rate."
        )
    elif clicks == shown.n and shown.n and not _unclicked(log):
        told.append(
            "Every list has a click: lists without one seem to be missing. Rates are higher than they were, and who "
            "never clicks cannot be seen."
        )
    elif clicks < FEW:
        told.append(f"The log has {clicks:,} clicks: too few for anything but a crude attack to show.")
    if log.repeats:
        told.append(f"{log.repeats:,} impressions show an item twice: each place of it is a look of its own.")
    if log.columns.items is None and log.columns.impression is None:
        told.append(
            "No column says which rows were shown together, so each is an impression of its own; name it with "
            "--impression if there is one."
        )
    if len(log.boards) > 1:
        sizes = np.bincount(log.board, minlength=len(log.boards))
        if np.median(sizes) < FEW:
            told.append(
                f"Half of the {len(log.boards):,} boards have fewer than {int(np.median(sizes)) + 1:,} impressions: "
                "nothing can be found on those alone. --board '' audits all of them as one."
            )
    return told


def _alone(log: ClickLog) -> bool:
    """Whether all lists have one place."""
    return bool((log.impressions.lengths() == 1).all())


def _unclicked(log: ClickLog) -> bool:
    """Whether there is a list without a click."""
    return bool((log.impressions.clicks() == 0).any())


class BoardLog(NamedTuple):
    """The impressions of one board."""

    board: int
    chosen: Ints  # their places in the log
    impressions: Impressions
    items: Ints  # [K] the log's numbers of its items
    client: ItemNumbers | None
    clients: Ints  # the log's numbers of its clients


def by_board(log: ClickLog) -> list[BoardLog]:
    """The log by board, in order of first sight."""
    if len(log.boards) == 1:
        items, clients = np.arange(len(log.items)), np.arange(len(log.clients))
        return [BoardLog(0, np.arange(log.impressions.n), log.impressions, items, log.client, clients)]
    order = np.argsort(log.board, kind="stable")
    edges = np.searchsorted(log.board[order], np.arange(len(log.boards) + 1))
    return [_of_board(log, i, order[start:end]) for i, (start, end) in enumerate(itertools.pairwise(edges.tolist()))]


def _of_board(log: ClickLog, board: int, chosen: Ints) -> BoardLog:
    impressions = log.impressions.only(chosen)
    items, item = np.unique(impressions.item, return_inverse=True)
    impressions = impressions._replace(item=item.astype(np.int32), n_items=items.size)
    if log.client is None:
        return BoardLog(board, chosen, impressions, items.astype(np.int64), None, np.zeros(0, np.int64))
    client = log.client[chosen]
    known = np.unique(client[client >= 0])
    numbers = np.where(client >= 0, np.searchsorted(known, client), -1).astype(np.int32)
    return BoardLog(board, chosen, impressions, items.astype(np.int64), numbers, known.astype(np.int64))
