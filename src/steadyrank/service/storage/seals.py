"""Secrets by which boards sign impression ids, where they are no longer the first one.

A board begins with one secret, which also makes hashes of clients and stays for that. When the one that signs is
rotated, the former ones are kept until the ids that they signed have expired.
"""

import secrets
from collections.abc import Sequence

from .sql import Database
from .store import Seal


def read_seals(db: Database, board: int) -> list[Seal]:
    """The secrets of a board whose signing secret was rotated, the one that signs first; none if it never was."""
    rows = db.read("SELECT secret, until FROM seals WHERE board = ? ORDER BY number DESC", board)
    return [Seal(bytes(secret), until) for secret, until in rows]


def read_all_seals(db: Database) -> dict[int, list[Seal]]:
    """The same of every board that has any."""
    found: dict[int, list[Seal]] = {}
    for board, secret, until in db.read("SELECT board, secret, until FROM seals ORDER BY number DESC"):
        found.setdefault(board, []).append(Seal(bytes(secret), until))
    return found


def rotate_seal(db: Database, board: int, at: float, until: float) -> bool:
    """A new secret signs from now on, those before are good until a time at most; False if there is no such board.

    To be called inside a transaction in which no other one writes.
    """
    first = db.read("SELECT secret FROM boards WHERE id = ?", board)
    if not first:
        return False
    known = read_seals(db, board) or [Seal(bytes(first[0][0]), None)]
    kept = [seal for seal in known if seal.until is None or seal.until > at]
    ended = [seal._replace(until=until if seal.until is None else min(seal.until, until)) for seal in kept]
    write_seals(db, board, [Seal(secrets.token_bytes(32), None), *ended])
    return True


def write_seals(db: Database, board: int, seals: Sequence[Seal]) -> None:
    """Put secrets, the one that signs first, in place of those of a board; inside a transaction."""
    db.write("DELETE FROM seals WHERE board = ?", board)
    for number, seal in enumerate(reversed(seals)):
        db.write("INSERT INTO seals (board, number, secret, until) VALUES (?, ?, ?, ?)", board, number, *seal)
