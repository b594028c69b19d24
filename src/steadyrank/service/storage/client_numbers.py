"""Which number a client or a cohort has on a board: given out in the transaction that writes the event."""

import collections
import itertools
import math
from collections.abc import Iterable, Sequence

from .sql import Database, insert, parts
from .store import NewEntry, Numbers

NOBODY = -1
_AHEAD = 60.0  # seconds by which clocks may differ
_CLIENT_SEEN = "ON CONFLICT (board, hash) DO UPDATE SET visits = clients.visits + excluded.visits, at = excluded.at"


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
        for place, number in zip(places, _number_clients_of_board(db, board, [rows[i] for i in places], at), strict=True):
            numbers[place] = number
    return numbers


def _number_clients_of_board(db: Database, board: int, rows: Sequence[NewEntry], at: float) -> Iterable[Numbers]:
    columns = db.read("SELECT clients, forgotten, forgot FROM boards WHERE id = ?", board)
    given, forgotten, forgot = columns[0] if columns else (0, math.inf, 0.0)  # a board that is gone has no clients
    if forgot > at + _AHEAD:
        forgot = 0.0  # by a clock that was wrong
    senders = [row.sender for row in rows if row.sender is not None]
    named = [sender.since >= forgotten and (sender.time is None or sender.time >= forgot) for sender in senders]
    visits: collections.Counter[int] = collections.Counter()
    for sender in itertools.compress(senders, named):
        for who in filter(None, sender.hashes):
            visits[who] += sender.visits
    known = _known_clients(db, board, list(visits))
    fresh = [client for client in visits if client not in known]
    known |= zip(fresh, itertools.count(int(given)), strict=False)
    insert(db, "clients", [(board, client, known[client], n, at) for client, n in visits.items()], _CLIENT_SEEN)
    if fresh:
        db.write("UPDATE boards SET clients = ? WHERE id = ?", int(given) + len(fresh), board)
    nobody: dict[int, int] = {}
    return (
        tuple((known if has_name else nobody).get(who, NOBODY) for who in sender.hashes)
        for sender, has_name in zip(senders, named, strict=True)
    )


def _known_clients(db: Database, board: int, clients: Sequence[int]) -> dict[int, int]:
    known: dict[int, int] = {}
    for part in parts(clients):
        places = ", ".join("?" * len(part))
        query = f"SELECT hash, number FROM clients WHERE board = ? AND hash IN ({places})"
        known |= {row[0]: row[1] for row in db.read(query, board, *part)}
    return known


def forget_clients(db: Database, board: int, clients: Sequence[int]) -> list[tuple[int, int]]:
    """Delete which numbers clients have; number and visits of each that had one."""
    gone: list[tuple[int, int]] = []
    for part in parts(clients):
        places = ", ".join("?" * len(part))
        query = f"DELETE FROM clients WHERE board = ? AND hash IN ({places}) RETURNING number, visits"
        gone += [(row[0], row[1]) for row in db.write(query, board, *part)]
    return gone


def forget_unwritten(db: Database, board: int, seq: int, at: float) -> None:
    """What is not written yet, and was put by a worker that had not read the event `seq`, will be nobody's.

    By the order of the log and not by a clock, which may be wrong. Only what is reported afterwards, with the time at
    which it happened, is compared with the time `at`.
    """
    db.write("UPDATE boards SET forgotten = ?, forgot = ? WHERE id = ?", seq, at, board)


def cap_visits(db: Database, board: int, now: float) -> None:
    """Let clients that were last seen in the future, by a clock that was wrong, be last seen now."""
    late = now + _AHEAD
    if db.read("SELECT 1 FROM clients WHERE board = ? AND at > ? LIMIT 1", board, late):
        with db.transaction():
            db.write("UPDATE clients SET at = ? WHERE board = ? AND at > ?", now, board, late)
