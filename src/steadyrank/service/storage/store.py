"""What is on the disk, whatever keeps it: the log of events, snapshots, boards, API keys and clients."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias


class Unavailable(Exception):
    """The store cannot be reached or cannot write now. Nothing that was acknowledged is lost; try again later."""


class Unwritable(Unavailable):
    """The store's disk is full or read-only, or failed."""


class Outdated(Unavailable):
    """A newer version has upgraded the store: this one reads and writes nothing in it any more."""


class Damaged(ValueError):
    """A row that is not as it was written."""


class LogEntry(NamedTuple):
    """A row of the log."""

    seq: int
    board: int
    at: float  # seconds since 1970, for people and retention; no fold reads it
    body: bytes
    damage: str = ""  # why it must not be applied: it is not as it was written


class Sender(NamedTuple):
    """The client of an event that is to be written."""

    hash: int  # 63 bits of a keyed hash of its name; 0: it has none
    since: int  # when it came: the latest event that the worker had read by then
    visits: int = 1  # 0: an answer, which is no visit of its own
    cohorts: tuple[int, ...] = ()  # such hashes of the cohorts that it is in
    time: float | None = None  # when it came, in seconds since 1970, if that is reported afterwards

    @property
    def hashes(self) -> tuple[int, ...]:
        """Its own, and those of its cohorts."""
        return (self.hash, *self.cohorts)


# of the client of an event, and of its cohorts, on its board; none without a sender
Numbers: TypeAlias = tuple[int, ...]


class NewEntry(NamedTuple):
    """An event to be written; of one with a sender, what makes it of the numbers that the store gives."""

    board: int
    body: bytes | Callable[[Numbers], bytes]
    sender: Sender | None = None


class Key(NamedTuple):
    """An API key as it is stored: only a hash of it."""

    id: str
    hash: bytes
    scopes: str
    board: str | None
    created: float
    revoked: float | None
    expires: float | None = None

    def works(self, now: float) -> bool:
        """Whether it opens anything."""
        return self.revoked is None and (self.expires is None or now < self.expires)


class Act(NamedTuple):
    """A row of the record: who changed what."""

    number: int  # from 1
    at: float  # seconds since 1970
    who: str  # id of an API key, or what else asked for it
    what: str
    board: str  # empty where it concerns none, or all
    detail: str
    digest: bytes  # of this row and the one before


class Seal(NamedTuple):
    """A secret by which impression ids of a board are signed."""

    secret: bytes
    until: float | None  # ids that it signed expire before this time; None: it signs


class KnownBoard(NamedTuple):
    """A board as the store knows it without looking at its events."""

    number: int
    name: str
    secret: bytes
    latest: int  # its latest event
    rest: bytes | None  # what was kept when it went to sleep; None if there are events after that
    seals: list[Seal]  # as `Store.seals` says


class Store(Protocol):
    """A connection to a store, used by one thread at a time; what fails is `Unavailable`.

    Once a newer version has upgraded the store, writing and asking for its head is `Outdated`.
    """

    def reading(self) -> contextlib.AbstractContextManager[None]:
        """All that is read inside belongs to one moment."""

    def close(self) -> None:
        """End the connection."""

    def try_writing(self) -> None:
        """See whether something can be written; nothing changes."""

    def head(self) -> int:
        """The number of the latest event."""

    def time(self) -> float | None:
        """What time it is by the store's own clock, in seconds since 1970; None if it has none."""

    def latest(self) -> tuple[int, float]:
        """The number of the latest event that is kept, and when it was written; zeros if there is none."""

    def append(self, rows: Sequence[NewEntry], at: float) -> tuple[int, list[Numbers]]:
        """Write events in one go; the number of the first one, and of each the numbers of its client and cohorts.

        On disk when it returns. Events are numbered in the order in which writes end: who has seen event n has seen
        all before it. Clients and cohorts of a board get 0, 1, 2, ... as they come; one that was forgotten gets a new
        number when it comes again. When somebody has one forgotten, events that a worker put before it had read of it
        are nobody's, -1, for they may be that client's.
        """

    def append_if(self, board: int, edge: int, event: bytes, at: float) -> bool:
        """Write an event, unless the log of its board was shortened beyond this edge or is gone; whether it did."""

    def entries(self, after: int, upto: int, board: int | None = None, most: int = 10_000) -> Iterator[LogEntry]:
        """Events after one number and up to another, in order; those with `damage` are not as they were written."""

    def shortened(self, board: int) -> int:
        """Up to which event the log of a board became a snapshot; 0 if it is whole."""

    def edges(self, boards: Sequence[int]) -> dict[int, int]:
        """Up to which event the log of each of some boards became a snapshot; those that are gone are left out."""

    def cut_after(self, seq: int) -> bool:
        """Whether events after this one became a snapshot."""

    def boards(self, numbers: Sequence[int] | None = None) -> dict[int, tuple[str, bytes]]:
        """Name and secret of every board, or of those with these numbers, by its number."""

    def known(self) -> list[KnownBoard]:
        """Every board, the one whose latest event is the latest first; some microseconds each."""

    def rest(self, rows: Sequence[tuple[int, int, bytes]]) -> None:
        """Keep of some boards what is shown of them as of an event: board, event and content; the latest stays."""

    def create(self, name: str, event: bytes, at: float) -> int | None:
        """A new board and its first event; its number, or None if the name is taken."""

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

    def seals(self, board: int) -> list[Seal]:
        """The secrets by which ids of a board are signed, the one that signs first; none if it is its first one."""

    def promise(self, board: int, until: float) -> None:
        """Keep that impression ids of a board may be given out that expire up to this time; the latest one stays."""

    def promised(self, board: int) -> float:
        """The latest time that was promised; 0 if none was."""

    def rotate_seal(self, board: int, event: bytes, at: float, until: float) -> bool:
        """Have another secret sign from now on, and write the event that says so; False if the board is gone.

        Ids that were signed before are good until they expire, which they do before `until`.
        """

    def delete(self, board: int, event: bytes, at: float) -> int:
        """End a board; one event stays, for the other workers: its number, up to which `wipe` deletes the log."""

    def wipe(self, board: int, seq: int) -> None:
        """Delete the log before an event, the snapshots and clients of a board that was deleted."""

    def snapshots(self, board: int) -> list[int]:
        """Up to which event each snapshot of a board goes, the latest first."""

    def snapshot(self, board: int, seq: int) -> bytes | None:
        """A snapshot; `Damaged` if it is not the one that was kept of this board as of this event."""

    def save(self, board: int, seq: int, body: bytes, keep: int = 2) -> bytes:
        """Keep a snapshot, and of older ones the latest and the oldest; what is kept, the first one of this event."""

    def replace(self, board: int, seq: int, body: bytes) -> None:
        """Put a snapshot in the place of one that cannot be read."""

    def edge(self, board: int, before: float, most: int) -> int:
        """The latest event before all since a time, or that has `most` others of its board after it; 0 if none is.

        Times of events need not be in order, for clocks may have been wrong: no event since the time is left out.
        """

    def forget(self, board: int, since: int, edge: int, body: bytes, holds: Callable[[], bool]) -> int:
        """Put a snapshot in place of the events up to an edge; how many those were.

        0 if another was faster, or if what the snapshot was made by no longer `holds`; nothing is written meanwhile.
        """

    def sweep(self, before: float) -> None:
        """Delete what is left of boards that were deleted before a time."""

    def api_keys(self) -> list[Key]:
        """Every API key, revoked ones too."""

    def add_key(self, key: Key, who: str = "") -> None:
        """Keep an API key; `who` made it, for the record."""

    def revoke(self, key: str, at: float, who: str = "") -> bool:
        """End an API key; whether there was one that was not revoked."""

    def replace_key(self, old: str, new: Key, until: float, who: str = "") -> bool:
        """Keep an API key in place of another, which works until a time at most; whether that one worked."""

    def record(self, at: float, who: str, what: str, board: str, detail: str) -> None:
        """Add to the record who changed what."""

    def acts(self, after: int = -1, most: int = 500) -> list[Act]:
        """Rows of the record after a number, in order; without a number, the latest."""

    def token(self) -> str:
        """What opens the pages of a store without API keys in a browser: the same one for all its workers."""

    def clients(self, board: int) -> int:
        """How many numbers were given to clients of a board so far."""

    def client_number(self, board: int, client: int) -> int | None:
        """Which number a client or a cohort has, by its hash; None if it has none."""

    def forget_client(self, board: int, client: int, at: float, event: Callable[[list[int]], bytes]) -> int:
        """Delete which number a client has; how many visits it had. An event says so, also if it had no number.

        What workers that have not read the event put, before or after it, is nobody's.
        """

    def forget_clients(self, board: int, before: float, at: float, event: Callable[[list[int]], bytes]) -> None:
        """Delete which numbers clients have that were last seen before a time; with events of these numbers."""

    def cap_visits(self, board: int, now: float) -> None:
        """Clients that a wrong clock saw more than a minute after now were last seen now."""

    def span(self, board: int) -> tuple[float, float]:
        """The earliest time at which a kept event of a board was written, and that of the last one; 0 if none is."""
