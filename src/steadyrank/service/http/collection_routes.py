"""Routes of collections that differ from those of boards: lists for queries, and the state of queries."""

import functools
import io
import itertools
import tempfile
from typing import Annotated, Any, BinaryIO

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ...core.refusals import Refused
from ...live.collection.collection_state import CollectionState
from ...live.collection.engine_prior import slope_of_score
from ...live.collection.judgments import FORMATS, judged, rated, write
from ...live.collection.surges import MOST as MOST_SURGES
from ..board import events
from ..board.board import BoardOut
from ..board.checks import check_name
from ..board.collection_summary import (
    AlarmOut,
    QueryOut,
    QueryPage,
    copy_busiest,
    copy_query,
    list_alarms,
    list_queries,
    query_id,
    query_page,
    state_of,
)
from ..board.config import COLLECTION_HINTS, OF_ITEMS, Config, GuardChoice, new_collection, with_settings
from ..board.guard_summary import GuardOut
from ..board.schema import Schema
from ..board.timeline import TimelineOut
from ..worker import reconfigure
from ..worker.board_session import BoardSession
from ..worker.forgetting import forget
from ..worker.listing import EngineResult, query_listing
from ..worker.rank_and_answer import check_theirs
from ..worker.worker import Worker
from .board_routes import ParkedOut, given_settings, list_by_name
from .observe_routes import check_list
from .rank_routes import HistoryOut, QueryRankIn, RankOut, learn_history, list_for, parse_answer
from .request import COLLECTIONS, AnswerIn, Call, File, Parts, check_path, limit_of
from .state_route import describe_guard
from .watch_routes import MOST_SILENCED, ClientLabelOut, LabelOut, labelled, progress

PLACES_SHOWN = 20  # places of the engine's order in the state, at least; more if lists are longer
_QUERIES_WATCHED = 50
_SURGES_WATCHED = 50
MOST_QUERIES = 1_000  # per answer
_NOT_OF_COLLECTIONS = ("collection", *OF_ITEMS)


class QueryPastIn(AnswerIn, kw_only=True):
    """A list shown in the past for a query, and its clicks.

    `candidates`: what it was chosen from, in the engine's order; default: the items themselves.
    """

    query: str
    items: list[str]
    candidates: list[str] | None = None
    scores: list[float] | None = None


class QueryHistoryIn(Schema):
    """Past clicks, oldest first; `batch` as for boards."""

    rows: list[QueryPastIn]
    batch: str = ""


class CollectionIn(
    with_settings(  # type: ignore[misc]
        Schema,
        optional=True,
        without=_NOT_OF_COLLECTIONS,
        guard_settings=Annotated[dict[str, bool | int | float | str], Meta(max_length=100)],
        **COLLECTION_HINTS,
    )
):
    """Settings of a collection; omitted ones stay, and `fold` and `keep_queries` of an existing one cannot change."""

    def changes(self) -> dict[str, Any]:
        """The settings that are given."""
        changes = given_settings(self, Config.__struct_fields__)
        own = given_settings(self, COLLECTION_HINTS)
        return changes | ({"collection": own} if own else {})


class _NamedCollection(Schema):
    collection: str


class CollectionOut(
    with_settings(  # type: ignore[misc]
        _NamedCollection,
        without=_NOT_OF_COLLECTIONS,
        guard_settings=dict[str, Any],
        guards=list[GuardChoice],
        **COLLECTION_HINTS,
    )
):
    """A collection.

    `queries`, `pairs`, `items`: the queries in memory, pairs of query and item, and names of items.
    """

    queries: int
    pairs: int
    items: int
    impressions: int
    answers: int
    clicks: int
    unanswered: int
    rounds: int
    silence: Any

    @classmethod
    def shown(cls, board: BoardOut) -> "CollectionOut | None":
        """Convert the summary of a board; None for a board with items of its own."""
        if board.collection is None:
            return None
        names = [name for name in cls.__struct_fields__ if name != "collection"]
        whole = {name: getattr(board.collection, name, getattr(board, name, None)) for name in names}
        return cls(collection=board.board, **whole)


class CollectionsOut(Schema):
    """The collections that the key may see, by name; the other members as for boards."""

    collections: list[CollectionOut]
    parked: list[ParkedOut]
    broken: list[str]
    next: str | None


class QueryIn(Schema):
    """A query, by its text or by the id that `state` shows."""

    query: str | UnsetType = UNSET
    id: str | UnsetType = UNSET


class QueryForgottenOut(Schema):
    """Whether the query was known, and the number of log events that mentioned it."""

    known: bool
    events: int


class PlaceOut(Schema):
    """A place of the engine's order, from 1: looks at, and clicks on, items that were found there.

    `mean`: the prior attraction of items there.
    """

    place: int
    looks: int
    clicks: int
    mean: float


class CollectionStateOut(Schema):
    """A collection, the engine's first places, its busiest queries, and the silenced senders.

    `strength`: how many looks at an item the prior of its place counts for; `score`: by how much a standard deviation
    of the engine's score moves the logit of an item's attraction; `attention`: the chance that each place of a list
    is looked at. `alarms`: items of queries with a sudden surge of clicks, among the latest 512 surges in memory.
    """

    collection: CollectionOut
    places: list[PlaceOut]
    strength: float
    score: float
    attention: list[float]
    queries: list[QueryOut]
    alarms: list[AlarmOut]
    guard: GuardOut
    event: int


class CollectionWatchOut(CollectionStateOut):
    """A collection as its page shows it: `state`, with members as for a board.

    `alarms`: of the latest 50 surges.
    """

    open: int
    events: int
    first_event: int
    lag: int
    stale: bool
    first_round: int
    timeline: TimelineOut
    labels: list[LabelOut]
    client_labels: list[ClientLabelOut]


async def list_collections(call: Call) -> Parts[CollectionsOut]:
    """At most `limit` collections by name, after a given name."""
    return await list_by_name(call, COLLECTIONS, CollectionOut.shown)


def _out(session: BoardSession) -> CollectionOut:
    shown = CollectionOut.shown(session.summary())
    assert shown is not None
    return shown


async def put_collection(call: Call, body: CollectionIn) -> CollectionOut:
    """Create a collection, or change the settings of an existing one."""
    worker, changes = call.worker, body.changes()
    check_name(call.board)
    if not worker.cache.knows_board(call.board):
        try:
            config = new_collection(changes)
        except ValueError as error:
            raise Refused(422, str(error)) from error
        if await worker.create_board(call.board, events.Created(config, [])):
            return _out(worker.find_board(call.board))
    session = worker.find_board(call.board)
    check_path(session, COLLECTIONS)
    await reconfigure.configure(worker, session, changes)
    return _out(worker.find_board(call.board))


async def get_collection(call: Call) -> CollectionOut:
    """The settings and counts of a collection."""
    return _out(call.worker.find_board(call.board))


async def rank_query(call: Call, body: QueryRankIn) -> RankOut:
    """Re-rank the engine's candidates by clicks; returns the list with an id to answer it."""
    session = call.worker.find_board(call.board)
    if body.theirs is not None:
        check_theirs(session, body.theirs, body.client)
    return list_for(call.worker, session, body)


async def take_past(call: Call, body: QueryHistoryIn) -> HistoryOut:
    """Learn from past clicks, oldest first."""
    session = call.worker.find_board(call.board)
    return await learn_history(call, session, body, functools.partial(_past, session))


def _past(session: BoardSession, row: QueryPastIn) -> events.Past:
    results = EngineResult(row.query, row.items if row.candidates is None else row.candidates, row.scores)
    listing = query_listing(session, results)
    check_list(session, row.items)
    places, answer = listing.places_of(row.items), parse_answer(row).to(row.items)
    return events.Past([], answer.positions, answer.examined, of=listing.shown(places, every=True), places=places)


async def read_state(call: Call) -> CollectionStateOut:
    """What is known of the engine's places, and of the `limit` queries with the most visits."""
    session, limit = call.worker.find_board(call.board), limit_of(call.query.get("limit"), MOST_QUERIES)
    return CollectionStateOut(**await _state(call.worker, session, limit, MOST_SURGES))


async def _state(
    worker: Worker, session: BoardSession, busiest: int, surges: int, silenced: int | None = None
) -> dict[str, Any]:
    """The state of a collection with at most so many queries, surges and silenced senders."""
    queries = await worker.look_at_copy(session, lambda board: copy_busiest(board, busiest), list_queries)
    state = state_of(session.board)
    mean, score = state.learner.prior.mean, state.learner.prior.score
    rows = zip(state.looks.tolist(), state.clicks.tolist(), mean.tolist(), strict=True)
    some = itertools.islice(enumerate(rows, 1), max(PLACES_SHOWN, state.length))
    return {
        "collection": _out(session),
        "places": [PlaceOut(place=place, looks=n, clicks=w, mean=m) for place, (n, w, m) in some],
        "strength": float(state.learner.prior.strength[0]),
        "score": slope_of_score(score),
        "attention": state.learner.attention.tolist(),
        "queries": queries,
        "alarms": list_alarms(session.board, surges),
        "guard": describe_guard(session.board, None, silenced),
        "event": session.applied,
    }


async def watch_collection(call: Call) -> CollectionWatchOut:
    """A summary of a collection for its page, small at any number of queries."""
    session = call.worker.find_board(call.board)
    state = await _state(call.worker, session, _QUERIES_WATCHED, _SURGES_WATCHED, MOST_SILENCED)
    state |= progress(call.worker, session) | labelled(session.board)
    return CollectionWatchOut(**state, timeline=session.board.feedback.timeline.summary())


def _query_of(session: BoardSession, body: QueryIn) -> int:
    """The id of the query that a request names."""
    if (body.query is UNSET) == (body.id is UNSET):
        raise Refused(422, "give either query, the text of a query, or its id")
    if isinstance(body.id, str):
        return query_id(body.id)
    assert session.keys is not None
    return session.keys.query(body.query)[0]


async def read_query(call: Call, body: QueryIn) -> QueryPage:
    """What is known of one query and its items. The query is in the body, since logs may keep addresses."""
    session = call.worker.find_board(call.board)
    query = _query_of(session, body)
    return await call.worker.look_at_copy(session, lambda board: copy_query(board, query), query_page)


async def forget_query(call: Call, body: QueryIn) -> QueryForgottenOut:
    """Forget a query: in memory, in snapshots, and in the log."""
    session = call.worker.find_board(call.board)
    return QueryForgottenOut.of(await forget(call.worker, session, _query_of(session, body)))


async def judgments(call: Call) -> File:
    """Relevance judgments from clicks for every looked-at document, as CSV or TREC qrels."""
    session, form = call.worker.find_board(call.board), call.query.get("format", FORMATS[0])
    if form not in FORMATS:
        raise Refused(422, f"format must be one of {', '.join(FORMATS)}, not {form!r:.80}")
    fewest, highest = limit_of(call.query.get("looks", "1"), 10**8), limit_of(call.query.get("highest", "3"), 100)

    def written(state: CollectionState) -> BinaryIO:
        file = tempfile.TemporaryFile()  # noqa: SIM115
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        write(text, rated(judged(state), highest, fewest), form)
        text.detach()
        return file

    content = await call.worker.look_at_copy(session, lambda board: state_of(board).copied(), written)
    return File(f"{session.name}.{form}", content)


def detail_collection(call: Call, body: CollectionIn) -> str:
    """The settings that a request gives to a collection."""
    return msgspec.json.encode(body.changes()).decode()
