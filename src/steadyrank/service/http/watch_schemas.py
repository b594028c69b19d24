"""What requests and answers about labels and about watching a board look like."""

from typing import Annotated, TypeAlias

from msgspec import Meta

from ..board.events import KIND_NAME
from ..board.labels import WORDS
from .schemas import BoardOut, ItemOut, Schema, ShortView
from .state_schemas import FeaturesOut, GuardOut, SavedOut


class LabelIn(Schema):
    """Rounds from `start` to `end`, both included, and what they are: fraud or honest."""

    start: int
    end: int
    label: Annotated[str, Meta(extra_json_schema={"enum": list(WORDS)})]


class LabelOut(Schema):
    """A label."""

    number: int
    start: int
    end: int
    label: str


class ClientLabelIn(Schema):
    """A client or a cohort, and what it is: fraud or honest.

    `client`: the number that `state` and `watch` show, or the name that lists were asked for with. `kind`: which kind
    of cohort it is; left out for a client.
    """

    client: Annotated[int, Meta(ge=0)] | Annotated[str, Meta(min_length=1, max_length=200)]
    label: Annotated[str, Meta(extra_json_schema={"enum": list(WORDS)})]
    kind: Annotated[str, Meta(pattern=f"^{KIND_NAME}$")] | None = None


class ClientLabelOut(Schema):
    """A label of a client, or of a cohort with its kind."""

    number: int
    client: int
    kind: str | None
    label: str


class LabelsOut(Schema):
    """The labels in force, by number; where they overlap, the later one counts. `clients`: those of senders."""

    labels: list[LabelOut]
    clients: list[ClientLabelOut]


class WatchItem(ItemOut):
    """An item: its plain click rate, and its attraction in the trusted regime with a 95 % interval."""

    low: float | None
    high: float | None


class BandOut(Schema):
    """Rounds of one regime in a row, both ends included, and whether it is the trusted one."""

    start: int
    end: int
    regime: int
    trusted: bool


class PointOut(Schema):
    """Some rounds in a row.

    `time`: of the earliest list, seconds since 1970, null in old logs. `impressions`: lists shown. `feedback`: those
    whose feedback came to its end, learnt from or left out; `clicks` and `examined`: in it. `rejected`: feedback that
    the guard kept from the learner. `fraud`: feedback left out by a label.
    """

    start: int
    time: float | None
    impressions: int
    feedback: int
    clicks: int
    examined: int
    rejected: int
    fraud: int


class TimelineOut(Schema):
    """At most 200 points of `size` rounds each, from round 1."""

    size: int
    points: list[PointOut]


_Items: TypeAlias = list[WatchItem]  # `list` is a member of what follows
_Bands: TypeAlias = list[BandOut]
_Labels: TypeAlias = list[LabelOut]
_ClientLabels: TypeAlias = list[ClientLabelOut]


class WatchSegment(Schema):
    """The list that a segment's visits get now; `segment`: null for visits without one."""

    segment: str | None
    list: _Items
    view: ShortView


_Segments: TypeAlias = list[WatchSegment]


class WatchOut(Schema):
    """A board as a page shows it.

    `event`: the latest one applied; `open`: impressions that can be answered now; `events`: how many of this board
    the log holds, from number `edge` on; `lag`: how many in the store were not applied here yet; `stale`: the log is
    being folded again; `first_round`: the first one that may be labelled; `list`: what users get now, from the top;
    `diverging`: items whose click rate is outside of the interval of their estimate, by how far; `guard`: who is not
    heard, the 50 with the most visits; `saved`: what people would have lost otherwise; `features`: what these are
    worth, the 12 strongest; `segments`: of each its list, null on a board without; `labels`: of rounds, and
    `client_labels`: of clients and cohorts.
    """

    board: BoardOut
    event: int
    open: int
    events: int
    edge: int
    lag: int
    stale: bool
    first_round: int
    list: _Items
    diverging: _Items
    view: ShortView | None
    bands: _Bands
    timeline: TimelineOut
    guard: GuardOut
    saved: SavedOut | None
    features: FeaturesOut | None
    segments: _Segments | None
    labels: _Labels
    client_labels: _ClientLabels


class ActOut(Schema):
    """Who changed what; `digest`: of this row and the one before, in hexadecimal."""

    number: int
    at: float
    who: str
    what: str
    board: str
    detail: str
    digest: str


class RecordOut(Schema):
    """Rows of the record, oldest first."""

    record: list[ActOut]
