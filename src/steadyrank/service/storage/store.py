"""Types at the interface of a store: rows of the log, senders, boards, API keys, and exceptions."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias


class Unavailable(Exception):
    """The store cannot be reached or cannot write now. No acknowledged write is lost; try again later."""


class Unwritable(Unavailable):
    """The store's disk is full, read-only or broken."""


class Outdated(Unavailable):
    """The store has another format, usually of a newer version: this version neither reads nor writes it."""


class Fenced(Unavailable):
    """Other workers own these partitions now; nothing was written."""

    def __init__(self, partitions: Iterable[int]) -> None:
        self.partitions = frozenset(partitions)
        super().__init__(f"another worker owns partition {', '.join(map(str, sorted(self.partitions)))} by now")


class Damaged(ValueError):
    """A row that was changed since it was written."""


class LogEntry(NamedTuple):
    """A row of the log."""

    seq: int
    board: int
    at: float  # seconds since 1970, for display and retention; replays ignore it
    body: bytes
    damage: str = ""  # why the row must not be applied; empty if it is intact


class Sender(NamedTuple):
    """The client of an event to be written."""

    hash: int  # 63 bits of a keyed hash of its name; 0: no name
    since: int  # the latest event that the worker had read when the client came
    visits: int = 1  # 0: an answer, which is no visit of its own
    cohorts: tuple[int, ...] = ()  # hashes of its cohorts
    time: float | None = None  # when it came, in seconds since 1970, for events reported later

    @property
    def hashes(self) -> tuple[int, ...]:
        """Its own hash, followed by those of its cohorts."""
        return (self.hash, *self.cohorts)


# of an event's client and its cohorts, on its board; empty without a sender
Numbers: TypeAlias = tuple[int, ...]


class NewEntry(NamedTuple):
    """An event to be written; with senders, `body` makes the event from the numbers that the store assigns."""

    board: int
    body: bytes | Callable[[Sequence[Numbers]], bytes]
    senders: Sequence[Sender | None] = ()


class Key(NamedTuple):
    """An API key as stored: only its hash."""

    id: str
    hash: bytes
    scopes: str
    board: str | None
    created: float
    revoked: float | None
    expires: float | None = None

    def works(self, now: float) -> bool:
        """Return whether the key is valid."""
        return self.revoked is None and (self.expires is None or now < self.expires)


class Act(NamedTuple):
    """A row of the audit record: who changed what."""

    number: int  # from 1
    at: float  # seconds since 1970
    who: str  # id of an API key, or another description of the author
    what: str
    board: str  # empty if it concerns no board, or all
    detail: str
    digest: bytes  # of this row and the digest before


class Seal(NamedTuple):
    """A secret that signs impression ids of a board."""

    secret: bytes
    until: float | None  # ids that it signed expire before this time; None: it is the one that signs now


class KnownBoard(NamedTuple):
    """What the store knows of a board without reading its events."""

    number: int
    name: str
    secret: bytes
    latest: int  # its latest event
    summary: bytes | None  # stored when it was evicted; None if there are later events
    seals: list[Seal]  # as from `SqlStore.seals`


class Member(NamedTuple):
    """A worker in the table of workers."""

    id: int
    machine: str
    address: str  # HOST:PORT for other workers
    alive: bool  # whether it renewed its lease in time


class Holding(NamedTuple):
    """The owner of a partition."""

    seq: int  # the number of its latest event
    owner: int  # id of a worker, 0 for none
    fence: int  # raised with each change of owner; writers must know it
