"""Which number a client or a cohort has on a board: given out in the transaction that writes the event."""

import collections
import itertools
from collections.abc import Iterable, Sequence

from .sql import Database, insert, parts
from .store import NewEntry, Numbers

NOBODY = -1
_SEEN = "ON CONFLICT (board, hash) DO UPDATE SET visits = clients.visits + excluded.visits, at = excluded.at"


def number_clients(db: Database, rows: Sequence[NewEntry], at: float) -> list[Numbers]:
    """The numbers of each row's client and cohorts, new ones if they have none yet; `NOBODY` without a client.

    To be called while no other transaction writes events. Nothing is remembered between calls: a client that another
    worker has forgotten meanwhile would come back under its old number.
    """
    boards: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        if row.sender is not None:
            boards.setdefault(row.board, []).append(place)
    numbers: list[Numbers] = [()] * len(rows)
    for board, places in boards.items():
        for place, number in zip(places, _of_board(db, board, [rows[i] for i in places], at), strict=True):
            numbers[place] = number
    return numbers


def _of_board(db: Database, board: int, rows: Sequence[NewEntry], at: float) -> Iterable[Numbers]:
    found = db.read("SELECT clients, forgot FROM boards WHERE id = ?", board)
    given, forgot = found[0] if found else (0, float("inf"))  # a board that is gone has no clients
    senders = [row.sender for row in rows if row.sender is not None]
    visits: collections.Counter[int] = collections.Counter()
    for sender in senders:
        if sender.since >= forgot:
            for who in filter(None, sender.hashes):
                visits[who] += sender.visits
    known = _known(db, board, list(visits))
    fresh = [client for client in visits if client not in known]
    known |= zip(fresh, itertools.count(int(given)), strict=False)
    insert(db, "clients", [(board, client, known[client], n, at) for client, n in visits.items()], _SEEN)
    if fresh:
        db.write("UPDATE boards SET clients = ? WHERE id = ?", int(given) + len(fresh), board)
    nobody: dict[int, int] = {}
    return (
        tuple((known if sender.since >= forgot else nobody).get(who, NOBODY) for who in sender.hashes)
        for sender in senders
    )


def _known(db: Database, board: int, clients: Sequence[int]) -> dict[int, int]:
    known: dict[int, int] = {}
    for part in parts(clients):
        places = ", ".join("?" * len(part))
        query = f"SELECT hash, number FROM clients WHERE board = ? AND hash IN ({places})"
        known |= {row[0]: row[1] for row in db.read(query, board, *part)}
    return known


def forget(db: Database, board: int, clients: Sequence[int], at: float) -> list[tuple[int, int]]:
    """Delete which numbers clients have; number and visits of each that had one.

    What they did before the time `at` and is not written yet will be nobody's.
    """
    gone: list[tuple[int, int]] = []
    for part in parts(clients):
        places = ", ".join("?" * len(part))
        query = f"DELETE FROM clients WHERE board = ? AND hash IN ({places}) RETURNING number, visits"
        gone += [(row[0], row[1]) for row in db.write(query, board, *part)]
    db.write("UPDATE boards SET forgot = ? WHERE id = ? AND forgot < ?", at, board, at)
    return gone
