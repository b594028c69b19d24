"""What is on the disk: the log of events, snapshots, boards, keys and clients. One definition for every database."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from .sql import Database, connect, insert

FORMAT = 2
_SLICE = 20_000  # events deleted at a time

# Format 1 had no table of clients, and no shortened logs.
_CLIENTS = """
CREATE TABLE clients (board WHOLE NOT NULL, client WHOLE NOT NULL, key WHOLE NOT NULL, at REAL NOT NULL);
CREATE INDEX clients_by_client ON clients (board, client);
CREATE INDEX clients_by_time ON clients (at)
"""
_TABLES = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE head (one WHOLE PRIMARY KEY CHECK (one = 1), seq WHOLE NOT NULL);
CREATE TABLE boards (id WHOLE PRIMARY KEY, name TEXT NOT NULL UNIQUE, secret BYTES NOT NULL,
    edge WHOLE NOT NULL);
CREATE TABLE events (seq WHOLE PRIMARY KEY, board WHOLE NOT NULL, at REAL NOT NULL, body BYTES NOT NULL);
CREATE INDEX events_by_board ON events (board, seq);
CREATE TABLE snapshots (board WHOLE NOT NULL, seq WHOLE NOT NULL, body BYTES NOT NULL, PRIMARY KEY (board, seq));
CREATE TABLE keys (id TEXT PRIMARY KEY, hash BYTES NOT NULL, scopes TEXT NOT NULL, board TEXT,
    created REAL NOT NULL, revoked REAL);
{_CLIENTS.strip()};
INSERT INTO head VALUES (1, 0)
"""
_EDGE = "ALTER TABLE boards ADD COLUMN edge WHOLE NOT NULL DEFAULT 0"
_UPGRADES = {1: f"{_CLIENTS};{_EDGE}"}  # from this format to the next


class Entry(NamedTuple):
    """A row of the log."""

    seq: int
    board: int
    at: float  # seconds since 1970, for people and retention; no fold reads it
    body: bytes


class Key(NamedTuple):
    """An API key as it is stored: only a hash of it."""

    id: str
    hash: bytes
    scopes: str
    board: str | None
    created: float
    revoked: float | None


class Store:
    """A connection to a store; makes its tables, or brings those of an older version up to date."""

    def __init__(self, url: str) -> None:
        self.db: Database = connect(url)
        try:
            self._prepare()
        except BaseException:
            self.db.close()
            raise

    def _run(self, script: str) -> None:
        for kind, name in self.db.kinds.items():
            script = script.replace(kind, name)
        for statement in script.split(";"):
            self.db.write(statement)

    def _prepare(self) -> None:
        format_ = self._format()
        if format_ == FORMAT:
            return
        with self.db.transaction():
            self.db.take_turns()
            format_ = self._format()
            if format_ is None:
                self._run(_TABLES)
                self.db.write("INSERT INTO meta VALUES ('format', ?)", str(FORMAT))
                return
            if format_ > FORMAT:
                raise ValueError(f"the store has format {format_}, this version knows {FORMAT}: upgrade steadyrank")
            for old in range(format_, FORMAT):
                self._run(_UPGRADES[old])
            self.db.write("UPDATE meta SET value = ? WHERE name = 'format'", str(FORMAT))

    def _format(self) -> int | None:
        if not self.db.read(self.db.tables_named, "meta"):
            return None
        return int(self.db.read("SELECT value FROM meta WHERE name = 'format'")[0][0])

    def close(self) -> None:
        """End the connection."""
        self.db.close()

    def head(self) -> int:
        """The number of the latest event."""
        return int(self.db.read("SELECT seq FROM head")[0][0])

    def append(self, rows: Sequence[tuple[int, bytes]], at: float) -> int:
        """Write (board, event) pairs in one go; the number of the first one. On disk when it returns.

        The row of `head` is locked until the end of the transaction, so numbers are given out in the order in which
        transactions end: who has seen event n has seen all before it.
        """
        with self.db.transaction():
            last = int(self.db.write("UPDATE head SET seq = seq + ? RETURNING seq", len(rows))[0][0])
            first = last - len(rows) + 1
            insert(self.db, "events", [(first + i, board, at, body) for i, (board, body) in enumerate(rows)])
        return first

    def append_if(self, board: int, edge: int, event: bytes, at: float) -> bool:
        """Write an event, unless the log of its board was shortened beyond this edge or is gone; whether it did."""
        with self.db.transaction():
            seq = int(self.db.write("UPDATE head SET seq = seq + 0 RETURNING seq")[0][0]) + 1  # locks it
            if not self.db.read("SELECT 1 FROM boards WHERE id = ? AND edge = ?", board, edge):
                return False
            self.db.write("UPDATE head SET seq = ?", seq)
            self.db.write("INSERT INTO events VALUES (?, ?, ?, ?)", seq, board, at, event)
        return True

    def entries(self, after: int, upto: int, board: int | None = None, most: int = 10_000) -> Iterator[Entry]:
        """Events after one number and up to another, in order."""
        only = "" if board is None else f"AND board = {board:d} "
        while after < upto:
            rows = self.db.read(
                "SELECT seq, board, at, body FROM events "
                f"WHERE seq > ? AND seq <= ? {only}ORDER BY seq LIMIT {most:d}",
                after,
                upto,
            )
            for row in rows:
                yield Entry(*row)
            if len(rows) < most:
                return
            after = rows[-1][0]

    def shortened(self, board: int) -> int:
        """Up to which event the log of a board became a snapshot; 0 if it is whole."""
        rows = self.db.read("SELECT edge FROM boards WHERE id = ?", board)
        return int(rows[0][0]) if rows else 0

    def edges(self) -> dict[int, int]:
        """Up to which event the log of each board became a snapshot."""
        return {row[0]: row[1] for row in self.db.read("SELECT id, edge FROM boards")}

    def cut_after(self, seq: int) -> bool:
        """Whether events after this one became a snapshot."""
        return bool(self.db.read("SELECT 1 FROM boards WHERE edge > ?", seq))

    def boards(self) -> dict[int, tuple[str, bytes]]:
        """Name and secret of every board by its number."""
        return {row[0]: (row[1], bytes(row[2])) for row in self.db.read("SELECT id, name, secret FROM boards")}

    def create(self, name: str, event: bytes, at: float) -> int | None:
        """A new board and its first event; its number, or None if the name is taken."""
        with self.db.transaction():
            seq = int(self.db.write("UPDATE head SET seq = seq + 0 RETURNING seq")[0][0]) + 1  # locks it
            if self.db.read("SELECT 1 FROM boards WHERE name = ?", name):
                return None
            self.db.write("UPDATE head SET seq = ?", seq)
            self.db.write("INSERT INTO boards VALUES (?, ?, ?, 0)", seq, name, secrets.token_bytes(32))
            self.db.write("INSERT INTO events VALUES (?, ?, ?, ?)", seq, seq, at, event)
        return seq

    def bring_in(
        self, name: str, secret: bytes | None, base: bytes | None, rows: Sequence[tuple[float, bytes]]
    ) -> int:
        """A board from elsewhere, with its log or with a snapshot and what came after; its number."""
        with self.db.transaction():
            extra = 0 if base is None else 1  # the snapshot stands for the beginning
            last = int(self.db.write("UPDATE head SET seq = seq + ? RETURNING seq", len(rows) + extra)[0][0])
            number = last - len(rows) - extra + 1
            row = number, name, secret or secrets.token_bytes(32), 0 if base is None else number
            self.db.write("INSERT INTO boards VALUES (?, ?, ?, ?)", *row)
            if base is not None:
                self.db.write("INSERT INTO snapshots VALUES (?, ?, ?)", number, number, base)
            events = [(number + extra + i, number, at, body) for i, (at, body) in enumerate(rows)]
            insert(self.db, "events", events)
        return number

    def delete(self, board: int, event: bytes, at: float) -> int:
        """End a board; one event stays, for the other workers: its number, up to which `wipe` deletes the log."""
        with self.db.transaction():
            seq = int(self.db.write("UPDATE head SET seq = seq + 1 RETURNING seq")[0][0])
            self.db.write("DELETE FROM boards WHERE id = ?", board)
            self.db.write("INSERT INTO events VALUES (?, ?, ?, ?)", seq, board, at, event)
        return seq

    def wipe(self, board: int, seq: int) -> None:
        """Delete the log before an event, the snapshots and clients of a board that was deleted."""
        self._cut(board, seq - 1)
        for table in ("snapshots", "clients"):
            with self.db.transaction():
                self.db.write(f"DELETE FROM {table} WHERE board = ?", board)

    def snapshots(self, board: int) -> list[int]:
        """Up to which event each snapshot of a board goes, the latest first."""
        return [row[0] for row in self.db.read("SELECT seq FROM snapshots WHERE board = ? ORDER BY seq DESC", board)]

    def snapshot(self, board: int, seq: int) -> bytes | None:
        """A snapshot."""
        rows = self.db.read("SELECT body FROM snapshots WHERE board = ? AND seq = ?", board, seq)
        return bytes(rows[0][0]) if rows else None

    def save(self, board: int, seq: int, body: bytes, keep: int = 2) -> bytes:
        """Keep a snapshot, and of older ones the latest and the oldest; what is kept, the first one of this event."""
        with self.db.transaction():
            if not self.db.read("SELECT 1 FROM boards WHERE id = ?", board):
                return body  # deleted meanwhile
            self.db.write("INSERT INTO snapshots VALUES (?, ?, ?) ON CONFLICT DO NOTHING", board, seq, body)
            for old in self.snapshots(board)[keep:-1]:
                self.db.write("DELETE FROM snapshots WHERE board = ? AND seq = ?", board, old)
        return self.snapshot(board, seq) or body

    def replace(self, board: int, seq: int, body: bytes) -> None:
        """Put a snapshot in the place of one that cannot be read."""
        with self.db.transaction():
            self.db.write("UPDATE snapshots SET body = ? WHERE board = ? AND seq = ?", body, board, seq)

    def edge(self, board: int, before: float, most: int) -> int:
        """The latest event that is older than a time, or has `most` others of its board after it; 0 if none is."""
        old = "SELECT COALESCE(MAX(seq), 0) FROM events WHERE board = ? AND at < ?"
        far = f"SELECT seq FROM events WHERE board = ? ORDER BY seq DESC LIMIT 1 OFFSET {most:d}"
        return max([0, *(int(row[0]) for row in self.db.read(old, board, before) + self.db.read(far, board))])

    def forget(self, board: int, since: int, edge: int, body: bytes, holds: Callable[[], bool]) -> int:
        """Put a snapshot in place of the events up to an edge; how many those were.

        0 if another was faster, or if what the snapshot was made by no longer `holds`; nothing is written meanwhile.
        """
        put = "INSERT INTO snapshots VALUES (?, ?, ?) ON CONFLICT (board, seq) DO UPDATE SET body = excluded.body"
        with self.db.transaction():
            self.db.write("UPDATE head SET seq = seq + 0")  # locks it
            moved = holds() and self.db.write(
                "UPDATE boards SET edge = ? WHERE id = ? AND edge = ? RETURNING id", edge, board, since
            )
            if not moved:
                return 0
            self.db.write(put, board, edge, body)
            self.db.write("DELETE FROM snapshots WHERE board = ? AND seq < ?", board, edge)
        return self._cut(board, edge)

    def _cut(self, board: int, edge: int) -> int:
        """Delete the events of a board up to an edge, in slices of which none takes long; how many."""
        gone = 0
        for last in self._steps(board, edge):
            with self.db.transaction():
                gone += len(self.db.write("DELETE FROM events WHERE board = ? AND seq <= ? RETURNING 1", board, last))
        return gone

    def _steps(self, board: int, edge: int) -> Iterator[int]:
        """Every so manieth event of a board up to an edge, and the edge."""
        while rows := self.db.read(
            f"SELECT seq FROM events WHERE board = ? AND seq <= ? ORDER BY seq LIMIT 1 OFFSET {_SLICE:d}", board, edge
        ):
            yield int(rows[0][0])
        yield edge

    def sweep(self, before: float) -> None:
        """Delete what is left of boards that were deleted before a time."""
        with self.db.transaction():
            self.db.write("DELETE FROM events WHERE at < ? AND board NOT IN (SELECT id FROM boards)", before)
            for table in ("snapshots", "clients"):
                self.db.write(f"DELETE FROM {table} WHERE board NOT IN (SELECT id FROM boards)")

    def api_keys(self) -> list[Key]:
        """Every API key, revoked ones too."""
        rows = self.db.read("SELECT id, hash, scopes, board, created, revoked FROM keys ORDER BY created, id")
        return [Key(row[0], bytes(row[1]), *row[2:]) for row in rows]

    def add_key(self, key: Key) -> None:
        """Keep an API key."""
        with self.db.transaction():
            self.db.write("INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?)", *key)

    def revoke(self, key: str, at: float) -> bool:
        """End an API key; whether there was one that worked."""
        with self.db.transaction():
            return bool(
                self.db.write("UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL RETURNING id", at, key)
            )

    def note_clients(self, rows: Sequence[tuple[int, int, int, float]]) -> None:
        """Which client was shown an impression: (board, hash of the client, key of the impression, time)."""
        with self.db.transaction():
            known = self.boards()
            insert(self.db, "clients", [row for row in rows if row[0] in known])

    def forget_client(self, board: int, client: int) -> int:
        """Delete everything kept of a client; how many impressions."""
        with self.db.transaction():
            rows = self.db.write("DELETE FROM clients WHERE board = ? AND client = ? RETURNING key", board, client)
        return len(rows)

    def forget_clients(self, board: int, before: float) -> None:
        """Delete clients last seen before a time."""
        with self.db.transaction():
            self.db.write("DELETE FROM clients WHERE board = ? AND at < ?", board, before)
