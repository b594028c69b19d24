"""The events of a board's log. Each is stored as MessagePack: its kind, then its fields in the order below.

Unknown fields are refused rather than ignored: a newer version wrote them, and the event would mean something else
here. New fields go at the end, with a default, and raise `FORMAT` of `storage/tables.py`.

Every event is idempotent, and harmless if it comes too late to have an effect: a write whose outcome is unknown is
simply repeated.
"""

import itertools
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, TypeAlias

import msgspec
import numpy as np

from ...core.arrays import Ints
from ...core.contract import ANYONE
from ...live.collection.collection_state import ShownItems
from .config import Config, Known, Setting

KIND_NAME = "[A-Za-z0-9_-]{1,32}"  # of cohorts


class Created(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="created"):
    """The board is created."""

    config: Config
    items: list[str]
    features: dict[str, Known] = {}  # features of items by item name


class Configured(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="configured"):
    """Settings change from here on; if they change what is learnt, the log is replayed."""

    changes: dict[str, Setting]


class Deleted(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="deleted"):
    """The board is deleted."""


class Mixed(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """The two rankings a list was mixed of, and the team of each of its places (`comparison.interleaving`)."""

    teams: list[int]
    ours: list[int]
    theirs: list[int]


class _OfList(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A list. `base`: the latest impression that the worker knew of; `ranking`: slots of items."""

    key: int
    round: int
    base: int
    generation: int
    ranking: list[int]
    note: list[tuple[int, float]]  # the entries that are not 0, with their places


class ListShown(_OfList, frozen=True, tag="shown"):
    """A list was shown. `time`: when, in seconds since 1970, only for display; 0 in old logs."""

    time: float = 0.0
    client: int = ANYONE  # the number that the store assigned to the client
    cohorts: dict[str, int] = {}  # by kind, the number that the store assigned to the cohort of the client
    mixed: Mixed | None = None  # of another ranker's list and ours; None: the list is ours
    features: Known = {}  # features of the visit
    of: ShownItems | None = None  # in a collection, where `ranking` has places of the engine's order
    placed: list[int] = []  # who chose each place, as in `live/ruled_list.py`; empty: the learner chose all


class ListsShown(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="lists"):
    """Several lists of `size` items, given out by one worker in succession; each stands for a `ListShown`.

    On a busy board an event per list would cost more than the list. Stored as columns: 8 bytes per list, and slots of
    4 bytes, little-endian.
    """

    size: int
    generation: int
    key: bytes
    round: bytes
    base: bytes
    ranking: bytes
    time: bytes
    note: list[tuple[int, int, float]] = []  # (list, place in its note, value)
    client: bytes = b""  # empty: all lists are anonymous
    cohorts: list[dict[str, int]] = []  # empty: none
    features: list[Known] = []  # empty: nothing is known

    def __post_init__(self) -> None:
        count, columns = len(self), (self.key, self.round, self.base, self.time, self.client or self.key)
        whole = all(len(column) == 8 * count for column in columns)
        whole = whole and len(self.ranking) == 4 * count * self.size > 0
        whole = whole and all(len(some) in (0, count) for some in (self.cohorts, self.features))
        if not whole or any(not 0 <= number < count or place < 0 for number, place, _ in self.note):
            raise ValueError("lists in one event whose columns do not fit together")

    def __len__(self) -> int:
        return len(self.key) // 8

    @property
    def first_key(self) -> int:
        """The key of the first list."""
        return int.from_bytes(self.key[:8], "little")

    def clients(self) -> list[int]:
        """The client number of each list."""
        return numbers(self.client).tolist() if self.client else [ANYONE] * len(self)

    def slots(self) -> Ints:
        """A row of slots for each list."""
        return np.frombuffer(self.ranking, "<u4").astype(np.int64).reshape(-1, self.size)

    def each(self) -> Iterator[ListShown]:
        """Iterate over the lists as single events."""
        notes: list[list[tuple[int, float]]] = [[] for _ in range(len(self))]
        for number, place, value in self.note:
            notes[number].append((place, value))
        return map(
            ListShown,
            np.frombuffer(self.key, "<u8").tolist(),
            numbers(self.round).tolist(),
            numbers(self.base).tolist(),
            itertools.repeat(self.generation),
            self.slots().tolist(),
            notes,
            np.frombuffer(self.time, "<f8").tolist(),
            self.clients(),
            self.cohorts or itertools.repeat({}),
            itertools.repeat(None),
            self.features or itertools.repeat({}),
        )


class Answered(_OfList, frozen=True, tag="answered"):
    """An impression was answered. It repeats the list, since `ListShown` is written asynchronously."""

    clicks: list[int]  # positions from 0
    examined: int
    time: float = 0.0  # when the list was shown
    client: int = ANYONE
    cohorts: dict[str, int] = {}
    teams: list[int] = []  # of a mixed list: the team of each place
    features: Known = {}  # features of the visit, unless a `ListShown` precedes
    of: ShownItems | None = None  # in a collection, likewise


class Withheld(_OfList, frozen=True, tag="withheld"):
    """An answer was refused because its client had sent too many.

    The impression can still be answered; if it never is, it does not count as seen without a click. It repeats the
    list, as `Answered` does.
    """

    time: float = 0.0  # when the list was shown
    client: int = ANYONE
    cohorts: dict[str, int] = {}
    features: Known = {}
    of: ShownItems | None = None


class Outcome(_OfList, frozen=True, tag="outcome"):
    """A click had an outcome. It repeats the list, as `Answered` does, since either may come first."""

    slot: int  # of the item
    number: int  # derived from the caller's id
    amount: float  # its value; negative for a return
    time: float = 0.0  # when the list was shown
    client: int = ANYONE
    cohorts: dict[str, int] = {}
    features: Known = {}
    of: ShownItems | None = None


class Observed(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="observed"):
    """Another ranker showed a list; with its clicks, if known. `key`: derived from the caller's id.

    `ours`: the list that this board would have shown to the same visitor at that time. Neither it nor the chances
    below are learnt from: they serve to compare the two rankers.
    """

    generation: ClassVar[int] = 0  # our learner did not make it
    note: ClassVar[list[tuple[int, float]]] = []

    key: int
    round: int
    base: int
    ranking: list[int]
    clicks: list[int] | None  # positions from 0; None: not answered yet
    examined: int
    time: float  # when the list was shown
    ours: list[int] = []
    propensities: list[float] = []  # of the item at each place, given those above it; empty: unknown
    marginals: list[float] = []  # of the item at each place, whatever is above it; empty: unknown
    client: int = ANYONE
    cohorts: dict[str, int] = {}
    features: Known = {}
    stream: str = ""  # the stream and its partition; empty: not from a stream
    offset: int = 0  # in the partition
    of: ShownItems | None = None  # in a collection, where `ours` has ids of items


class Forgotten(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="forgotten"):
    """These numbers of clients are void from here on: if one of the clients comes again, it gets a new number."""

    clients: list[int]


class Settled(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="settled"):
    """The settling time of impressions up to this number is over: their answers are learnt from."""

    upto: int


class Expired(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="expired"):
    """Impressions up to this number can no longer be answered."""

    upto: int


class Added(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="added"):
    """Items are added, or reinstated."""

    items: list[str]
    features: dict[str, Known] = {}  # new features of some of them
    by_lists: bool = False  # added by lists of another ranker, which may add only a limited number


class Described(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="described"):
    """New features of items, by item name; each replaces all former features of its item."""

    features: dict[str, Known]


class Retired(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="retired"):
    """One or more items are retired: no longer shown."""

    item: str
    others: list[str] = []


class Past(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A list shown before the board existed: items from the top, positions clicked from 0, places examined."""

    items: list[str]
    clicks: list[int]
    examined: int
    features: Known = {}  # features of the visit
    of: ShownItems | None = None  # in a collection, in place of `items`
    places: list[int] = []  # in a collection, of the engine's order
    value: float = 0.0  # of the outcome of the only click


class History(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="history"):
    """A part of a batch of clicks from before the board existed; a part that came before has no effect.

    `batch`: the name of the batch and the number of its first row here, such as june#1000. The part is refused if its
    name came before with other rows, or with another size of the batch.
    """

    rows: list[Past]
    batch: str
    total: int = 0  # rows of the whole batch; 0 in old logs


class Labelled(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="labelled"):
    """A label, fraud or honest, for the feedback of some rounds; a `key` that came before has no effect.

    With a `client`: for all feedback of this client, or of the cohort with this number; `kind`: the kind of the
    cohort.
    """

    key: int
    start: int
    end: int
    label: str
    client: int = ANYONE
    kind: str = ""


class Unlabelled(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="unlabelled"):
    """A label is removed, by its number."""

    number: int


class QueryForgotten(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="query"):
    """A collection forgets a query, by its id, and the random id that replaces it.

    Afterwards every earlier event of the query, and this one, is rewritten with the replacement id, which means
    nothing.
    """

    query: int
    now: int


class Resealed(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="resealed"):
    """Another secret, kept in the store, signs impression ids from here on; nothing else changes."""


OfVisitor: TypeAlias = ListShown | Answered | Withheld | Outcome | Observed
_OfItems: TypeAlias = Added | Described | Retired | History
_ByHand: TypeAlias = Labelled | Unlabelled | QueryForgotten | Resealed
AnyEvent: TypeAlias = (
    Created | Configured | Deleted | OfVisitor | ListsShown | Forgotten | Settled | Expired | _OfItems | _ByHand
)

_encode_into = msgspec.msgpack.Encoder().encode_into
_decoder, _list_decoder = msgspec.msgpack.Decoder(AnyEvent), msgspec.msgpack.Decoder(list[AnyEvent])
_LIST = struct.Struct(">BI")  # the header of a MessagePack array: type and length
_RECONFIGURING = tuple(msgspec.msgpack.encode(tag) for tag in ("configured", "labelled", "unlabelled"))
_FORGETTING = msgspec.msgpack.encode("query")


def encode(event: AnyEvent) -> bytes:
    """Encode an event for the log. `Encoder.encode` of msgspec 0.22 crashes the process when memory runs out."""
    buffer = bytearray()
    _encode_into(event, buffer)
    return bytes(buffer)


def decode(body: bytes) -> AnyEvent:
    """Decode the output of `encode`."""
    event: AnyEvent = _decoder.decode(body)
    return event


def decode_all(bodies: Sequence[bytes]) -> list[AnyEvent]:
    """Decode many events, faster than one by one."""
    some: list[AnyEvent] = _list_decoder.decode(_LIST.pack(0xDD, len(bodies)) + b"".join(bodies))
    return some


def numbers(column: bytes) -> Ints:
    """What a column of `ListsShown` holds, but keys, times and slots."""
    return np.frombuffer(column, "<i8")


def may_join(event: AnyEvent) -> bool:
    """Whether an event can be one of several lists that are written as one."""
    if not isinstance(event, ListShown) or event.mixed is not None or event.of is not None:
        return False
    return bool(event.ranking) and not event.placed


def join(some: Sequence[AnyEvent]) -> ListsShown:
    """Lists as one event. Each `may_join`; they are of one size and one generation."""
    lists = [one for one in some if isinstance(one, ListShown)]
    named, known = any(one.client != ANYONE for one in lists), any(one.features for one in lists)
    return ListsShown(
        len(lists[0].ranking),
        lists[0].generation,
        np.array([one.key for one in lists], "<u8").tobytes(),
        _column(one.round for one in lists),
        _column(one.base for one in lists),
        np.array([one.ranking for one in lists], "<u4").tobytes(),
        np.array([one.time for one in lists], "<f8").tobytes(),
        [(number, *noted) for number, one in enumerate(lists) for noted in one.note],
        _column(one.client for one in lists) if named else b"",
        [one.cohorts for one in lists] if any(one.cohorts for one in lists) else [],
        [one.features for one in lists] if known else [],
    )


def _column(values: Iterable[int]) -> bytes:
    return np.fromiter(values, "<i8").tobytes()


def of_sender(event: AnyEvent, numbers: tuple[int, ...]) -> AnyEvent:
    """Set the numbers of the client and its cohorts (in their order) in a list or an answer."""
    assert isinstance(event, OfVisitor)
    client, *others = numbers
    pairs = zip(event.cohorts, others, strict=True)
    cohorts = {kind: number for kind, number in pairs if number != ANYONE} if others else {}
    return msgspec.structs.replace(event, client=client, cohorts=cohorts)


def forgotten(numbers: list[int]) -> bytes:
    """An encoded `Forgotten` event for these numbers of clients."""
    return encode(Forgotten(numbers))


def reconfigures(body: bytes) -> bool:
    """Return whether an encoded event may change how earlier events are learnt from."""
    return body.startswith(_RECONFIGURING, 1)  # after the byte that begins the array of fields


def forgets_query(body: bytes) -> bool:
    """Return whether an encoded event forgets a query."""
    return body.startswith(_FORGETTING, 1)
