"""A store in SQLite or PostgreSQL: one definition of its tables and statements for both.

Who changed what: a record that is only ever added to.

Nothing here changes or deletes a row. Each row holds a digest of itself and of the one before, so that one that was
changed, or taken out from among others, is noticed by whoever reads the record; the end of it can be cut off unseen.

A checksum of each row of the log and of each snapshot: by it a row that is not as it was written is noticed.

It has no key: who can write to the store can compute it. It is there for bits that flip, disks that lie, and rows
that somebody edited by hand.

Which number a client or a cohort has on a board: given out in the transaction that writes the event.

API keys in the store: made, replaced, revoked, and each of it in the record.

Secrets by which boards sign impression ids, where they are no longer the first one.

A board begins with one secret, which also makes hashes of clients and stays for that. When the one that signs is
rotated, the former ones are kept until the ids that they signed have expired.
"""

import collections
import contextlib
import hashlib
import itertools
import json
import math
import pathlib
import re
import secrets
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .sql import Database, Row, connect, insert, parts
from .store import Act, Damaged, Key, KnownBoard, LogEntry, NewEntry, Numbers, Seal, Store
from .tables import check_format, prepare, unchecked

_LONGEST_TEXT = 1_000  # characters of a text
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # what cannot be stored, or not be seen
_ACT_COLUMNS = "number, at, who, what, board, detail, digest"


def add_act(db: Database, at: float, who: str, what: str, board: str, detail: str) -> None:
    """Add a row, inside a transaction; writers take turns."""
    db.write("UPDATE head SET seq = seq + 0")  # locks it
    last = db.read(f"SELECT {_ACT_COLUMNS} FROM acts ORDER BY number DESC LIMIT 1")
    before = bytes(last[0][6]) if last else b""
    words = (
        _UNSEEN.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)[:_LONGEST_TEXT]
        for text in (who, what, board, detail)
    )
    row = (int(last[0][0]) + 1 if last else 1, float(at), *words)
    db.write(f"INSERT INTO acts ({_ACT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", *row, _act_digest(before, row))


def read_acts(db: Database, after: int, most: int) -> list[Act]:
    """Rows after a number, in order; -1: the latest ones."""
    if after < 0:
        rows = db.read(f"SELECT {_ACT_COLUMNS} FROM acts ORDER BY number DESC LIMIT {most:d}")[::-1]
    else:
        rows = db.read(f"SELECT {_ACT_COLUMNS} FROM acts WHERE number > ? ORDER BY number LIMIT {most:d}", after)
    return [Act(*row)._replace(digest=bytes(row[6])) for row in rows]


def first_wrong(acts: Iterable[Act]) -> int:
    """The number of the first row that does not follow from the one before, from the beginning on; 0 if all do."""
    before = b""
    for number, act in enumerate(acts, 1):
        if act.number != number or act.digest != _act_digest(before, act[:6]):
            return act.number
        before = act.digest
    return 0


def _act_digest(before: bytes, row: Row) -> bytes:
    return hashlib.sha256(before + json.dumps(row).encode()).digest()


_EVENT_PREFIX = struct.Struct("<qqd")  # number, board, time
_SNAPSHOT_PREFIX = struct.Struct("<qqq")  # number of the event, board, bytes
_BEGINNING = 64  # bytes of a snapshot, which hold the digest of all others


def event_checksum(seq: int, board: int, at: float, body: bytes) -> int:
    """64 bits of an event, as a number that both databases can keep."""
    return _checksum(_EVENT_PREFIX.pack(seq, board, at) + body)


def snapshot_checksum(board: int, seq: int, body: bytes) -> int:
    """64 bits of whose snapshot it is, as of which event, and of the digest that it begins with."""
    return _checksum(_SNAPSHOT_PREFIX.pack(seq, board, len(body)) + body[:_BEGINNING])


def checksum_holds(checksum: Any, seq: int, board: int, at: Any, body: Any) -> bool:
    """Whether an event is as it was written; a damaged row may hold anything."""
    if not isinstance(body, bytes) or not isinstance(at, float):
        return False
    return bool(checksum == event_checksum(seq, board, at, body))


def _checksum(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)


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
        for place, number in zip(places, _number_in_board(db, board, [rows[i] for i in places], at), strict=True):
            numbers[place] = number
    return numbers


def _number_in_board(db: Database, board: int, rows: Sequence[NewEntry], at: float) -> Iterable[Numbers]:
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


_KEY_COLUMNS = "id, hash, scopes, board, created, revoked, expires"


def read_keys(db: Database) -> list[Key]:
    """Every key, revoked and expired ones too."""
    rows = db.read(f"SELECT {_KEY_COLUMNS} FROM keys ORDER BY created, id")
    return [Key(row[0], bytes(row[1]), *row[2:]) for row in rows]


def add_key(db: Database, key: Key, who: str) -> None:
    """Keep a new key."""
    with db.transaction():
        _insert_key(db, key)
        detail = f"{key.id}: {key.scopes}" + ("" if key.expires is None else f", until {key.expires:.0f}")
        add_act(db, key.created, who, "key made", key.board or "", detail)


def _insert_key(db: Database, key: Key) -> None:
    db.write(f"INSERT INTO keys ({_KEY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", *key)


def revoke_key(db: Database, key: str, at: float, who: str) -> bool:
    """End a key; whether there was one that was not revoked."""
    with db.transaction():
        ended = db.write("UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL RETURNING id, board", at, key)
        if ended:
            add_act(db, at, who, "key revoked", ended[0][1] or "", key)
        return bool(ended)


def replace_key(db: Database, old: str, new: Key, until: float, who: str) -> bool:
    """Keep a new key in place of another, which works until a time at most; whether that one worked."""
    with db.transaction():
        ended = db.write(
            "UPDATE keys SET expires = CASE WHEN expires < ? THEN expires ELSE ? END "
            "WHERE id = ? AND revoked IS NULL AND (expires IS NULL OR expires > ?) RETURNING id",
            *(until, until, old, new.created),
        )
        if ended:
            _insert_key(db, new)
            detail = f"{old}, which works until {until:.0f}, by {new.id}"
            add_act(db, new.created, who, "key rotated", new.board or "", detail)
        return bool(ended)


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


_SLICE = 20_000  # events deleted at a time
_EVENTS = "events (seq, board, at, body, checksum)"
_SNAPSHOTS = "snapshots (board, seq, body, checksum)"
_CLIENTS_AT_ONCE = 1_000  # forgotten by one event: applying it must not take long


class SqlStore:
    """A `Store`; makes its tables, or brings those of an older version up to date.

    Whatever writes events changes the row of `head` first, which locks it until the end of the transaction: so
    writers take turns, and numbers are given out in the order in which transactions end.
    """

    def __init__(self, url: str) -> None:
        self._db: Database = connect(url)
        try:
            prepare(self._db)
            self._unchecked = unchecked(self._db)
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        self._db.close()

    def reading(self) -> contextlib.AbstractContextManager[None]:
        return self._db.reading()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction that writes anything but events, unless a newer version has upgraded the store."""
        with self._db.transaction():
            self.head()
            yield

    def _take_numbers(self, count: int) -> int:
        """Inside a transaction: the last of so many new numbers of events; nobody else takes any until its end."""
        seq, found = self._db.write("UPDATE head SET seq = seq + ? RETURNING seq, format", count)[0]
        check_format(found)
        return int(seq)

    def _write_event(self, seq: int, board: int, at: float, body: bytes) -> None:
        insert(self._db, _EVENTS, [_event_row(seq, board, at, body)])

    def try_writing(self) -> None:
        with self._db.transaction():
            self._take_numbers(0)

    def head(self) -> int:
        seq, found = self._db.read("SELECT seq, format FROM head")[0]
        check_format(found)
        return int(seq)

    def time(self) -> float | None:
        return self._db.time()

    def latest(self) -> tuple[int, float]:
        rows = self._db.read("SELECT seq, at FROM events ORDER BY seq DESC LIMIT 1")
        return (int(rows[0][0]), float(rows[0][1])) if rows else (0, 0.0)

    def append(self, rows: Sequence[NewEntry], at: float) -> tuple[int, list[Numbers]]:
        with self._db.transaction():
            last = self._take_numbers(len(rows))
            first = last - len(rows) + 1
            numbers = number_clients(self._db, rows, at)
            bodies = (row.body(n) if callable(row.body) else row.body for row, n in zip(rows, numbers, strict=True))
            events = zip(range(first, last + 1), (row.board for row in rows), itertools.repeat(at), bodies)
            insert(self._db, _EVENTS, list(itertools.starmap(_event_row, events)))
        return first, numbers

    def append_if(self, board: int, edge: int, event: bytes, at: float) -> bool:
        with self._db.transaction():
            seq = self._take_numbers(0) + 1
            if not self._db.read("SELECT 1 FROM boards WHERE id = ? AND edge = ?", board, edge):
                return False
            self._db.write("UPDATE head SET seq = ?", seq)
            self._write_event(seq, board, at, event)
        return True

    def entries(self, after: int, upto: int, board: int | None = None, most: int = 10_000) -> Iterator[LogEntry]:
        only = "" if board is None else f"AND board = {board:d} "
        while after < upto:
            rows = self._db.read(
                "SELECT seq, board, at, body, checksum FROM events "
                f"WHERE seq > ? AND seq <= ? {only}ORDER BY seq LIMIT {most:d}",
                after,
                upto,
            )
            for row in rows:
                yield self._entry(*row)
            if len(rows) < most:
                return
            after = rows[-1][0]

    def _entry(self, seq: int, board: int, at: Any, body: Any, checksum: Any) -> LogEntry:
        """An event, with what is wrong with it; one of before there were checksums may be without."""
        if (checksum is None and seq <= self._unchecked) or checksum_holds(checksum, seq, board, at, body):
            return LogEntry(seq, board, at, body)
        return LogEntry(seq, board, 0.0, b"", "its checksum is not that of its content")

    def shortened(self, board: int) -> int:
        rows = self._db.read("SELECT edge FROM boards WHERE id = ?", board)
        return int(rows[0][0]) if rows else 0

    def edges(self, boards: Sequence[int]) -> dict[int, int]:
        return {row[0]: row[1] for row in self._boards("id, edge", boards)}

    def _boards(self, columns: str, numbers: Sequence[int]) -> Iterator[Row]:
        for part in parts(numbers):
            places = ", ".join("?" * len(part))
            yield from self._db.read(f"SELECT {columns} FROM boards WHERE id IN ({places})", *part)

    def cut_after(self, seq: int) -> bool:
        return bool(self._db.read("SELECT 1 FROM boards WHERE edge > ?", seq))

    def boards(self, numbers: Sequence[int] | None = None) -> dict[int, tuple[str, bytes]]:
        rows: Iterable[Row]
        if numbers is None:
            rows = self._db.read("SELECT id, name, secret FROM boards")
        else:
            rows = self._boards("id, name, secret", numbers)
        return {row[0]: (row[1], bytes(row[2])) for row in rows}

    def known(self) -> list[KnownBoard]:
        rows = self._db.read(
            "SELECT boards.id, boards.name, boards.secret, boards.edge, rests.seq, rests.body, "
            "(SELECT MAX(events.seq) FROM events WHERE events.board = boards.id) "
            "FROM boards LEFT JOIN rests ON rests.board = boards.id"
        )
        found, seals = [], read_all_seals(self._db)
        for number, name, secret, edge, seq, body, last in rows:
            latest = max(number, edge, last or 0)
            rest = None if seq is None or seq < latest else bytes(body)
            found.append(KnownBoard(number, name, bytes(secret), latest, rest, seals.get(number, [])))
        return sorted(found, key=lambda board: -board.latest)

    def rest(self, rows: Sequence[tuple[int, int, bytes]]) -> None:
        newer = "ON CONFLICT (board) DO UPDATE SET seq = excluded.seq, body = excluded.body"
        with self._writing():
            there = self.edges([board for board, _, _ in rows])
            here = [row for row in rows if row[0] in there]
            insert(self._db, "rests", here, f"{newer} WHERE excluded.seq >= rests.seq")

    def create(self, name: str, event: bytes, at: float) -> int | None:
        with self._db.transaction():
            seq = self._take_numbers(0) + 1
            if self._db.read("SELECT 1 FROM boards WHERE name = ?", name):
                return None
            self._db.write("UPDATE head SET seq = ?", seq)
            self._db.write(
                "INSERT INTO boards (id, name, secret) VALUES (?, ?, ?)", seq, name, secrets.token_bytes(32)
            )
            self._write_event(seq, seq, at, event)
        return seq

    def bring_in(
        self,
        name: str,
        secret: bytes | None,
        base: bytes | None,
        rows: Sequence[tuple[float, bytes]],
        clients: int,
        seals: Sequence[Seal] = (),
        promised: float = 0.0,
    ) -> int:
        with self._db.transaction():
            extra = 0 if base is None else 1  # the snapshot stands for the beginning
            last = self._take_numbers(len(rows) + extra)
            number = last - len(rows) - extra + 1
            row = number, name, secret or secrets.token_bytes(32), 0 if base is None else number, clients, promised
            self._db.write(
                "INSERT INTO boards (id, name, secret, edge, clients, promised) VALUES (?, ?, ?, ?, ?, ?)", *row
            )
            if base is not None:
                insert(self._db, _SNAPSHOTS, [_snapshot_row(number, number, base)])
            events = [_event_row(number + extra + i, number, at, body) for i, (at, body) in enumerate(rows)]
            insert(self._db, _EVENTS, events)
            write_seals(self._db, number, seals)
        return number

    def seals(self, board: int) -> list[Seal]:
        return read_seals(self._db, board)

    def promise(self, board: int, until: float) -> None:
        with self._writing():
            self._db.write("UPDATE boards SET promised = ? WHERE id = ? AND promised < ?", until, board, until)

    def promised(self, board: int) -> float:
        rows = self._db.read("SELECT promised FROM boards WHERE id = ?", board)
        return float(rows[0][0]) if rows else 0.0

    def rotate_seal(self, board: int, event: bytes, at: float, until: float) -> bool:
        with self._db.transaction():
            seq = self._take_numbers(0) + 1
            if not rotate_seal(self._db, board, at, until):
                return False
            self._db.write("UPDATE head SET seq = ?", seq)
            self._write_event(seq, board, at, event)
        return True

    def delete(self, board: int, event: bytes, at: float) -> int:
        with self._db.transaction():
            seq = self._take_numbers(1)
            self._db.write("DELETE FROM boards WHERE id = ?", board)
            self._write_event(seq, board, at, event)
        return seq

    def wipe(self, board: int, seq: int) -> None:
        self._cut(board, seq - 1)
        for table in ("snapshots", "clients", "rests", "seals"):
            with self._db.transaction():
                self._db.write(f"DELETE FROM {table} WHERE board = ?", board)

    def snapshots(self, board: int) -> list[int]:
        return [row[0] for row in self._db.read("SELECT seq FROM snapshots WHERE board = ? ORDER BY seq DESC", board)]

    def snapshot(self, board: int, seq: int) -> bytes | None:
        rows = self._db.read("SELECT body, checksum FROM snapshots WHERE board = ? AND seq = ?", board, seq)
        if not rows:
            return None
        body, checksum = rows[0]
        if checksum is None and seq <= self._unchecked:
            return bytes(body)
        if not isinstance(body, bytes) or checksum != snapshot_checksum(board, seq, body):
            raise Damaged(f"snapshot {seq} is damaged: its checksum is not that of its content")
        return body

    def save(self, board: int, seq: int, body: bytes, keep: int = 2) -> bytes:
        with self._writing():
            if not self._db.read("SELECT 1 FROM boards WHERE id = ?", board):
                return body  # deleted meanwhile
            insert(self._db, _SNAPSHOTS, [_snapshot_row(board, seq, body)], "ON CONFLICT DO NOTHING")
            for old in self.snapshots(board)[keep:-1]:
                self._db.write("DELETE FROM snapshots WHERE board = ? AND seq = ?", board, old)
        try:
            return self.snapshot(board, seq) or body
        except Damaged:
            self.replace(board, seq, body)
            return body

    def replace(self, board: int, seq: int, body: bytes) -> None:
        put = "UPDATE snapshots SET body = ?, checksum = ? WHERE board = ? AND seq = ?"
        with self._writing():
            self._db.write(put, body, snapshot_checksum(board, seq, body), board, seq)

    def edge(self, board: int, before: float, most: int) -> int:
        young = "SELECT seq FROM events WHERE board = ? AND at >= ? ORDER BY seq LIMIT 1"
        old = "SELECT COALESCE(MAX(seq), 0) FROM events WHERE board = ? AND seq < ?"
        far = f"SELECT seq FROM events WHERE board = ? ORDER BY seq DESC LIMIT 1 OFFSET {most:d}"
        first = self._db.read(young, board, before)
        edges = self._db.read(old, board, first[0][0] if first else 2**63 - 1) + self._db.read(far, board)
        return max(0, *(int(row[0]) for row in edges))

    def forget(self, board: int, since: int, edge: int, body: bytes, holds: Callable[[], bool]) -> int:
        put = "ON CONFLICT (board, seq) DO UPDATE SET body = excluded.body, checksum = excluded.checksum"
        with self._db.transaction():
            self._take_numbers(0)
            moved = holds() and self._db.write(
                "UPDATE boards SET edge = ? WHERE id = ? AND edge = ? RETURNING id", edge, board, since
            )
            if not moved:
                return 0
            insert(self._db, _SNAPSHOTS, [_snapshot_row(board, edge, body)], put)
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
            for table in ("snapshots", "clients", "rests", "seals"):
                self._db.write(f"DELETE FROM {table} WHERE board NOT IN (SELECT id FROM boards)")

    def api_keys(self) -> list[Key]:
        return read_keys(self._db)

    def add_key(self, key: Key, who: str = "") -> None:
        add_key(self._db, key, who)

    def revoke(self, key: str, at: float, who: str = "") -> bool:
        return revoke_key(self._db, key, at, who)

    def replace_key(self, old: str, new: Key, until: float, who: str = "") -> bool:
        return replace_key(self._db, old, new, until, who)

    def record(self, at: float, who: str, what: str, board: str, detail: str) -> None:
        with self._writing():
            add_act(self._db, at, who, what, board, detail)

    def acts(self, after: int = -1, most: int = 500) -> list[Act]:
        return read_acts(self._db, after, most)

    def token(self) -> str:
        find = "SELECT value FROM meta WHERE name = 'token'"
        if not self._db.read(find):
            with self._db.transaction():
                made = secrets.token_urlsafe(24)
                self._db.write("INSERT INTO meta VALUES ('token', ?) ON CONFLICT DO NOTHING", made)
        return str(self._db.read(find)[0][0])

    def clients(self, board: int) -> int:
        rows = self._db.read("SELECT clients FROM boards WHERE id = ?", board)
        return int(rows[0][0]) if rows else 0

    def client_number(self, board: int, client: int) -> int | None:
        rows = self._db.read("SELECT number FROM clients WHERE board = ? AND hash = ?", board, client)
        return int(rows[0][0]) if rows else None

    def forget_client(self, board: int, client: int, at: float, event: Callable[[list[int]], bytes]) -> int:
        return self._forget(board, lambda: [client], at, event, asked=True)

    def forget_clients(self, board: int, before: float, at: float, event: Callable[[list[int]], bytes]) -> None:
        old = f"SELECT hash FROM clients WHERE board = ? AND at < ? LIMIT {_CLIENTS_AT_ONCE:d}"
        while self._db.read(old, board, before):
            self._forget(board, lambda: [row[0] for row in self._db.read(old, board, before)], at, event)

    def cap_visits(self, board: int, now: float) -> None:
        cap_visits(self._db, board, now)

    def _forget(
        self,
        board: int,
        which: Callable[[], list[int]],
        at: float,
        event: Callable[[list[int]], bytes],
        asked: bool = False,
    ) -> int:
        """Delete which numbers some clients have, and say so in the log; how many visits they had.

        Whatever ends what is kept of a client goes through here. If somebody `asked` for it, what workers put before
        they had read the event is nobody's.
        """
        with self._db.transaction():
            self._take_numbers(0)
            gone = forget_clients(self._db, board, which())
            if (gone or asked) and self._db.read("SELECT 1 FROM boards WHERE id = ?", board):
                seq = self._take_numbers(1)
                numbers = sorted(number for number, _ in gone)
                self._write_event(seq, board, at, event(numbers))
                if asked:
                    forget_unwritten(self._db, board, seq, at)
        return sum(visits for _, visits in gone)

    def span(self, board: int) -> tuple[float, float]:
        first = self._db.read("SELECT COALESCE(MIN(at), 0) FROM events WHERE board = ?", board)
        last = self._db.read("SELECT at FROM events WHERE board = ? ORDER BY seq DESC LIMIT 1", board)
        return float(first[0][0]), float(last[0][0]) if last else 0.0


def _event_row(seq: int, board: int, at: float, body: bytes) -> Row:
    """The row of an event."""
    return seq, board, at, body, event_checksum(seq, board, at, body)


def _snapshot_row(board: int, seq: int, body: bytes) -> Row:
    """The row of a snapshot."""
    return board, seq, body, snapshot_checksum(board, seq, body)


def would_be_new(url: str) -> bool:
    """Whether to open this store would make its file; a PostgreSQL database is there before."""
    path = url.removeprefix("sqlite:///")
    return path not in (url, ":memory:") and not pathlib.Path(path).exists()


def open_store(url: str) -> Store:
    """The store of `sqlite:///PATH` or `postgresql://...`; its tables are made, or brought up to date."""
    return SqlStore(url)
