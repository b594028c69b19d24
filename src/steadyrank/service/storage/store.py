"""What a store takes and gives: rows of the log, senders, boards, API keys, and what can go wrong."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias


class Unavailable(Exception):
    """The store cannot be reached or cannot write now. Nothing that was acknowledged is lost; try again later."""


class Unwritable(Unavailable):
    """The store's disk is full or read-only, or failed."""


class Outdated(Unavailable):
    """The store has another format, of a newer version most often: this one reads and writes nothing in it."""


class Fenced(Unavailable):
    """Other workers own these partitions by now: nothing was written."""

    def __init__(self, partitions: Iterable[int]) -> None:
        self.partitions = frozenset(partitions)
        super().__init__(f"another worker owns partition {', '.join(map(str, sorted(self.partitions)))} by now")


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
    summary: bytes | None  # what was kept when it was evicted; None if there are events after that
    seals: list[Seal]  # as `SqlStore.seals` says


class Member(NamedTuple):
    """A worker that others know of."""

    id: int
    machine: str
    address: str  # HOST:PORT at which other workers reach it
    alive: bool  # it renewed its lease in time


class Holding(NamedTuple):
    """Who owns a partition."""

    seq: int  # the number of its latest event
    owner: int  # id of a worker, 0 for none
    fence: int  # how often it got another owner: who writes has to know it
