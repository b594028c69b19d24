"""A store in SQLite or PostgreSQL: one definition of its tables and statements for both."""

import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence

from .sql import Database, connect, insert
from .store import BoardStore, Key, LogEntry

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


class SqlStore:
    """A `BoardStore`; makes its tables, or brings those of an older version up to date.

    Whatever writes events changes the row of `head` first, which locks it until the end of the transaction: so
    writers take turns, and numbers are given out in the order in which transactions end.
    """

    def __init__(self, url: str) -> None:
        self._db: Database = connect(url)
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _run(self, script: str) -> None:
        for kind, name in self._db.kinds.items():
            script = script.replace(kind, name)
        for statement in script.split(";"):
            self._db.write(statement)

    def _prepare(self) -> None:
        format_ = self._format()
        if format_ == FORMAT:
            return
        with self._db.transaction():
            self._db.take_turns()
            format_ = self._format()
            if format_ is None:
                self._run(_TABLES)
                self._db.write("INSERT INTO meta VALUES ('format', ?)", str(FORMAT))
                return
            if format_ > FORMAT:
                raise ValueError(f"the store has format {format_}, this version knows {FORMAT}: upgrade steadyrank")
            for old in range(format_, FORMAT):
                self._run(_UPGRADES[old])
            self._db.write("UPDATE meta SET value = ? WHERE name = 'format'", str(FORMAT))

    def _format(self) -> int | None:
        if not self._db.read(self._db.tables_named, "meta"):
            return None
        return int(self._db.read("SELECT value FROM meta WHERE name = 'format'")[0][0])

    def close(self) -> None:
        self._db.close()

    def reading(self) -> contextlib.AbstractContextManager[None]:
        return self._db.reading()

    def head(self) -> int:
        return int(self._db.read("SELECT seq FROM head")[0][0])

    def append(self, rows: Sequence[tuple[int, bytes]], at: float) -> int:
        with self._db.transaction():
            last = int(self._db.write("UPDATE head SET seq = seq + ? RETURNING seq", len(rows))[0][0])
            first = last - len(rows) + 1
            insert(self._db, "events", [(first + i, board, at, body) for i, (board, body) in enumerate(rows)])
        return first

    def append_if(self, board: int, edge: int, event: bytes, at: float) -> bool:
        with self._db.transaction():
            seq = int(self._db.write("UPDATE head SET seq = seq + 0 RETURNING seq")[0][0]) + 1  # locks it
            if not self._db.read("SELECT 1 FROM boards WHERE id = ? AND edge = ?", board, edge):
                return False
            self._db.write("UPDATE head SET seq = ?", seq)
            self._db.write("INSERT INTO events VALUES (?, ?, ?, ?)", seq, board, at, event)
        return True

    def entries(self, after: int, upto: int, board: int | None = None, most: int = 10_000) -> Iterator[LogEntry]:
        only = "" if board is None else f"AND board = {board:d} "
        while after < upto:
            rows = self._db.read(
                "SELECT seq, board, at, body FROM events "
                f"WHERE seq > ? AND seq <= ? {only}ORDER BY seq LIMIT {most:d}",
                after,
                upto,
            )
            for row in rows:
                yield LogEntry(*row)
            if len(rows) < most:
                return
            after = rows[-1][0]

    def shortened(self, board: int) -> int:
        rows = self._db.read("SELECT edge FROM boards WHERE id = ?", board)
        return int(rows[0][0]) if rows else 0

    def edges(self) -> dict[int, int]:
        return {row[0]: row[1] for row in self._db.read("SELECT id, edge FROM boards")}

    def cut_after(self, seq: int) -> bool:
        return bool(self._db.read("SELECT 1 FROM boards WHERE edge > ?", seq))

    def boards(self) -> dict[int, tuple[str, bytes]]:
        return {row[0]: (row[1], bytes(row[2])) for row in self._db.read("SELECT id, name, secret FROM boards")}

    def create(self, name: str, event: bytes, at: float) -> int | None:
        with self._db.transaction():
            seq = int(self._db.write("UPDATE head SET seq = seq + 0 RETURNING seq")[0][0]) + 1  # locks it
            if self._db.read("SELECT 1 FROM boards WHERE name = ?", name):
                return None
            self._db.write("UPDATE head SET seq = ?", seq)
            self._db.write("INSERT INTO boards VALUES (?, ?, ?, 0)", seq, name, secrets.token_bytes(32))
            self._db.write("INSERT INTO events VALUES (?, ?, ?, ?)", seq, seq, at, event)
        return seq

    def bring_in(
        self, name: str, secret: bytes | None, base: bytes | None, rows: Sequence[tuple[float, bytes]]
    ) -> int:
        with self._db.transaction():
            extra = 0 if base is None else 1  # the snapshot stands for the beginning
            last = int(self._db.write("UPDATE head SET seq = seq + ? RETURNING seq", len(rows) + extra)[0][0])
            number = last - len(rows) - extra + 1
            row = number, name, secret or secrets.token_bytes(32), 0 if base is None else number
            self._db.write("INSERT INTO boards VALUES (?, ?, ?, ?)", *row)
            if base is not None:
                self._db.write("INSERT INTO snapshots VALUES (?, ?, ?)", number, number, base)
            events = [(number + extra + i, number, at, body) for i, (at, body) in enumerate(rows)]
            insert(self._db, "events", events)
        return number

    def delete(self, board: int, event: bytes, at: float) -> int:
        with self._db.transaction():
            seq = int(self._db.write("UPDATE head SET seq = seq + 1 RETURNING seq")[0][0])
            self._db.write("DELETE FROM boards WHERE id = ?", board)
            self._db.write("INSERT INTO events VALUES (?, ?, ?, ?)", seq, board, at, event)
        return seq

    def wipe(self, board: int, seq: int) -> None:
        self._cut(board, seq - 1)
        for table in ("snapshots", "clients"):
            with self._db.transaction():
                self._db.write(f"DELETE FROM {table} WHERE board = ?", board)

    def snapshots(self, board: int) -> list[int]:
        return [row[0] for row in self._db.read("SELECT seq FROM snapshots WHERE board = ? ORDER BY seq DESC", board)]

    def snapshot(self, board: int, seq: int) -> bytes | None:
        rows = self._db.read("SELECT body FROM snapshots WHERE board = ? AND seq = ?", board, seq)
        return bytes(rows[0][0]) if rows else None

    def save(self, board: int, seq: int, body: bytes, keep: int = 2) -> bytes:
        with self._db.transaction():
            if not self._db.read("SELECT 1 FROM boards WHERE id = ?", board):
                return body  # deleted meanwhile
            self._db.write("INSERT INTO snapshots VALUES (?, ?, ?) ON CONFLICT DO NOTHING", board, seq, body)
            for old in self.snapshots(board)[keep:-1]:
                self._db.write("DELETE FROM snapshots WHERE board = ? AND seq = ?", board, old)
        return self.snapshot(board, seq) or body

    def replace(self, board: int, seq: int, body: bytes) -> None:
        with self._db.transaction():
            self._db.write("UPDATE snapshots SET body = ? WHERE board = ? AND seq = ?", body, board, seq)

    def edge(self, board: int, before: float, most: int) -> int:
        old = "SELECT COALESCE(MAX(seq), 0) FROM events WHERE board = ? AND at < ?"
        far = f"SELECT seq FROM events WHERE board = ? ORDER BY seq DESC LIMIT 1 OFFSET {most:d}"
        return max([0, *(int(row[0]) for row in self._db.read(old, board, before) + self._db.read(far, board))])

    def forget(self, board: int, since: int, edge: int, body: bytes, holds: Callable[[], bool]) -> int:
        put = "INSERT INTO snapshots VALUES (?, ?, ?) ON CONFLICT (board, seq) DO UPDATE SET body = excluded.body"
        with self._db.transaction():
            self._db.write("UPDATE head SET seq = seq + 0")  # locks it
            moved = holds() and self._db.write(
                "UPDATE boards SET edge = ? WHERE id = ? AND edge = ? RETURNING id", edge, board, since
            )
            if not moved:
                return 0
            self._db.write(put, board, edge, body)
            self._db.write("DELETE FROM snapshots WHERE board = ? AND seq < ?", board, edge)
        return self._cut(board, edge)

    def _cut(self, board: int, edge: int) -> int:
        """Delete the events of a board up to an edge, in slices of which none takes long; how many."""
        gone = 0
        for last in self._steps(board, edge):
            with self._db.transaction():
                gone += len(
                    self._db.write("DELETE FROM events WHERE board = ? AND seq <= ? RETURNING 1", board, last)
                )
        return gone

    def _steps(self, board: int, edge: int) -> Iterator[int]:
        """Every so manieth event of a board up to an edge, and the edge."""
        while rows := self._db.read(
            f"SELECT seq FROM events WHERE board = ? AND seq <= ? ORDER BY seq LIMIT 1 OFFSET {_SLICE:d}", board, edge
        ):
            yield int(rows[0][0])
        yield edge

    def sweep(self, before: float) -> None:
        with self._db.transaction():
            self._db.write("DELETE FROM events WHERE at < ? AND board NOT IN (SELECT id FROM boards)", before)
            for table in ("snapshots", "clients"):
                self._db.write(f"DELETE FROM {table} WHERE board NOT IN (SELECT id FROM boards)")

    def api_keys(self) -> list[Key]:
        rows = self._db.read("SELECT id, hash, scopes, board, created, revoked FROM keys ORDER BY created, id")
        return [Key(row[0], bytes(row[1]), *row[2:]) for row in rows]

    def add_key(self, key: Key) -> None:
        with self._db.transaction():
            self._db.write("INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?)", *key)

    def revoke(self, key: str, at: float) -> bool:
        with self._db.transaction():
            return bool(
                self._db.write("UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL RETURNING id", at, key)
            )

    def note_clients(self, rows: Sequence[tuple[int, int, int, float]]) -> None:
        with self._db.transaction():
            known = self.boards()
            insert(self._db, "clients", [row for row in rows if row[0] in known])

    def forget_client(self, board: int, client: int) -> int:
        with self._db.transaction():
            rows = self._db.write("DELETE FROM clients WHERE board = ? AND client = ? RETURNING key", board, client)
        return len(rows)

    def forget_clients(self, board: int, before: float) -> None:
        with self._db.transaction():
            self._db.write("DELETE FROM clients WHERE board = ? AND at < ?", board, before)


def open_store(url: str) -> BoardStore:
    """The store of `sqlite:///PATH` or `postgresql://...`; its tables are made, or brought up to date."""
    return SqlStore(url)
