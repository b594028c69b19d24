"""What a board's log holds. Each event is stored as MessagePack: its kind, then its fields in the order below.

Fields that are not known are refused, not left out: a newer version wrote them, and to this one the event would mean
something else. A field is added at the end, with a default, and with a higher `FORMAT` of `storage/tables.py`.

Every event can come twice, or come when it has no effect any more, without harm: a write whose outcome is unknown is
simply written again.
"""

import struct
from collections.abc import Sequence
from typing import ClassVar, TypeAlias

import msgspec

from ...core.contract import ANYONE
from ...live.collection.collection_state import ShownItems
from .config import Config, Known, Setting

KIND_NAME = "[A-Za-z0-9_-]{1,32}"  # of cohorts


class Created(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="created"):
    """The board begins."""

    config: Config
    items: list[str]
    features: dict[str, Known] = {}  # what is known of items, by their names


class Configured(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="configured"):
    """Some settings are others from here on; where that changes what is learnt, the log is folded again."""

    changes: dict[str, Setting]


class Deleted(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="deleted"):
    """The board ends."""


class Mixed(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What a list was mixed of, from the top, and which of its places are whose (`comparison.interleaving`)."""

    teams: list[int]
    ours: list[int]
    theirs: list[int]


class _OfList(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What was shown. `base`: the latest impression that the worker knew of; `ranking`: slots of items."""

    key: int
    round: int
    base: int
    generation: int
    ranking: list[int]
    note: list[tuple[int, float]]  # the places that are not 0


class ListShown(_OfList, frozen=True, tag="shown"):
    """A list was shown. `time`: when, in seconds since 1970, for people to see; 0 in old logs."""

    time: float = 0.0
    client: int = ANYONE  # the number that the store gave to whom it was shown
    cohorts: dict[str, int] = {}  # by kind, the number that the store gave to the cohort that the client is in
    mixed: Mixed | None = None  # of another ranker's list and ours; None: it is ours
    features: Known = {}  # what was known of the visit
    of: ShownItems | None = None  # in a collection, where `ranking` has places of the engine's order
    placed: list[int] = []  # whose each place is, as in `live/ruled_list.py`; empty: all are the learner's own


class Answered(_OfList, frozen=True, tag="answered"):
    """An impression was answered; it says again what was shown, since `ListShown` is written without waiting."""

    clicks: list[int]  # positions from 0
    examined: int
    time: float = 0.0  # when it was shown
    client: int = ANYONE
    cohorts: dict[str, int] = {}
    teams: list[int] = []  # of a mixed list, which of its places are whose
    features: Known = {}  # what was known of the visit, unless `ListShown` came before
    of: ShownItems | None = None  # in a collection, likewise


class Withheld(_OfList, frozen=True, tag="withheld"):
    """An answer to an impression was refused, since its client had sent too many. It can still be answered; if it is
    not, it is not taken for one that nobody clicked. It says again what was shown, as `Answered` does."""

    time: float = 0.0  # when it was shown
    client: int = ANYONE
    cohorts: dict[str, int] = {}
    features: Known = {}
    of: ShownItems | None = None


class Outcome(_OfList, frozen=True, tag="outcome"):
    """Something came of a click. It says again what was shown, as `Answered` does: either may come first."""

    slot: int  # of the item
    number: int  # made of the id that the caller gave
    amount: float  # what it is worth; less than 0 for a return
    time: float = 0.0  # when the list was shown
    client: int = ANYONE
    cohorts: dict[str, int] = {}
    features: Known = {}
    of: ShownItems | None = None


class Observed(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="observed"):
    """Another ranker showed a list, and what is known of its clicks. `key`: made of the id that the caller gave.

    `ours`: what this board would have shown to the same visitor, by what it knew then. Nothing is learnt from that or
    from the chances below: they are for comparing the two rankers.
    """

    generation: ClassVar[int] = 0  # no learner of ours has made it
    note: ClassVar[list[tuple[int, float]]] = []

    key: int
    round: int
    base: int
    ranking: list[int]
    clicks: list[int] | None  # positions from 0; None: not answered yet
    examined: int
    time: float  # when it was shown
    ours: list[int] = []
    propensities: list[float] = []  # of the item at each place, given those above it; empty: not known
    marginals: list[float] = []  # of the item at each place, whatever is above it; empty: not known
    client: int = ANYONE
    cohorts: dict[str, int] = {}
    features: Known = {}
    stream: str = ""  # which one it came from, and its partition; empty: from none
    offset: int = 0  # where in it
    of: ShownItems | None = None  # in a collection; `ours` are ids of items then


class Forgotten(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="forgotten"):
    """From here on these numbers of clients mean nobody: if one of them comes again, it gets a new number."""

    clients: list[int]


class Settled(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="settled"):
    """Time enough has passed for answers to impressions up to this number."""

    upto: int


class Expired(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="expired"):
    """Impressions up to this number can no longer be answered."""

    upto: int


class Added(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="added"):
    """Items are added, or reinstated."""

    items: list[str]
    features: dict[str, Known] = {}  # what is known from here on of some of them
    by_lists: bool = False  # lists of another ranker brought them: these are counted, and refused beyond a number


class Described(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="described"):
    """What is known of items from here on, of each all of it, by their names."""

    features: dict[str, Known]


class Retired(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="retired"):
    """An item is shown no longer, nor are others."""

    item: str
    others: list[str] = []


class Past(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A list shown before the board began: items from the top, positions clicked from 0, how many were looked at."""

    items: list[str]
    clicks: list[int]
    examined: int
    features: Known = {}  # what was known of the visit
    of: ShownItems | None = None  # in a collection, in place of `items`
    places: list[int] = []  # in a collection, of the engine's order
    value: float = 0.0  # of what came of the one click


class History(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="history"):
    """Clicks from before the board began, a part of them; a `batch` that came before has no effect.

    `batch`: the name of the batch and the number of its first row here, such as june#1000. Under a name that came
    before with other rows, or as part of a batch of another size, they are refused.
    """

    rows: list[Past]
    batch: str
    total: int = 0  # rows of the whole batch; 0 in logs from before it was told


class Labelled(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="labelled"):
    """A label for the feedback of some rounds, fraud or honest; a `key` that came before has no effect.

    With a `client`, for that of one, or of the cohort with this number, in all rounds; `kind`: which kind of cohort.
    """

    key: int
    start: int
    end: int
    label: str
    client: int = ANYONE
    kind: str = ""


class Unlabelled(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="unlabelled"):
    """A label is taken back, by its number."""

    number: int


class QueryForgotten(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="query"):
    """A collection knows nothing of a query from here on, by its id, nor of another id that stands for it now.

    Then every earlier event of the query is written anew with the other id, which means nothing, and so is this one.
    """

    query: int
    now: int


class Resealed(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag="resealed"):
    """Another secret, which the store has, signs impression ids from here on; nothing else changes."""


OfVisitor: TypeAlias = ListShown | Answered | Withheld | Outcome | Observed
_OfItems: TypeAlias = Added | Described | Retired | History
_ByHand: TypeAlias = Labelled | Unlabelled | QueryForgotten | Resealed
AnyEvent: TypeAlias = Created | Configured | Deleted | OfVisitor | Forgotten | Settled | Expired | _OfItems | _ByHand

_encode_into = msgspec.msgpack.Encoder().encode_into
_decoder, _list_decoder = msgspec.msgpack.Decoder(AnyEvent), msgspec.msgpack.Decoder(list[AnyEvent])
_LIST = struct.Struct(">BI")  # how MessagePack begins a list: a mark, and how long it is
_RECONFIGURING = tuple(msgspec.msgpack.encode(tag) for tag in ("configured", "labelled", "unlabelled"))
_FORGETTING = msgspec.msgpack.encode("query")


def encode(event: AnyEvent) -> bytes:
    """An event as the log has it. `Encoder.encode` of msgspec 0.22 ends the process where memory runs out."""
    buffer = bytearray()
    _encode_into(event, buffer)
    return bytes(buffer)


def decode(body: bytes) -> AnyEvent:
    """The event that `encode` wrote."""
    event: AnyEvent = _decoder.decode(body)
    return event


def decode_all(bodies: Sequence[bytes]) -> list[AnyEvent]:
    """`decode` of each, in less time."""
    some: list[AnyEvent] = _list_decoder.decode(_LIST.pack(0xDD, len(bodies)) + b"".join(bodies))
    return some


def of_sender(event: AnyEvent, numbers: tuple[int, ...]) -> AnyEvent:
    """A list or its answer, taken or refused, with the number of its client and those of its cohorts in order."""
    assert isinstance(event, OfVisitor)
    client, *others = numbers
    pairs = zip(event.cohorts, others, strict=True)
    cohorts = {kind: number for kind, number in pairs if number != ANYONE} if others else {}
    return msgspec.structs.replace(event, client=client, cohorts=cohorts)


def forgotten(numbers: list[int]) -> bytes:
    """The event that says that these numbers of clients mean nobody, as it is stored."""
    return encode(Forgotten(numbers))


def reconfigures(body: bytes) -> bool:
    """Whether an event, as it is stored, may change how the events before it are learnt from."""
    return body.startswith(_RECONFIGURING, 1)  # after the byte that begins the list of fields


def forgets_query(body: bytes) -> bool:
    """Whether an event, as it is stored, says that a query was forgotten."""
    return body.startswith(_FORGETTING, 1)
