"""A store in SQLite or PostgreSQL: one definition of its statements for both.

Each row of the log and each snapshot has a checksum that detects changes. It has no key, so whoever can write to the
store can recompute it: it is meant for bit flips, faulty disks, and rows edited by hand.

The audit record of changes is append-only. Each row has a digest of itself and of the digest before, so that a row
that was changed, or removed from the middle, is detected; truncation at the end is not.

Boards are divided into partitions by a hash of their names: one partition in SQLite, 256 in PostgreSQL. Each has its
own order of events, and no row in common with the others. The numbers of its events, and so of its boards, are
congruent to the number of the partition modulo the number of partitions: so all numbers differ, and a number tells
its partition. Each partition has a fence, a number that is raised with each change of owner; a store opened with
fences writes only to these partitions, and only while their fences are unchanged.

Clients and cohorts get their numbers in the transaction that writes the event. A board begins with one secret, which
also keys the hashes of clients for good; when the secret that signs impression ids is rotated, the former ones are
kept until the ids that they signed have expired.
"""

import collections
import contextlib
import hashlib
import itertools
import json
import pathlib
import re
import secrets
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from .sql import Database, Query, Row, connect, insert, parts
from .store import Act, Damaged, Fenced, Holding, Key, KnownBoard, LogEntry, Member, NewEntry, Numbers, Seal, Sender
from .tables import check_format, prepare

_SLICE = 20_000  # events deleted per transaction
_EVENTS = "events (seq, board, at, body, checksum)"
_SNAPSHOTS = "snapshots (board, seq, body, checksum)"
_CLIENTS_AT_ONCE = 1_000  # forgotten by one event, so that applying it is quick
_NOBODY = -1
_AHEAD = 60.0  # seconds by which clocks may differ
_CLIENT_SEEN = "ON CONFLICT (board, hash) DO UPDATE SET visits = clients.visits + excluded.visits, at = excluded.at"
_KEY_COLUMNS = "id, hash, scopes, board, created, revoked, expires"
_LONGEST_TEXT = 1_000  # characters of a text
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # control characters and surrogates
_ACT_COLUMNS = "number, at, who, what, board, detail, digest"
_EVENT_PREFIX = struct.Struct("<qqd")  # number, board, time
_SNAPSHOT_PREFIX = struct.Struct("<qqq")  # number of the event, board, size in bytes
_NOW = "EXTRACT(EPOCH FROM clock_timestamp())::float8"  # of PostgreSQL: only its partitions have owners
_LONG_GONE = 3_600.0  # seconds after which a dead worker is deleted
_BEGINNING = 64  # bytes of a snapshot that contain the digest of the rest


class SqlStore:
    """A connection to a store, used by one thread at a time; failures raise Unavailable.

    Once a newer version has upgraded the store, writing and reading the head raise Outdated. Every writer of events
    first updates the row of their partition in `heads`, which locks it until the end of the transaction: so writers
    take turns, and numbers are assigned in commit order.

    `fences`: the fence of each partition that this connection may write to; writing to any other, or if the fence has
    changed, raises Fenced. None: no fences, for a private store or an operator's command.
    """

    def __init__(self, url: str, fences: Mapping[int, int] | None = None) -> None:
        self._db: Database = connect(url)
        self._fences = fences
        try:
            prepare(self._db)
            self.partitions = int(self._db.read("SELECT COUNT(*) FROM heads")[0][0])
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def reading(self) -> contextlib.AbstractContextManager[None]:
        """A context in which all reads see one moment."""
        return self._db.reading()

    @contextlib.contextmanager
    def _writing(self, boards: Sequence[int] = ()) -> Iterator[None]:
        """A transaction that writes anything but events, of some boards; raises Outdated if the store was upgraded.

        Until its end no partition of these boards can change its owner, but their events can be written.
        """
        with self._db.transaction():
            partitions = sorted({board % self.partitions for board in boards}) or [0]
            places = ", ".join("?" * len(partitions))
            kept = f"SELECT partition, format, fence FROM heads WHERE partition IN ({places}) {self._db.keep_row}"
            rows = self._db.read(kept, *partitions)
            check_format(rows[0][1])
            if boards:
                self._check_fences((partition, fence) for partition, _, fence in rows)
            yield

    def _check_fences(self, stored: Iterable[tuple[int, int]]) -> None:
        """Raise Fenced if partitions have other owners by now; call it inside a transaction that locks them."""
        fences = self._fences
        if fences is not None:
            gone = [partition for partition, fence in stored if fences.get(partition) != fence]
            if gone:
                raise Fenced(gone)

    def _take_numbers(self, partition: int, count: int) -> int:
        """Inside a transaction: take `count` event numbers and return the last; others wait until its end."""
        return self._take_several({partition: count})[partition]

    def _take_several(self, counts: Mapping[int, int]) -> dict[int, int]:
        """The same for several partitions, by partition."""
        return self._checked(self._db.read_several(self._moving(counts))[0])

    def _moving(self, counts: Mapping[int, int]) -> Query:
        """The statement that takes numbers of several partitions."""
        given, values = self._db.table([(partition, n * self.partitions) for partition, n in counts.items()])
        text = f"UPDATE heads SET seq = seq + column2 FROM {given} WHERE partition = column1 "
        return text + "RETURNING partition, seq, format, fence", values

    def _checked(self, heads: Sequence[Row]) -> dict[int, int]:
        """Check format and fences in the rows returned by `_moving`; returns the last number by partition."""
        check_format(heads[0][2])
        self._check_fences((row[0], row[3]) for row in heads)
        return {row[0]: int(row[1]) for row in heads}

    def _write_event(self, seq: int, board: int, at: float, body: bytes) -> None:
        insert(self._db, _EVENTS, [_event_row(seq, board, at, body)])

    def try_writing(self) -> None:
        """Raise an exception if the store cannot be written to; changes nothing."""
        with self._db.transaction():
            stored = self._db.write("UPDATE meta SET value = value WHERE name = 'format' RETURNING value")
            check_format(int(stored[0][0]))

    def head(self, partition: int | None = None) -> int:
        """The number of a partition's latest event; without a partition, an upper bound of all numbers."""
        if partition is None:
            seq, number = self._db.read("SELECT MAX(seq), MAX(format) FROM heads")[0]
        else:
            seq, number = self._db.read("SELECT seq, format FROM heads WHERE partition = ?", partition)[0]
        check_format(number)
        return int(seq)

    def heads(self, partitions: Iterable[int]) -> dict[int, int]:
        """The numbers of the latest events of partitions."""
        wanted = set(partitions)
        rows = self._db.read("SELECT partition, seq, format FROM heads")
        check_format(max(row[2] for row in rows))
        return {row[0]: int(row[1]) for row in rows if row[0] in wanted}

    def partition_of(self, name: str) -> int:
        """The partition of a board by its name."""
        return partition_of(name, self.partitions)

    def time(self) -> float | None:
        """The time by the store's own clock, in seconds since 1970; None if it has none."""
        return self._db.time()

    def latest(self) -> tuple[int, float]:
        """The number of the latest event kept, and when it was written; zeros if there is none."""
        rows = self._db.read("SELECT seq, at FROM events ORDER BY seq DESC LIMIT 1")
        return (int(rows[0][0]), float(rows[0][1])) if rows else (0, 0.0)

    def append(self, rows: Sequence[NewEntry], at: float) -> tuple[list[int], list[list[Numbers]]]:
        """Write events in one transaction. Returns their numbers, and for each of their senders those of its clients.

        They are on disk on return. Events of a partition are numbered in commit order: whoever has seen event n has
        seen all before it. Clients and cohorts of a board get 0, 1, 2, ... in order of appearance; a forgotten one
        gets a new number when it comes again. After a client was forgotten on request, events that a worker queued
        before it had read of that are anonymous (-1), since they may be that client's.
        """
        step = self.partitions
        counts = collections.Counter([row.board % step for row in rows])
        clients = _Clients(rows)
        with self._db.transaction():
            heads, *answers = self._db.read_several(self._moving(counts), *clients.queries(self._db))
            last = self._checked(heads)
            numbers = clients.number(answers, at)
            following = {part: itertools.count(seq - (counts[part] - 1) * step, step) for part, seq in last.items()}
            seqs = [next(following[row.board % step]) for row in rows]
            bodies = (row.body(n) if callable(row.body) else row.body for row, n in zip(rows, numbers, strict=True))
            events = zip(seqs, (row.board for row in rows), itertools.repeat(at), bodies)
            clients.write(self._db, at)
            insert(self._db, _EVENTS, list(itertools.starmap(_event_row, events)))
        return seqs, numbers

    def append_if(self, board: int, edge: int, event: bytes, at: float) -> bool:
        """Write an event unless the log of its board was shortened beyond `edge`, or is gone.

        Returns whether it did.
        """
        with self._db.transaction():
            self._take_numbers(board % self.partitions, 0)
            if not self._db.read("SELECT 1 FROM boards WHERE id = ? AND edge = ?", board, edge):
                return False
            self._write_event(self._take_numbers(board % self.partitions, 1), board, at, event)
        return True

    def entries(
        self, after: int, upto: int, board: int | None = None, most: int = 10_000, partition: int | None = None
    ) -> Iterator[LogEntry]:
        """Yield events with numbers in (after, upto], in order: all, or those of a board or a partition.

        Events with `damage` have changed since they were written.
        """
        only = "" if board is None else f"AND board = {board:d} "
        if partition is not None and self.partitions > 1:
            only = f"AND MOD(seq, {self.partitions:d}) = {partition:d} "
        while after < upto:
            rows = self._db.read(
                "SELECT seq, board, at, body, checksum FROM events "
                f"WHERE seq > ? AND seq <= ? {only}ORDER BY seq LIMIT {most:d}",
                after,
                upto,
            )
            for seq, of, at, body, checksum in rows:
                whole = isinstance(body, bytes) and isinstance(at, float)  # a damaged row may hold anything
                if whole and checksum == event_checksum(seq, of, at, body):
                    yield LogEntry(seq, of, at, body)
                else:
                    yield LogEntry(seq, of, 0.0, b"", "its checksum is not that of its content")
            if len(rows) < most:
                return
            after = rows[-1][0]

    def bodies(self, board: int, after: int, upto: int, most: int) -> tuple[int, dict[int, bytes]]:
        """The bodies of up to `most` events of a board, without damaged ones, and the number read up to."""
        entries = list(itertools.islice(self.entries(after, upto, board, most), most))
        return entries[-1].seq if len(entries) == most else upto, {x.seq: x.body for x in entries if not x.damage}

    def rewrite(self, board: int, bodies: Mapping[int, bytes]) -> None:
        """Replace the bodies of events of a board, in one transaction, to remove what must be forgotten."""
        with self._writing([board]):
            for seq, body in bodies.items():
                for (at,) in self._db.read("SELECT at FROM events WHERE seq = ? AND board = ?", seq, board):
                    checksum = event_checksum(seq, board, at, body)
                    self._db.write("UPDATE events SET body = ?, checksum = ? WHERE seq = ?", body, checksum, seq)

    def shortened(self, board: int) -> int:
        """The event up to which a snapshot replaced the log of a board; 0 if the log is complete."""
        rows = self._db.read("SELECT edge FROM boards WHERE id = ?", board)
        return int(rows[0][0]) if rows else 0

    def edges(self, boards: Sequence[int]) -> dict[int, int]:
        """The same for several boards; deleted ones are left out."""
        return {row[0]: row[1] for row in self._boards("id, edge", boards)}

    def _boards(self, columns: str, numbers: Sequence[int]) -> Iterator[Row]:
        for part in parts(numbers):
            places = ", ".join("?" * len(part))
            yield from self._db.read(f"SELECT {columns} FROM boards WHERE id IN ({places})", *part)

    def cut_after(self, seq: int) -> bool:
        """Return whether a snapshot has replaced any event after this one in its partition."""
        step = self.partitions
        mine = f"AND MOD(id, {step:d}) = {seq % step:d}" if step > 1 else ""
        return bool(self._db.read(f"SELECT 1 FROM boards WHERE edge > ? {mine}", seq))

    def boards(self, numbers: Sequence[int] | None = None) -> dict[int, tuple[str, bytes]]:
        """Names and secrets of all boards, or of those with these numbers, by number."""
        rows: Iterable[Row]
        if numbers is None:
            rows = self._db.read("SELECT id, name, secret FROM boards")
        else:
            rows = self._boards("id, name, secret", numbers)
        return {row[0]: (row[1], bytes(row[2])) for row in rows}

    def find_board(self, name: str) -> tuple[int, bytes] | None:
        """Number and secret of a board by its name; None if there is none."""
        rows = self._db.read("SELECT id, secret FROM boards WHERE name = ?", name)
        return (rows[0][0], bytes(rows[0][1])) if rows else None

    def known_boards(self, partitions: Iterable[int] | None = None) -> list[KnownBoard]:
        """All boards, or those of some partitions, latest event first; a few microseconds each."""
        step = self.partitions
        some = range(step) if partitions is None else sorted(partitions)
        mine = f"WHERE MOD(boards.id, {step:d}) IN ({', '.join(map(str, some)) or -1})" if len(some) < step else ""
        rows = self._db.read(
            "SELECT boards.id, boards.name, boards.secret, boards.edge, rests.seq, rests.body, "
            "(SELECT MAX(events.seq) FROM events WHERE events.board = boards.id) "
            f"FROM boards LEFT JOIN rests ON rests.board = boards.id {mine}"
        )
        boards = []
        seals: dict[int, list[Seal]] = {}  # of boards that have any, as from `seals`
        for board, secret, until in self._db.read("SELECT board, secret, until FROM seals ORDER BY number DESC"):
            seals.setdefault(board, []).append(Seal(bytes(secret), until))
        for number, name, secret, edge, seq, body, last in rows:
            latest = max(number, edge, last or 0)
            summary = None if seq is None or seq < latest else bytes(body)
            boards.append(KnownBoard(number, name, bytes(secret), latest, summary, seals.get(number, [])))
        return sorted(boards, key=lambda board: -board.latest)

    def keep_summaries(self, rows: Sequence[tuple[int, int, bytes]]) -> None:
        """Store summaries of boards as of an event: rows of board, event and content; later ones are kept."""
        newer = "ON CONFLICT (board) DO UPDATE SET seq = excluded.seq, body = excluded.body"
        with self._writing([board for board, _, _ in rows]):
            there = self.edges([board for board, _, _ in rows])
            here = [row for row in rows if row[0] in there]
            insert(self._db, "rests", here, f"{newer} WHERE excluded.seq >= rests.seq")

    def create_board(self, name: str, event: bytes, at: float) -> int | None:
        """Create a board with its first event. Returns its number, or None if the name is taken."""
        with self._db.transaction():
            self._take_numbers(self.partition_of(name), 0)
            if self._db.read("SELECT 1 FROM boards WHERE name = ?", name):
                return None
            seq = self._take_numbers(self.partition_of(name), 1)
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
        """Import a board, with its log or with a snapshot and the later events. Returns its number.

        `clients`: how many client numbers it had assigned; none of them is assigned again.
        """
        with self._db.transaction():
            extra = 0 if base is None else 1  # the snapshot takes the number of the first event
            step, last = self.partitions, self._take_numbers(self.partition_of(name), len(rows) + extra)
            number = last - (len(rows) + extra - 1) * step
            row = number, name, secret or secrets.token_bytes(32), 0 if base is None else number, clients, promised
            self._db.write(
                "INSERT INTO boards (id, name, secret, edge, clients, promised) VALUES (?, ?, ?, ?, ?, ?)", *row
            )
            if base is not None:
                insert(self._db, _SNAPSHOTS, [_snapshot_row(number, number, base)])
            seqs = itertools.count(number + extra * step, step)
            events = [_event_row(next(seqs), number, at, body) for at, body in rows]
            insert(self._db, _EVENTS, events)
            _write_seals(self._db, number, seals)
        return number

    def seals(self, board: int) -> list[Seal]:
        """The secrets that sign ids of a board, the current one first; empty if that is the original one."""
        rows = self._db.read("SELECT secret, until FROM seals WHERE board = ? ORDER BY number DESC", board)
        return [Seal(bytes(secret), until) for secret, until in rows]

    def promise(self, board: int, until: float) -> None:
        """Record that impression ids of a board may be valid until this time; a later recorded time stands."""
        with self._writing([board]):
            self._db.write("UPDATE boards SET promised = ? WHERE id = ? AND promised < ?", until, board, until)

    def promised(self, board: int) -> float:
        """The latest promised time; 0 if none."""
        rows = self._db.read("SELECT promised FROM boards WHERE id = ?", board)
        return float(rows[0][0]) if rows else 0.0

    def rotate_seal(self, board: int, event: bytes, at: float, until: float) -> bool:
        """Make a new secret sign from now on, and write the event that says so. Returns False if the board is gone.

        Ids signed before stay valid until they expire, which they do before `until`.
        """
        with self._db.transaction():
            self._take_numbers(board % self.partitions, 0)
            first = self._db.read("SELECT secret FROM boards WHERE id = ?", board)
            if not first:
                return False
            seals = self.seals(board) or [Seal(bytes(first[0][0]), None)]
            kept = [seal for seal in seals if seal.until is None or seal.until > at]
            ended = [seal._replace(until=until if seal.until is None else min(seal.until, until)) for seal in kept]
            _write_seals(self._db, board, [Seal(secrets.token_bytes(32), None), *ended])
            self._write_event(self._take_numbers(board % self.partitions, 1), board, at, event)
        return True

    def delete_board(self, board: int, event: bytes, at: float) -> int:
        """Delete a board; one event remains, for the other workers. Returns its number, for `wipe_board`."""
        with self._db.transaction():
            seq = self._take_numbers(board % self.partitions, 1)
            self._db.write("DELETE FROM boards WHERE id = ?", board)
            self._write_event(seq, board, at, event)
        return seq

    def wipe_board(self, board: int, seq: int) -> None:
        """Delete what is left of a deleted board: its log before event `seq`, snapshots and clients."""
        self._cut(board, seq - 1)
        for table in ("snapshots", "clients", "rests", "seals"):
            with self._db.transaction():
                self._db.write(f"DELETE FROM {table} WHERE board = ?", board)

    def snapshots(self, board: int) -> list[int]:
        """The events as of which there are snapshots of a board, the latest first."""
        return [row[0] for row in self._db.read("SELECT seq FROM snapshots WHERE board = ? ORDER BY seq DESC", board)]

    def snapshot(self, board: int, seq: int) -> bytes | None:
        """Read a snapshot; None if there is none. Raises Damaged if it was changed since it was written."""
        rows = self._db.read("SELECT body, checksum FROM snapshots WHERE board = ? AND seq = ?", board, seq)
        if not rows:
            return None
        body, checksum = rows[0]
        if not isinstance(body, bytes) or checksum != _snapshot_checksum(board, seq, body):
            raise Damaged(f"snapshot {seq} is damaged: its checksum is not that of its content")
        return body

    def save_snapshot(
        self, board: int, seq: int, body: bytes, keep: int = 2, holds: Callable[[], bool] = lambda: True
    ) -> bytes:
        """Save a snapshot, and of older ones keep only the latest and the oldest.

        Returns the first saved for this event.

        It is deleted again if `holds` returns False once it is written.
        """
        with self._writing([board]):
            if not self._db.read("SELECT 1 FROM boards WHERE id = ?", board):
                return body  # deleted meanwhile
            row, without = _snapshot_row(board, seq, body), "ON CONFLICT DO NOTHING RETURNING 1"
            if self._db.write(f"INSERT INTO {_SNAPSHOTS} VALUES (?, ?, ?, ?) {without}", *row) and not holds():
                self._db.write("DELETE FROM snapshots WHERE board = ? AND seq = ?", board, seq)
                return body
            for old in self.snapshots(board)[keep:-1]:
                self._db.write("DELETE FROM snapshots WHERE board = ? AND seq = ?", board, old)
        try:
            return self.snapshot(board, seq) or body
        except Damaged:
            self.replace_snapshot(board, seq, body, holds)
            return body

    def replace_snapshot(self, board: int, seq: int, body: bytes, holds: Callable[[], bool] = lambda: True) -> bool:
        """Replace a snapshot if `holds` returns True. Returns whether it did."""
        put = "UPDATE snapshots SET body = ?, checksum = ? WHERE board = ? AND seq = ?"
        with self._writing([board]):
            if not holds():
                return False
            self._db.write(put, body, _snapshot_checksum(board, seq, body), board, seq)
        return True

    def edge(self, board: int, before: float, most: int) -> int:
        """The latest event that is older than `before`, or has `most` later ones of its board; 0 if there is none.

        Times of events need not be in order, since clocks may have been wrong: every event since that time is kept.
        """
        young = "SELECT seq FROM events WHERE board = ? AND at >= ? ORDER BY seq LIMIT 1"
        old = "SELECT COALESCE(MAX(seq), 0) FROM events WHERE board = ? AND seq < ?"
        far = f"SELECT seq FROM events WHERE board = ? ORDER BY seq DESC LIMIT 1 OFFSET {most:d}"
        first = self._db.read(young, board, before)
        edges = self._db.read(old, board, first[0][0] if first else 2**63 - 1) + self._db.read(far, board)
        return max(0, *(int(row[0]) for row in edges))

    def shorten_log(self, board: int, since: int, edge: int, body: bytes, holds: Callable[[], bool]) -> int:
        """Replace the events up to `edge` by a snapshot. Returns how many there were.

        Returns 0 if another process was faster, or if `holds` returns False; no event is written meanwhile.
        """
        put = "ON CONFLICT (board, seq) DO UPDATE SET body = excluded.body, checksum = excluded.checksum"
        with self._db.transaction():
            self._take_numbers(board % self.partitions, 0)
            moved = holds() and self._db.write(
                "UPDATE boards SET edge = ? WHERE id = ? AND edge = ? RETURNING id", edge, board, since
            )
            if not moved:
                return 0
            insert(self._db, _SNAPSHOTS, [_snapshot_row(board, edge, body)], put)
            self._db.write("DELETE FROM snapshots WHERE board = ? AND seq < ?", board, edge)
        return self._cut(board, edge)

    def _cut(self, board: int, edge: int) -> int:
        """Delete the events of a board up to `edge`, in several short transactions. Returns how many."""
        gone = 0
        for last in self._steps(board, edge):
            with self._db.transaction():
                gone += len(
                    self._db.write("DELETE FROM events WHERE board = ? AND seq <= ? RETURNING 1", board, last)
                )
        return gone

    def _steps(self, board: int, edge: int) -> Iterator[int]:
        """Yield every `_SLICE`-th event of a board up to an edge, and the edge."""
        while rows := self._db.read(
            f"SELECT seq FROM events WHERE board = ? AND seq <= ? ORDER BY seq LIMIT 1 OFFSET {_SLICE:d}", board, edge
        ):
            yield int(rows[0][0])
        yield edge

    def sweep(self, before: float) -> None:
        """Delete what is left of boards deleted before a time."""
        with self._db.transaction():
            self._db.write("DELETE FROM events WHERE at < ? AND board NOT IN (SELECT id FROM boards)", before)
            for table in ("snapshots", "clients", "rests", "seals"):
                self._db.write(f"DELETE FROM {table} WHERE board NOT IN (SELECT id FROM boards)")

    def api_keys(self) -> list[Key]:
        """All API keys, revoked ones included."""
        rows = self._db.read(f"SELECT {_KEY_COLUMNS} FROM keys ORDER BY created, id")
        return [Key(row[0], bytes(row[1]), *row[2:]) for row in rows]

    def add_key(self, key: Key, who: str = "") -> None:
        """Store an API key; `who` made it, for the audit record."""
        with self._db.transaction():
            _insert_key(self._db, key)
            detail = f"{key.id}: {key.scopes}" + ("" if key.expires is None else f", until {key.expires:.0f}")
            _add_act(self._db, key.created, who, "key made", key.board or "", detail)

    def revoke_key(self, key: str, at: float, who: str = "") -> bool:
        """Revoke an API key. Returns whether it was in force."""
        with self._db.transaction():
            query = "UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL RETURNING id, board"
            ended = self._db.write(query, at, key)
            if ended:
                _add_act(self._db, at, who, "key revoked", ended[0][1] or "", key)
            return bool(ended)

    def replace_key(self, old: str, new: Key, until: float, who: str = "") -> bool:
        """Store a new API key; the old one works until `until` at most. Returns whether the old one was in force."""
        with self._db.transaction():
            ended = self._db.write(
                "UPDATE keys SET expires = CASE WHEN expires < ? THEN expires ELSE ? END "
                "WHERE id = ? AND revoked IS NULL AND (expires IS NULL OR expires > ?) RETURNING id",
                *(until, until, old, new.created),
            )
            if ended:
                _insert_key(self._db, new)
                detail = f"{old}, which works until {until:.0f}, by {new.id}"
                _add_act(self._db, new.created, who, "key rotated", new.board or "", detail)
            return bool(ended)

    def record(self, at: float, who: str, what: str, board: str, detail: str) -> None:
        """Add a row to the audit record."""
        with self._writing():
            _add_act(self._db, at, who, what, board, detail)

    def acts(self, after: int = -1, most: int = 500) -> list[Act]:
        """Rows of the audit record after a number, in order; by default the latest."""
        if after < 0:
            rows = self._db.read(f"SELECT {_ACT_COLUMNS} FROM acts ORDER BY number DESC LIMIT {most:d}")[::-1]
        else:
            query = f"SELECT {_ACT_COLUMNS} FROM acts WHERE number > ? ORDER BY number LIMIT {most:d}"
            rows = self._db.read(query, after)
        return [Act(*row)._replace(digest=bytes(row[6])) for row in rows]

    @property
    def shared(self) -> bool:
        """Whether workers share the partitions of this store, so that each has one owner."""
        return self._db.shared

    def beat(self, id_: int, machine: str, address: str, lease: float) -> None:
        """Renew the lease of a worker for `lease` seconds."""
        self._db.write(
            f"INSERT INTO workers VALUES (?, ?, ?, {_NOW} + ?) ON CONFLICT (id) DO UPDATE SET until = excluded.until",
            *(id_, machine, address, lease),
        )

    def replace_worker(self, id_: int, machine: str, address: str) -> None:
        """Remove a former worker at this address of a machine, and those dead for long."""
        self._db.write("DELETE FROM workers WHERE machine = ? AND address = ? AND id <> ?", machine, address, id_)
        self._db.write(f"DELETE FROM workers WHERE until < {_NOW} - ?", _LONG_GONE)

    def holdings(self) -> tuple[list[Member], dict[int, Holding]]:
        """All workers, and the owner of each partition."""
        members = self._db.read(f"SELECT id, machine, address, until > {_NOW} FROM workers ORDER BY id")
        rows = self._db.read("SELECT partition, seq, owner, fence FROM heads")
        return [Member(*row) for row in members], {row[0]: Holding(*row[1:]) for row in rows}

    def take_partitions(self, id_: int, most: int) -> dict[int, int]:
        """Take up to `most` partitions whose owners are dead. Returns their fences.

        Partitions that somebody is writing to right now are skipped.
        """
        rows = self._db.write(
            "WITH free AS MATERIALIZED (SELECT partition AS number FROM heads "
            f"WHERE owner NOT IN (SELECT id FROM workers WHERE until > {_NOW}) ORDER BY partition LIMIT {most:d} "
            "FOR UPDATE SKIP LOCKED) UPDATE heads SET owner = ?, fence = fence + 1 FROM free "
            "WHERE partition = number RETURNING partition, fence",
            id_,
        )
        return {row[0]: int(row[1]) for row in rows}

    def give_partitions(self, gifts: Sequence[tuple[int, int, int]]) -> None:
        """Hand partitions over: triples of partition, its present fence, and the new owner."""
        if gifts:
            given, values = self._db.table(gifts)
            self._db.write(
                f"UPDATE heads SET owner = column3, fence = fence + 1 FROM {given} "
                "WHERE partition = column1 AND fence = column2",
                *values,
            )

    def leave(self, id_: int) -> None:
        """Remove a worker that stops, and free its partitions."""
        self._db.write("UPDATE heads SET owner = 0, fence = fence + 1 WHERE owner = ?", id_)
        self._db.write("DELETE FROM workers WHERE id = ?", id_)

    def token(self) -> str:
        """The token that opens the pages of a store without API keys in a browser, common to all its workers."""
        find = "SELECT value FROM meta WHERE name = 'token'"
        if not self._db.read(find):
            with self._db.transaction():
                made = secrets.token_urlsafe(24)
                self._db.write("INSERT INTO meta VALUES ('token', ?) ON CONFLICT DO NOTHING", made)
        return str(self._db.read(find)[0][0])

    def clients(self, board: int) -> int:
        """How many client numbers of a board have been assigned."""
        rows = self._db.read("SELECT clients FROM boards WHERE id = ?", board)
        return int(rows[0][0]) if rows else 0

    def client_number(self, board: int, client: int) -> int | None:
        """The number of a client or cohort by its hash; None if it has none."""
        rows = self._db.read("SELECT number FROM clients WHERE board = ? AND hash = ?", board, client)
        return int(rows[0][0]) if rows else None

    def forget_client(self, board: int, client: int, at: float, event: Callable[[list[int]], bytes]) -> int:
        """Delete a client's number, and log that even if it had none. Returns the number of its visits.

        Anything that workers queued before they read this event is written anonymously.
        """
        return self._forget(board, lambda: [client], at, event, asked=True)

    def forget_clients(self, board: int, before: float, at: float, event: Callable[[list[int]], bytes]) -> None:
        """Delete the numbers of clients last seen before a time, and log that."""
        old = f"SELECT hash FROM clients WHERE board = ? AND at < ? LIMIT {_CLIENTS_AT_ONCE:d}"
        while self._db.read(old, board, before):
            self._forget(board, lambda: [row[0] for row in self._db.read(old, board, before)], at, event)

    def cap_visits(self, board: int, now: float) -> None:
        """Set clients that a wrong clock saw over a minute in the future as last seen now."""
        late = now + _AHEAD
        if self._db.read("SELECT 1 FROM clients WHERE board = ? AND at > ? LIMIT 1", board, late):
            with self._writing([board]):
                self._db.write("UPDATE clients SET at = ? WHERE board = ? AND at > ?", now, board, late)

    def _forget(
        self,
        board: int,
        which: Callable[[], list[int]],
        at: float,
        event: Callable[[list[int]], bytes],
        asked: bool = False,
    ) -> int:
        """Delete clients' numbers, and log that. Returns the number of their visits.

        Every removal of a client goes through here. If it was `asked` for, whatever workers queued before they read
        the event is written anonymously.
        """
        with self._db.transaction():
            self._take_numbers(board % self.partitions, 0)
            gone = _forget_clients(self._db, board, which())
            if (gone or asked) and self._db.read("SELECT 1 FROM boards WHERE id = ?", board):
                seq = self._take_numbers(board % self.partitions, 1)
                numbers = sorted(number for number, _ in gone)
                self._write_event(seq, board, at, event(numbers))
                if asked:
                    # By log order and not by a clock, which may be wrong. Only later reports that carry the time of
                    # their event are compared with the time `at`.
                    self._db.write("UPDATE boards SET forgotten = ?, forgot = ? WHERE id = ?", seq, at, board)
        return sum(visits for _, visits in gone)

    def span(self, board: int) -> tuple[float, float]:
        """The time of the earliest kept event of a board by time, and of the last by number; 0 if there is none."""
        first = self._db.read("SELECT COALESCE(MIN(at), 0) FROM events WHERE board = ?", board)
        last = self._db.read("SELECT at FROM events WHERE board = ? ORDER BY seq DESC LIMIT 1", board)
        return float(first[0][0]), float(last[0][0]) if last else 0.0


def would_be_new(url: str) -> bool:
    """Return whether opening this store would create its file; PostgreSQL databases exist already."""
    path = url.removeprefix("sqlite:///")
    return path not in (url, ":memory:") and not pathlib.Path(path).exists()


def open_store(url: str, fences: Mapping[int, int] | None = None) -> SqlStore:
    """Open the store at `sqlite:///PATH` or `postgresql://...`, creating or migrating its tables.

    `fences`: the partitions that may be written to, with their fences; None: all of them.
    """
    return SqlStore(url, fences)


def partition_of(name: str, partitions: int) -> int:
    """The partition of a board by its name."""
    return zlib.crc32(name.encode()) % partitions


def _event_row(seq: int, board: int, at: float, body: bytes) -> Row:
    """The row of an event."""
    return seq, board, at, body, event_checksum(seq, board, at, body)


def _snapshot_row(board: int, seq: int, body: bytes) -> Row:
    """The row of a snapshot."""
    return board, seq, body, _snapshot_checksum(board, seq, body)


def event_checksum(seq: int, board: int, at: float, body: bytes) -> int:
    """The checksum of an event: 64 bits, as a signed number that both databases can store."""
    return _checksum(_EVENT_PREFIX.pack(seq, board, at) + body)


def _snapshot_checksum(board: int, seq: int, body: bytes) -> int:
    """The checksum of a snapshot: 64 bits of its board, event and size, and of the digest at its beginning."""
    return _checksum(_SNAPSHOT_PREFIX.pack(seq, board, len(body)) + body[:_BEGINNING])


def _checksum(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)


class _Clients:
    """The clients and cohorts of events to be written, and their numbers.

    Used while no other transaction writes events of these boards. Nothing is cached between writes, or a client
    forgotten meanwhile would come back under its old number. It takes the same few statements for any number of
    boards.
    """

    def __init__(self, rows: Sequence[NewEntry]) -> None:
        self._rows = rows
        senders = [(row.board, sender) for row in rows for sender in row.senders if sender is not None]
        self._boards = sorted({board for board, _ in senders})
        self._asked = list({(board, who): None for board, sender in senders for who in sender.hashes if who})
        self._numbers: dict[tuple[int, int], int] = {}  # by board and hash
        self._visits: dict[tuple[int, int], int] = {}
        self._given: dict[int, int] = {}  # by board with new numbers: the next number

    def queries(self, db: Database) -> list[Query]:
        """The queries for the clients' numbers, and for each board's count of numbers and last forgotten client."""
        queries: list[Query] = []
        for part in parts([(board,) for board in self._boards]):
            given, values = db.table(part)
            text = f"SELECT id, clients, forgotten, forgot FROM {given} CROSS JOIN boards WHERE id = column1"
            queries.append((text, values))
        for some in parts(self._asked):
            given, values = db.table(some)
            text = f"SELECT board, hash, number FROM {given} CROSS JOIN clients WHERE board = column1 "
            queries.append((f"{text} AND hash = column2", values))
        return queries

    def number(self, found: Sequence[Sequence[Row]], at: float) -> list[list[Numbers]]:
        """For each event, the numbers of its senders' clients and cohorts: new ones where there are none.

        `found`: the results of the queries. Senders without a name get `_NOBODY`.
        """
        middle = len(list(parts(self._boards)))
        boards = {row[0]: row[1:] for rows in found[:middle] for row in rows}
        self._numbers = {(row[0], row[1]): row[2] for rows in found[middle:] for row in rows}
        return [
            [self._numbers_of(row.board, boards.get(row.board), sender, at) for sender in row.senders]
            for row in self._rows
        ]

    def _numbers_of(self, number: int, board: Row | None, sender: Sender | None, at: float) -> Numbers:
        """The numbers of a sender; `board`: how many clients it had, and who was forgotten last."""
        if sender is None:
            return ()
        if board is None or not _is_named(sender, board[1], board[2], at):
            return (_NOBODY,) * len(sender.hashes)
        return tuple([self._number(number, who, board[0], sender) for who in sender.hashes])

    def _number(self, board: int, who: int, given: int, sender: Sender) -> int:
        """The number of a client or cohort; `given`: how many its board had assigned before."""
        if not who:
            return _NOBODY
        client = board, who
        self._visits[client] = self._visits.get(client, 0) + sender.visits
        number = self._numbers.get(client)
        if number is None:
            number = self._numbers[client] = self._given.get(board, given)
            self._given[board] = number + 1
        return number

    def write(self, db: Database, at: float) -> None:
        """Store the new numbers, and when clients were last seen."""
        rows = [(board, who, self._numbers[board, who], n, at) for (board, who), n in self._visits.items()]
        insert(db, "clients", rows, _CLIENT_SEEN)
        for part in parts(sorted(self._given.items())):
            given, values = db.table(part)
            db.put((f"UPDATE boards SET clients = column2 FROM {given} WHERE id = column1", values))


def _is_named(sender: Sender, forgotten: int, forgot: float, at: float) -> bool:
    """Return whether an event keeps its client, on a board where a client was forgotten by this event, at this time.

    A time in the future comes from a wrong clock and is ignored.
    """
    return sender.since >= forgotten and (sender.time is None or sender.time >= forgot or forgot > at + _AHEAD)


def _forget_clients(db: Database, board: int, clients: Sequence[int]) -> list[tuple[int, int]]:
    """Delete clients' numbers. Returns number and visits of each client that had one."""
    gone: list[tuple[int, int]] = []
    for part in parts(clients):
        places = ", ".join("?" * len(part))
        query = f"DELETE FROM clients WHERE board = ? AND hash IN ({places}) RETURNING number, visits"
        gone += [(row[0], row[1]) for row in db.write(query, board, *part)]
    return gone


def _insert_key(db: Database, key: Key) -> None:
    db.write(f"INSERT INTO keys ({_KEY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", *key)


def _write_seals(db: Database, board: int, seals: Sequence[Seal]) -> None:
    """Replace the secrets of a board, the current one first; inside a transaction."""
    db.write("DELETE FROM seals WHERE board = ?", board)
    for number, seal in enumerate(reversed(seals)):
        db.write("INSERT INTO seals (board, number, secret, until) VALUES (?, ?, ?, ?)", board, number, *seal)


def _add_act(db: Database, at: float, who: str, what: str, board: str, detail: str) -> None:
    """Add a row to the audit record, inside a transaction; writers take turns."""
    db.take_turns()
    last = db.read(f"SELECT {_ACT_COLUMNS} FROM acts ORDER BY number DESC LIMIT 1")
    before = bytes(last[0][6]) if last else b""
    words = (
        _UNSEEN.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)[:_LONGEST_TEXT]
        for text in (who, what, board, detail)
    )
    row = (int(last[0][0]) + 1 if last else 1, float(at), *words)
    db.write(f"INSERT INTO acts ({_ACT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", *row, _act_digest(before, row))


def first_wrong(acts: Iterable[Act]) -> int:
    """The number of the first row that breaks the chain of digests, starting from the first row; 0 if none does."""
    before = b""
    for number, act in enumerate(acts, 1):
        if act.number != number or act.digest != _act_digest(before, act[:6]):
            return act.number
        before = act.digest
    return 0


def _act_digest(before: bytes, row: Row) -> bytes:
    return hashlib.sha256(before + json.dumps(row).encode()).digest()
