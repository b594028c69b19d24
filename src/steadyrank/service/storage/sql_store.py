"""A store in SQLite or PostgreSQL: one definition of its statements for both.

Each row of the log and each snapshot has a checksum, by which a row that is not as it was written is noticed. It has
no key, so whoever can write to the store can compute it: it is there for bits that flip, disks that lie, and rows
that somebody edited by hand.

The record of who changed what is only ever added to. Each of its rows holds a digest of itself and of the one before,
so that a row that was changed, or taken out from among others, is noticed; the end of it can be cut off unseen.

Boards fall into partitions, by a hash of their names: one in SQLite, 256 in PostgreSQL. Each has an order of events
of its own, and no row in common with the others. The numbers of its events, and so of its boards, leave the number of
the partition as the remainder when they are divided by how many there are: so all numbers differ, and a number tells
its partition. Each partition has a fence, a number that is raised whenever another worker becomes its owner; a store
that was opened with fences writes to these partitions alone, and only as long as their fences are those.

Clients and cohorts get their numbers in the transaction that writes the event. A board begins with one secret, which
also makes hashes of clients and stays for that; when the one that signs impression ids is rotated, the former ones
are kept until the ids that they signed have expired.
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

_SLICE = 20_000  # events deleted at a time
_EVENTS = "events (seq, board, at, body, checksum)"
_SNAPSHOTS = "snapshots (board, seq, body, checksum)"
_CLIENTS_AT_ONCE = 1_000  # forgotten by one event: applying it must not take long
_NOBODY = -1
_AHEAD = 60.0  # seconds by which clocks may differ
_CLIENT_SEEN = "ON CONFLICT (board, hash) DO UPDATE SET visits = clients.visits + excluded.visits, at = excluded.at"
_KEY_COLUMNS = "id, hash, scopes, board, created, revoked, expires"
_LONGEST_TEXT = 1_000  # characters of a text
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # what cannot be stored, or not be seen
_ACT_COLUMNS = "number, at, who, what, board, detail, digest"
_EVENT_PREFIX = struct.Struct("<qqd")  # number, board, time
_SNAPSHOT_PREFIX = struct.Struct("<qqq")  # number of the event, board, bytes
_NOW = "EXTRACT(EPOCH FROM clock_timestamp())::float8"  # of PostgreSQL: only its partitions have owners
_LONG_GONE = 3_600.0  # seconds after which a worker that ended is forgotten
_BEGINNING = 64  # bytes of a snapshot, which hold the digest of all others


class SqlStore:
    """A connection to a store, used by one thread at a time; what fails is `Unavailable`.

    Once a newer version has upgraded the store, writing and asking for its head is `Outdated`. Whatever writes events
    changes the row of their partition in `heads` first, which locks it until the end of the transaction: so writers
    take turns, and numbers are given out in the order in which transactions end.

    `fences`: by partition the fence that this connection knows; writing to a partition that is not among them, or has
    another one, is `Fenced`. None: it is somebody's own store, or a command of an operator; no fence matters.
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
        """End the connection."""
        self._db.close()

    def reading(self) -> contextlib.AbstractContextManager[None]:
        """All that is read inside belongs to one moment."""
        return self._db.reading()

    @contextlib.contextmanager
    def _writing(self, boards: Sequence[int] = ()) -> Iterator[None]:
        """A transaction that writes anything but events, of some boards, unless the store was upgraded meanwhile.

        No partition of these boards gets another owner until its end, and their events go on being written.
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
        """Refuse to write to partitions that have other owners by now; inside a transaction that locks them."""
        fences = self._fences
        if fences is not None:
            gone = [partition for partition, fence in stored if fences.get(partition) != fence]
            if gone:
                raise Fenced(gone)

    def _take_numbers(self, partition: int, count: int) -> int:
        """Inside a transaction: the last of so many new numbers of events; nobody else takes any until its end."""
        return self._take_several({partition: count})[partition]

    def _take_several(self, counts: Mapping[int, int]) -> dict[int, int]:
        """`_take_numbers` of several partitions, by partition."""
        return self._checked(self._db.read_several(self._moving(counts))[0])

    def _moving(self, counts: Mapping[int, int]) -> Query:
        """What takes so many numbers of each of some partitions."""
        given, values = self._db.table([(partition, n * self.partitions) for partition, n in counts.items()])
        text = f"UPDATE heads SET seq = seq + column2 FROM {given} WHERE partition = column1 "
        return text + "RETURNING partition, seq, format, fence", values

    def _checked(self, heads: Sequence[Row]) -> dict[int, int]:
        """The last number of each partition by what `_moving` gave, unless its format or its fence is another one."""
        check_format(heads[0][2])
        self._check_fences((row[0], row[3]) for row in heads)
        return {row[0]: int(row[1]) for row in heads}

    def _write_event(self, seq: int, board: int, at: float, body: bytes) -> None:
        insert(self._db, _EVENTS, [_event_row(seq, board, at, body)])

    def try_writing(self) -> None:
        """See whether something can be written; nothing changes."""
        with self._db.transaction():
            stored = self._db.write("UPDATE meta SET value = value WHERE name = 'format' RETURNING value")
            check_format(int(stored[0][0]))

    def head(self, partition: int | None = None) -> int:
        """The number of the latest event of a partition; without one, a number that no event exceeds."""
        if partition is None:
            seq, number = self._db.read("SELECT MAX(seq), MAX(format) FROM heads")[0]
        else:
            seq, number = self._db.read("SELECT seq, format FROM heads WHERE partition = ?", partition)[0]
        check_format(number)
        return int(seq)

    def heads(self, partitions: Iterable[int]) -> dict[int, int]:
        """The numbers of the latest events of some partitions."""
        wanted = set(partitions)
        rows = self._db.read("SELECT partition, seq, format FROM heads")
        check_format(max(row[2] for row in rows))
        return {row[0]: int(row[1]) for row in rows if row[0] in wanted}

    def partition_of(self, name: str) -> int:
        """The partition of a board of this name."""
        return partition_of(name, self.partitions)

    def time(self) -> float | None:
        """What time it is by the store's own clock, in seconds since 1970; None if it has none."""
        return self._db.time()

    def latest(self) -> tuple[int, float]:
        """The number of the latest event that is kept, and when it was written; zeros if there is none."""
        rows = self._db.read("SELECT seq, at FROM events ORDER BY seq DESC LIMIT 1")
        return (int(rows[0][0]), float(rows[0][1])) if rows else (0, 0.0)

    def append(self, rows: Sequence[NewEntry], at: float) -> tuple[list[int], list[Numbers]]:
        """Write events in one go; of each its number, and the numbers of its client and cohorts.

        On disk when it returns. Events of a partition are numbered in the order in which writes end: who has seen
        event n has seen all before it. Clients and cohorts of a board get 0, 1, 2, ... as they come; one that was
        forgotten gets a new number when it comes again. When somebody has one forgotten, events that a worker put
        before it had read of it are nobody's, -1, for they may be that client's.
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
        """Write an event, unless the log of its board was shortened beyond this edge or is gone; whether it did."""
        with self._db.transaction():
            self._take_numbers(board % self.partitions, 0)
            if not self._db.read("SELECT 1 FROM boards WHERE id = ? AND edge = ?", board, edge):
                return False
            self._write_event(self._take_numbers(board % self.partitions, 1), board, at, event)
        return True

    def entries(
        self, after: int, upto: int, board: int | None = None, most: int = 10_000, partition: int | None = None
    ) -> Iterator[LogEntry]:
        """Events after one number and up to another, in order, all of them or those of a board or a partition.

        Those with `damage` are not as they were written.
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
        """What some events of a board hold, by number, and up to which number they go; damaged ones are left out."""
        entries = list(itertools.islice(self.entries(after, upto, board, most), most))
        return entries[-1].seq if len(entries) == most else upto, {x.seq: x.body for x in entries if not x.damage}

    def rewrite(self, board: int, bodies: Mapping[int, bytes]) -> None:
        """Let events of a board, by number, hold something else: what has to be forgotten. All of them, or none."""
        with self._writing([board]):
            for seq, body in bodies.items():
                for (at,) in self._db.read("SELECT at FROM events WHERE seq = ? AND board = ?", seq, board):
                    checksum = event_checksum(seq, board, at, body)
                    self._db.write("UPDATE events SET body = ?, checksum = ? WHERE seq = ?", body, checksum, seq)

    def shortened(self, board: int) -> int:
        """Up to which event the log of a board became a snapshot; 0 if it is whole."""
        rows = self._db.read("SELECT edge FROM boards WHERE id = ?", board)
        return int(rows[0][0]) if rows else 0

    def edges(self, boards: Sequence[int]) -> dict[int, int]:
        """Up to which event the log of each of some boards became a snapshot; those that are gone are left out."""
        return {row[0]: row[1] for row in self._boards("id, edge", boards)}

    def _boards(self, columns: str, numbers: Sequence[int]) -> Iterator[Row]:
        for part in parts(numbers):
            places = ", ".join("?" * len(part))
            yield from self._db.read(f"SELECT {columns} FROM boards WHERE id IN ({places})", *part)

    def cut_after(self, seq: int) -> bool:
        """Whether events after this one, of its partition, became a snapshot."""
        step = self.partitions
        mine = f"AND MOD(id, {step:d}) = {seq % step:d}" if step > 1 else ""
        return bool(self._db.read(f"SELECT 1 FROM boards WHERE edge > ? {mine}", seq))

    def boards(self, numbers: Sequence[int] | None = None) -> dict[int, tuple[str, bytes]]:
        """Name and secret of every board, or of those with these numbers, by its number."""
        rows: Iterable[Row]
        if numbers is None:
            rows = self._db.read("SELECT id, name, secret FROM boards")
        else:
            rows = self._boards("id, name, secret", numbers)
        return {row[0]: (row[1], bytes(row[2])) for row in rows}

    def find_board(self, name: str) -> tuple[int, bytes] | None:
        """Number and secret of the board of this name; None if there is none."""
        rows = self._db.read("SELECT id, secret FROM boards WHERE name = ?", name)
        return (rows[0][0], bytes(rows[0][1])) if rows else None

    def known_boards(self, partitions: Iterable[int] | None = None) -> list[KnownBoard]:
        """Every board, or those of some partitions, the one whose latest event has the highest number first; some
        microseconds each."""
        step = self.partitions
        some = range(step) if partitions is None else sorted(partitions)
        mine = f"WHERE MOD(boards.id, {step:d}) IN ({', '.join(map(str, some)) or -1})" if len(some) < step else ""
        rows = self._db.read(
            "SELECT boards.id, boards.name, boards.secret, boards.edge, rests.seq, rests.body, "
            "(SELECT MAX(events.seq) FROM events WHERE events.board = boards.id) "
            f"FROM boards LEFT JOIN rests ON rests.board = boards.id {mine}"
        )
        boards = []
        seals: dict[int, list[Seal]] = {}  # of every board that has any, as `seals` gives them
        for board, secret, until in self._db.read("SELECT board, secret, until FROM seals ORDER BY number DESC"):
            seals.setdefault(board, []).append(Seal(bytes(secret), until))
        for number, name, secret, edge, seq, body, last in rows:
            latest = max(number, edge, last or 0)
            summary = None if seq is None or seq < latest else bytes(body)
            boards.append(KnownBoard(number, name, bytes(secret), latest, summary, seals.get(number, [])))
        return sorted(boards, key=lambda board: -board.latest)

    def keep_summaries(self, rows: Sequence[tuple[int, int, bytes]]) -> None:
        """Keep of some boards what is shown of them as of an event: board, event and content; the latest stays."""
        newer = "ON CONFLICT (board) DO UPDATE SET seq = excluded.seq, body = excluded.body"
        with self._writing([board for board, _, _ in rows]):
            there = self.edges([board for board, _, _ in rows])
            here = [row for row in rows if row[0] in there]
            insert(self._db, "rests", here, f"{newer} WHERE excluded.seq >= rests.seq")

    def create_board(self, name: str, event: bytes, at: float) -> int | None:
        """A new board and its first event; its number, or None if the name is taken."""
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
        """A board from elsewhere, with its log or with a snapshot and what came after; its number.

        `clients`: how many numbers were given to clients there; none of them is given to another one.
        """
        with self._db.transaction():
            extra = 0 if base is None else 1  # the snapshot stands for the beginning
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
        """The secrets by which ids of a board are signed, the one that signs first; none if it is its first one."""
        rows = self._db.read("SELECT secret, until FROM seals WHERE board = ? ORDER BY number DESC", board)
        return [Seal(bytes(secret), until) for secret, until in rows]

    def promise(self, board: int, until: float) -> None:
        """Keep that impression ids of a board may be given out that expire up to this time; the latest one stays."""
        with self._writing([board]):
            self._db.write("UPDATE boards SET promised = ? WHERE id = ? AND promised < ?", until, board, until)

    def promised(self, board: int) -> float:
        """The latest time that was promised; 0 if none was."""
        rows = self._db.read("SELECT promised FROM boards WHERE id = ?", board)
        return float(rows[0][0]) if rows else 0.0

    def rotate_seal(self, board: int, event: bytes, at: float, until: float) -> bool:
        """Have another secret sign from now on, and write the event that says so; False if the board is gone.

        Ids that were signed before are good until they expire, which they do before `until`.
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
        """End a board; one event stays, for the other workers: its number, up to which `wipe` deletes the log."""
        with self._db.transaction():
            seq = self._take_numbers(board % self.partitions, 1)
            self._db.write("DELETE FROM boards WHERE id = ?", board)
            self._write_event(seq, board, at, event)
        return seq

    def wipe_board(self, board: int, seq: int) -> None:
        """Delete the log before an event, the snapshots and clients of a board that was deleted."""
        self._cut(board, seq - 1)
        for table in ("snapshots", "clients", "rests", "seals"):
            with self._db.transaction():
                self._db.write(f"DELETE FROM {table} WHERE board = ?", board)

    def snapshots(self, board: int) -> list[int]:
        """Up to which event each snapshot of a board goes, the latest first."""
        return [row[0] for row in self._db.read("SELECT seq FROM snapshots WHERE board = ? ORDER BY seq DESC", board)]

    def snapshot(self, board: int, seq: int) -> bytes | None:
        """A snapshot; `Damaged` if it is not the one that was kept of this board as of this event."""
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
        """Keep a snapshot, and of older ones the latest and the oldest; what is kept, the first one of this event.

        Nothing is kept if it no longer `holds` once it is written.
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
        """Put a snapshot in the place of another one, as long as that `holds`; whether it did."""
        put = "UPDATE snapshots SET body = ?, checksum = ? WHERE board = ? AND seq = ?"
        with self._writing([board]):
            if not holds():
                return False
            self._db.write(put, body, _snapshot_checksum(board, seq, body), board, seq)
        return True

    def edge(self, board: int, before: float, most: int) -> int:
        """The latest event before all since a time, or that has `most` others of its board after it; 0 if none is.

        Times of events need not be in order, for clocks may have been wrong: no event since the time is left out.
        """
        young = "SELECT seq FROM events WHERE board = ? AND at >= ? ORDER BY seq LIMIT 1"
        old = "SELECT COALESCE(MAX(seq), 0) FROM events WHERE board = ? AND seq < ?"
        far = f"SELECT seq FROM events WHERE board = ? ORDER BY seq DESC LIMIT 1 OFFSET {most:d}"
        first = self._db.read(young, board, before)
        edges = self._db.read(old, board, first[0][0] if first else 2**63 - 1) + self._db.read(far, board)
        return max(0, *(int(row[0]) for row in edges))

    def shorten_log(self, board: int, since: int, edge: int, body: bytes, holds: Callable[[], bool]) -> int:
        """Put a snapshot in place of the events up to an edge; how many those were.

        0 if another was faster, or if what the snapshot was made by no longer `holds`; nothing is written meanwhile.
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
        """Delete what is left of boards that were deleted before a time."""
        with self._db.transaction():
            self._db.write("DELETE FROM events WHERE at < ? AND board NOT IN (SELECT id FROM boards)", before)
            for table in ("snapshots", "clients", "rests", "seals"):
                self._db.write(f"DELETE FROM {table} WHERE board NOT IN (SELECT id FROM boards)")

    def api_keys(self) -> list[Key]:
        """Every API key, revoked ones too."""
        rows = self._db.read(f"SELECT {_KEY_COLUMNS} FROM keys ORDER BY created, id")
        return [Key(row[0], bytes(row[1]), *row[2:]) for row in rows]

    def add_key(self, key: Key, who: str = "") -> None:
        """Keep an API key; `who` made it, for the record."""
        with self._db.transaction():
            _insert_key(self._db, key)
            detail = f"{key.id}: {key.scopes}" + ("" if key.expires is None else f", until {key.expires:.0f}")
            _add_act(self._db, key.created, who, "key made", key.board or "", detail)

    def revoke_key(self, key: str, at: float, who: str = "") -> bool:
        """End an API key; whether there was one that was not revoked."""
        with self._db.transaction():
            query = "UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL RETURNING id, board"
            ended = self._db.write(query, at, key)
            if ended:
                _add_act(self._db, at, who, "key revoked", ended[0][1] or "", key)
            return bool(ended)

    def replace_key(self, old: str, new: Key, until: float, who: str = "") -> bool:
        """Keep an API key in place of another, which works until a time at most; whether that one worked."""
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
        """Add to the record who changed what."""
        with self._writing():
            _add_act(self._db, at, who, what, board, detail)

    def acts(self, after: int = -1, most: int = 500) -> list[Act]:
        """Rows of the record after a number, in order; without a number, the latest."""
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
        """Say that a worker is alive, for so many seconds from now on."""
        self._db.write(
            f"INSERT INTO workers VALUES (?, ?, ?, {_NOW} + ?) ON CONFLICT (id) DO UPDATE SET until = excluded.until",
            *(id_, machine, address, lease),
        )

    def replace_worker(self, id_: int, machine: str, address: str) -> None:
        """A worker has begun at this address of a machine: whoever was there before is gone."""
        self._db.write("DELETE FROM workers WHERE machine = ? AND address = ? AND id <> ?", machine, address, id_)
        self._db.write(f"DELETE FROM workers WHERE until < {_NOW} - ?", _LONG_GONE)

    def holdings(self) -> tuple[list[Member], dict[int, Holding]]:
        """All workers, and by partition who owns it."""
        members = self._db.read(f"SELECT id, machine, address, until > {_NOW} FROM workers ORDER BY id")
        rows = self._db.read("SELECT partition, seq, owner, fence FROM heads")
        return [Member(*row) for row in members], {row[0]: Holding(*row[1:]) for row in rows}

    def take_partitions(self, id_: int, most: int) -> dict[int, int]:
        """Own at most so many partitions whose owners are gone; their fences.

        What somebody is writing to just now is left for the next time.
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
        """Have other workers own partitions: of each its number, the fence that it still has, and the worker."""
        if gifts:
            given, values = self._db.table(gifts)
            self._db.write(
                f"UPDATE heads SET owner = column3, fence = fence + 1 FROM {given} "
                "WHERE partition = column1 AND fence = column2",
                *values,
            )

    def leave(self, id_: int) -> None:
        """A worker ends: what it owned is nobody's."""
        self._db.write("UPDATE heads SET owner = 0, fence = fence + 1 WHERE owner = ?", id_)
        self._db.write("DELETE FROM workers WHERE id = ?", id_)

    def token(self) -> str:
        """What opens the pages of a store without API keys in a browser: the same one for all its workers."""
        find = "SELECT value FROM meta WHERE name = 'token'"
        if not self._db.read(find):
            with self._db.transaction():
                made = secrets.token_urlsafe(24)
                self._db.write("INSERT INTO meta VALUES ('token', ?) ON CONFLICT DO NOTHING", made)
        return str(self._db.read(find)[0][0])

    def clients(self, board: int) -> int:
        """How many numbers were given to clients of a board so far."""
        rows = self._db.read("SELECT clients FROM boards WHERE id = ?", board)
        return int(rows[0][0]) if rows else 0

    def client_number(self, board: int, client: int) -> int | None:
        """Which number a client or a cohort has, by its hash; None if it has none."""
        rows = self._db.read("SELECT number FROM clients WHERE board = ? AND hash = ?", board, client)
        return int(rows[0][0]) if rows else None

    def forget_client(self, board: int, client: int, at: float, event: Callable[[list[int]], bytes]) -> int:
        """Delete which number a client has; how many visits it had. An event says so, also if it had no number.

        What workers that have not read the event put, before or after it, is nobody's.
        """
        return self._forget(board, lambda: [client], at, event, asked=True)

    def forget_clients(self, board: int, before: float, at: float, event: Callable[[list[int]], bytes]) -> None:
        """Delete which numbers clients have that were last seen before a time; with events of these numbers."""
        old = f"SELECT hash FROM clients WHERE board = ? AND at < ? LIMIT {_CLIENTS_AT_ONCE:d}"
        while self._db.read(old, board, before):
            self._forget(board, lambda: [row[0] for row in self._db.read(old, board, before)], at, event)

    def cap_visits(self, board: int, now: float) -> None:
        """Clients that a wrong clock saw more than a minute after now were last seen now."""
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
        """Delete which numbers some clients have, and say so in the log; how many visits they had.

        Whatever ends what is kept of a client goes through here. If somebody `asked` for it, what workers put before
        they had read the event is nobody's.
        """
        with self._db.transaction():
            self._take_numbers(board % self.partitions, 0)
            gone = _forget_clients(self._db, board, which())
            if (gone or asked) and self._db.read("SELECT 1 FROM boards WHERE id = ?", board):
                seq = self._take_numbers(board % self.partitions, 1)
                numbers = sorted(number for number, _ in gone)
                self._write_event(seq, board, at, event(numbers))
                if asked:
                    # By the order of the log and not by a clock, which may be wrong. Only what is reported
                    # afterwards, with the time at which it happened, is compared with the time `at`.
                    self._db.write("UPDATE boards SET forgotten = ?, forgot = ? WHERE id = ?", seq, at, board)
        return sum(visits for _, visits in gone)

    def span(self, board: int) -> tuple[float, float]:
        """The earliest time at which a kept event of a board was written, and that of the last one; 0 if none is."""
        first = self._db.read("SELECT COALESCE(MIN(at), 0) FROM events WHERE board = ?", board)
        last = self._db.read("SELECT at FROM events WHERE board = ? ORDER BY seq DESC LIMIT 1", board)
        return float(first[0][0]), float(last[0][0]) if last else 0.0


def would_be_new(url: str) -> bool:
    """Whether to open this store would make its file; a PostgreSQL database is there before."""
    path = url.removeprefix("sqlite:///")
    return path not in (url, ":memory:") and not pathlib.Path(path).exists()


def open_store(url: str, fences: Mapping[int, int] | None = None) -> SqlStore:
    """The store of `sqlite:///PATH` or `postgresql://...`; its tables are made, or brought up to date.

    `fences`: which partitions may be written, and under which fence; None: all of them.
    """
    return SqlStore(url, fences)


def partition_of(name: str, partitions: int) -> int:
    """Which of so many partitions a board of this name falls into."""
    return zlib.crc32(name.encode()) % partitions


def _event_row(seq: int, board: int, at: float, body: bytes) -> Row:
    """The row of an event."""
    return seq, board, at, body, event_checksum(seq, board, at, body)


def _snapshot_row(board: int, seq: int, body: bytes) -> Row:
    """The row of a snapshot."""
    return board, seq, body, _snapshot_checksum(board, seq, body)


def event_checksum(seq: int, board: int, at: float, body: bytes) -> int:
    """64 bits of an event, as a number that both databases can keep."""
    return _checksum(_EVENT_PREFIX.pack(seq, board, at) + body)


def _snapshot_checksum(board: int, seq: int, body: bytes) -> int:
    """64 bits of whose snapshot it is, as of which event, and of the digest that it begins with."""
    return _checksum(_SNAPSHOT_PREFIX.pack(seq, board, len(body)) + body[:_BEGINNING])


def _checksum(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)


class _Clients:
    """The clients and cohorts of some events that are to be written, and the numbers that they get.

    To be used while no other transaction writes events of these boards. Nothing is remembered between writes: a
    client that was forgotten meanwhile would come back under its old number. The same few statements for any number
    of boards.
    """

    def __init__(self, rows: Sequence[NewEntry]) -> None:
        self._rows = rows
        senders = [(row.board, row.sender) for row in rows if row.sender is not None]
        self._boards = sorted({board for board, _ in senders})
        self._asked = list({(board, who): None for board, sender in senders for who in sender.hashes if who})
        self._numbers: dict[tuple[int, int], int] = {}  # by board and hash
        self._visits: dict[tuple[int, int], int] = {}
        self._given: dict[int, int] = {}  # by board that gives new numbers: how many it has given by now

    def queries(self, db: Database) -> list[Query]:
        """What has to be read: which numbers clients have, and of boards how many they gave, and by which event and
        when a client was forgotten last."""
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

    def number(self, found: Sequence[Sequence[Row]], at: float) -> list[Numbers]:
        """The numbers of each event's client and cohorts by what was read: new ones if they have none yet, `_NOBODY`
        without a name."""
        middle = len(list(parts(self._boards)))
        boards = {row[0]: row[1:] for rows in found[:middle] for row in rows}
        self._numbers = {(row[0], row[1]): row[2] for rows in found[middle:] for row in rows}
        result: list[Numbers] = []
        for row in self._rows:
            sender, board = row.sender, boards.get(row.board)
            if sender is None:
                result.append(())
            elif board is None or not _is_named(sender, board[1], board[2], at):
                result.append((_NOBODY,) * len(sender.hashes))
            else:
                result.append(tuple([self._number(row.board, who, board[0], sender) for who in sender.hashes]))
        return result

    def _number(self, board: int, who: int, given: int, sender: Sender) -> int:
        """The number of a client or cohort, whose board had given so many before."""
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
        """Keep the new numbers, and who was seen."""
        rows = [(board, who, self._numbers[board, who], n, at) for (board, who), n in self._visits.items()]
        insert(db, "clients", rows, _CLIENT_SEEN)
        for part in parts(sorted(self._given.items())):
            given, values = db.table(part)
            db.put((f"UPDATE boards SET clients = column2 FROM {given} WHERE id = column1", values))


def _is_named(sender: Sender, forgotten: int, forgot: float, at: float) -> bool:
    """Whether what somebody sent is still theirs, of a board that had a client forgotten by this event, at this time.

    A time that is ahead was told by a wrong clock.
    """
    return sender.since >= forgotten and (sender.time is None or sender.time >= forgot or forgot > at + _AHEAD)


def _forget_clients(db: Database, board: int, clients: Sequence[int]) -> list[tuple[int, int]]:
    """Delete which numbers clients have; number and visits of each that had one."""
    gone: list[tuple[int, int]] = []
    for part in parts(clients):
        places = ", ".join("?" * len(part))
        query = f"DELETE FROM clients WHERE board = ? AND hash IN ({places}) RETURNING number, visits"
        gone += [(row[0], row[1]) for row in db.write(query, board, *part)]
    return gone


def _insert_key(db: Database, key: Key) -> None:
    db.write(f"INSERT INTO keys ({_KEY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", *key)


def _write_seals(db: Database, board: int, seals: Sequence[Seal]) -> None:
    """Put secrets, the one that signs first, in place of those of a board; inside a transaction."""
    db.write("DELETE FROM seals WHERE board = ?", board)
    for number, seal in enumerate(reversed(seals)):
        db.write("INSERT INTO seals (board, number, secret, until) VALUES (?, ?, ?, ?)", board, number, *seal)


def _add_act(db: Database, at: float, who: str, what: str, board: str, detail: str) -> None:
    """Add a row, inside a transaction; writers take turns."""
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
    """The number of the first row that does not follow from the one before, from the beginning on; 0 if all do."""
    before = b""
    for number, act in enumerate(acts, 1):
        if act.number != number or act.digest != _act_digest(before, act[:6]):
            return act.number
        before = act.digest
    return 0


def _act_digest(before: bytes, row: Row) -> bytes:
    return hashlib.sha256(before + json.dumps(row).encode()).digest()
