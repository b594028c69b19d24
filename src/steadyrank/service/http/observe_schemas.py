"""What is reported of lists that were shown elsewhere, now or in the past, and what is said to that."""

from typing import Annotated, TypeAlias

from msgspec import Meta, Raw

from ...comparison.off_policy import LEAST_CHANCE
from .schemas import AnswerIn, Features, Schema
from .state_schemas import IntervalOut

# looked at by the route, which names the one that is wrong
Chance: TypeAlias = Annotated[float, Meta(extra_json_schema={"minimum": LEAST_CHANCE, "maximum": 1})]
# rows; an object with lists of `queries` and `events`; or one row. Each is looked at on its own
UbiIn: TypeAlias = list[Raw] | dict[str, Raw]


class ObserveIn(AnswerIn, kw_only=True):
    """A list that another ranker showed, from the top, and its answer, if there is one by now.

    `id`: any name of this list that is its own; the same again is a duplicate. `time`: when it was shown, in seconds
    since 1970; now if it is left out. `propensities`: the chance with which that ranker chose the item of each place,
    given those above it; `marginals`: whatever is above it. `candidates`: what it chose from, if not from all items.
    `features`, `segment`: what is known of the visit, as for `rank`.
    """

    id: Annotated[str, Meta(min_length=1, max_length=200)]
    items: list[str]
    time: float | None = None
    client: str | None = None
    cohort: dict[str, str] | None = None
    candidates: list[str] | None = None
    propensities: list[Chance] | None = None
    marginals: list[Chance] | None = None
    features: Features | None = None
    segment: str | None = None


class ObserveOut(Schema):
    """`outcome`: shown (not answered yet), learnt, waiting, late or duplicate.

    `impression` answers the list later, as one of our own, until `expires`; `ours`: what this board would have shown.
    """

    outcome: str
    impression: str
    expires: float
    ours: list[str]


class PastIn(AnswerIn, kw_only=True):
    """A list shown in the past, and what was clicked; `features`, `segment`: known of the visit, as for `rank`."""

    items: list[str]
    features: Features | None = None
    segment: str | None = None


class HistoryIn(Schema):
    """Past clicks, oldest first. Under the name of a `batch` the same rows are learnt once, however often they are
    sent; other rows under that name are refused with 409."""

    rows: list[PastIn]
    batch: str = ""


class HistoryOut(Schema):
    """How many rows were learnt from, or that the batch is a duplicate."""

    rows: int
    outcome: str


class UbiRowOut(Schema):
    """A row that was refused: `row 3` of a list, or `queries 3` or `events 3`, from 1."""

    row: str
    code: int
    message: str


class UbiOut(Schema):
    """`lists` and `clicks` that were taken, and lists or clicks that were known (`duplicates`).

    `ignored`: rows that tell neither of a list nor of a click, by what they are. `refused`: how many rows, by code,
    and `messages` for the first ten.
    """

    lists: int
    clicks: int
    duplicates: int
    ignored: dict[str, int]
    refused: dict[str, int]
    messages: list[UbiRowOut]


class EstimateOut(Schema):
    """Clicks on a list of ours, by a model of users and a method; `gain`: how much more than on theirs.

    `given`: whether propensities were given; `covered`: the mean weight, about 1 where the other ranker may show all
    that ours does; `effective`: how many lists of ours theirs are worth; `clipped`: lists whose weight was lowered to
    the limit. `cut`: the estimate was below 0 or above the length of a list, and is told as that.
    """

    model: str
    method: str
    given: bool
    covered: float
    effective: float
    clipped: int
    cut: bool
    ours: IntervalOut
    gain: IntervalOut


class PartOut(Schema):
    """Over some lists: clicks on a list of theirs, the share of places where both show the same, and estimates."""

    lists: int
    theirs: IntervalOut
    alike: float
    estimates: list[EstimateOut]


class ComparisonOut(Schema):
    """The other ranker and ours on its lists: all of them, and without those that are suspect.

    `theirs` and `ours`: at each place the item that was there most often, and would have been.
    """

    whole: PartOut
    trusted: PartOut | None
    suspect: int
    unanswered: int
    since: float
    until: float
    theirs: list[str]
    ours: list[str]
    says: list[str]


class StandingOut(Schema):
    """Of so many visitors, a client and day each, or lists: how many gave their credit to our items, and to theirs.

    `lead`: ours less theirs, in credits a visitor or list, with a 95 % interval that may be looked at at any time.
    """

    total: int
    ours: int
    theirs: int
    lead: IntervalOut


class InterleavingOut(Schema):
    """What clicks on mixed lists say. `verdict`: ours, theirs, or open.

    `withstands`: the share of all `lists` that might be bots', under any names, and the one who leads would lead all
    the same. `by_visitor` and `by_list` are without those that are suspect; `whole`: all visitors.
    """

    verdict: str
    withstands: float
    by_visitor: StandingOut
    by_list: StandingOut
    whole: StandingOut
    lists: int
    since: float | None
    until: float | None
    says: list[str]
