"""A log by board: each with numbers of its own for its items and clients, so that it costs what it holds."""

import itertools
from typing import NamedTuple

import numpy as np

from ...arrays import Ints
from ..impressions import Impressions, Slots
from .click_logs import ClickLog


class BoardLog(NamedTuple):
    """The impressions of one board."""

    board: int
    chosen: Ints  # their places in the log
    impressions: Impressions
    items: Ints  # [K] the log's numbers of its items
    client: Slots | None
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
