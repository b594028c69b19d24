"""Routes for who runs another ranker today: its lists come in, and ours are compared with them.

What is reported of lists that were shown elsewhere, now or in the past, and what is said to that.
"""

import asyncio
import math
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Raw

from ...comparison.interleaving import Standing
from ...comparison.off_policy import LEAST_CHANCE, Interval, check_chances
from ...comparison.ranker_comparison import Part
from ...core.refusals import Refused
from ..board.guard_summary import suspects
from ..board.interleaving_summary import summarize_interleaving
from ..worker import observing
from ..worker.board_session import BoardSession
from .board_routes import check_items
from .rank_routes import check_number, check_sender, said
from .route import Call, known_of_visit
from .schemas import AnswerIn, Features, Schema
from .state_route import IntervalOut

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


async def observe(call: Call) -> ObserveOut:
    """Learn from a list that another ranker showed; once, however often it is sent."""
    body: ObserveIn = call.body
    session = call.worker.find(call.board)
    check_list(session, body.items)
    check_sender(body.client, body.cohort)
    check_number("candidates", body.candidates)
    for name in ("propensities", "marginals"):
        _check_chances(name, getattr(body, name), len(body.items))
    answered = body.clicked is not msgspec.UNSET or body.clicks is not None or body.examined is not None
    report = observing.Report(
        body.id,
        body.items,
        said(body) if answered else None,
        body.time,
        body.client,
        body.cohort or {},
        body.candidates,
        body.propensities or (),
        body.marginals or (),
        known_of_visit(session, body),
    )
    taken = await observing.observe(call.worker, session, report)
    return ObserveOut(outcome=taken.outcome, impression=taken.impression, expires=taken.expires, ours=taken.ours)


def _check_chances(name: str, given: list[float] | None, size: int) -> None:
    if given is None:
        return
    if len(given) != size:
        raise Refused(422, f"{name} must be one for each of the {size} items, not {len(given)}")
    try:
        check_chances(name, given)
    except ValueError as error:
        raise Refused(422, str(error)) from None


def check_list(session: BoardSession, items: list[str]) -> None:
    """Refuse what cannot be a list of a board, or has more new items than there is room for."""
    state = session.board.learner_state
    if not 1 <= len(items) <= state.length or len(set(items)) < len(items):
        raise Refused(422, f"a list has 1 to {state.length} different items, not {len(items)}: {items[:9]!r:.200}")
    check_items(items)
    check_items([item for item in items if item not in state.slots], len(state.names))


async def comparison(call: Call) -> ComparisonOut:
    """What our lists would have got in place of another ranker's, with 95 % intervals; read from the log."""
    worker, session = call.worker, call.worker.find(call.board)
    async with worker.exporting:
        reported = await asyncio.to_thread(observing.read, worker.url, session.number)
        board = session.board
        over = worker.clock() - board.config.lifetime if board.config.count_unanswered else None
        names, odd = list(board.learner_state.names), suspects(board)
        done = await asyncio.to_thread(observing.compared, reported, names, odd, over)
    found = done.found
    return ComparisonOut(
        whole=_part(found.whole),
        trusted=None if found.trusted is None else _part(found.trusted),
        suspect=found.suspect,
        unanswered=done.unanswered,
        since=done.since,
        until=done.until,
        theirs=found.theirs,
        ours=found.ours,
        says=found.says,
    )


async def interleaving(call: Call) -> InterleavingOut:
    """Which of two rankers the clicks on mixed lists prefer; valid however often it is asked."""
    found = summarize_interleaving(call.worker.find(call.board).board)
    return InterleavingOut(
        verdict=found.verdict,
        withstands=found.withstands,
        by_visitor=_standing(found.by_visitor),
        by_list=_standing(found.by_list),
        whole=_standing(found.whole),
        lists=found.lists,
        since=found.since,
        until=found.until,
        says=found.says(),
    )


def _standing(found: Standing) -> StandingOut:
    lead = IntervalOut(value=found.lead, low=found.low, high=found.high)
    return StandingOut(total=found.total, ours=found.ours, theirs=found.theirs, lead=lead)


def _part(part: Part) -> PartOut:
    rows = [
        EstimateOut(
            model=one.model,
            method=one.method,
            given=one.given,
            covered=one.spread.covered,
            effective=one.spread.effective,
            clipped=one.spread.clipped,
            cut=one.cut,
            ours=_interval(one.ours),
            gain=_interval(one.gain),
        )
        for one in part.estimates
    ]
    return PartOut(lists=part.lists, theirs=_interval(part.theirs), alike=part.alike, estimates=rows)


def _interval(found: Interval) -> IntervalOut:
    value, low, high = (None if math.isnan(x) else x for x in found)
    return IntervalOut(value=value, low=low, high=high)
