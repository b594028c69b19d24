"""Routes used at every visit, lists and answers, and the import of past clicks."""

import asyncio
import functools
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from ...core.refusals import Refused
from ...live import answers
from ...live.answers import fresh, without
from ...live.impression_buffer import MOST_KINDS, NO_OUTCOMES
from ...live.outcomes import WITH_ANSWER, amount_of
from ...live.rules import Rules
from ..board import events
from ..board.checks import as_logged
from ..board.config import RulesSetting
from ..board.events import KIND_NAME
from ..board.schema import Schema
from ..storage import Unavailable
from ..worker import rank_and_answer
from ..worker.board_session import BoardSession
from ..worker.impression_ids import FORGED, ImpressionId
from ..worker.listing import EngineResult
from ..worker.rank_and_answer import GivenList, check_theirs
from ..worker.replicas import Replicas
from ..worker.worker import Worker
from .board_routes import add_new, check_items, check_kind, check_room
from .request import (
    AWAY,
    AnswerIn,
    Call,
    ErrorOut,
    Features,
    at_owners,
    forward,
    gather_in_turns,
    known_of_visit,
)

OUTCOMES = "/v1/outcomes"
_MOST_ROWS = 10_000  # per batch
_CLIENT = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,200}")  # any valid name can be stored, logged, and deleted again
_KIND = re.compile(KIND_NAME)
_MESSAGES = 10  # refusals of a batch that come with a message
_ROWS_AT_ONCE = 1_000  # past clicks per event
_MOST_CANDIDATES = 10_000  # each is looked up, which blocks other requests
_SHORT = 10_000  # bytes of rules in a request that are cached
_MOST_LATEST = 32  # entries of that cache
_LATEST: dict[bytes, Rules] = {}  # by the encoded rules of the request


class RankIn(Schema):
    """What to rank: all items, or some candidates; the list may be shorter than the board's length.

    `client`: who looks; `cohort`: what it has in common with others, at most eight kinds, such as network or agent,
    among the board's `cohorts` if it declares any. `unknown`: what to do with candidates that are not on the board:
    refuse the request, skip or add them. `theirs`: the caller's own list, from the top, to be interleaved with ours,
    where the board has `interleave`. `features`: of the visit, where the board has `features` of visits; `segment`:
    of the visit, one of the board's `segments`; null: unknown. `rules`: for this list, in addition to the board's.
    """

    candidates: list[str] | None = None
    unknown: Literal["refuse", "skip", "add"] = "refuse"
    length: int | None = None
    client: str | None = None
    cohort: dict[str, str] | None = None
    theirs: list[str] | None = None
    features: Features | None = None
    segment: str | None = None
    rules: RulesSetting | None = None


class QueryRankIn(Schema):
    """What to rank: the candidates that an engine found for a `query`, in its order, with its `scores` on any scale.

    `client`, `cohort`, `length` and `theirs` are as for boards; `theirs` must be among the candidates. `rules`: for
    this list, as for boards; rules about items that are not candidates hold as far as they can.
    """

    query: str
    candidates: list[str]
    scores: list[float] | None = None
    length: int | None = None
    client: str | None = None
    cohort: dict[str, str] | None = None
    theirs: list[str] | None = None
    rules: RulesSetting | None = None


class RankOut(Schema):
    """A list. `expires`: in seconds since 1970; `skipped`: the number of candidates left out.

    `unkept`: rules that could not be kept, where the best list was asked for.
    """

    impression: str
    items: list[str]
    expires: float
    skipped: int | UnsetType = UNSET
    unkept: list[str] | UnsetType = UNSET


class FeedbackIn(AnswerIn, kw_only=True):
    """An answer to an impression; `client`: who answers, where the board has `bind_client`.

    `value`: of the immediate outcome of the click on `clicked`, as reported by `outcomes` under this `id`. It needs a
    key with the scope feedback.
    """

    impression: str
    client: str | None = None
    value: float | UnsetType = UNSET
    id: str = WITH_ANSWER


class FeedbackOut(Schema):
    """learnt, waiting, late, or duplicate; `says`: when a waiting answer will be learnt from, in words."""

    outcome: str
    says: str | UnsetType = UNSET


class BatchRow(FeedbackIn, kw_only=True):
    """An answer with its board."""

    board: str


class BatchIn(Schema):
    """Many answers."""

    feedback: list[BatchRow]


class BatchRowOut(Schema):
    """An outcome, or the code of a refusal; the first few refusals have a message."""

    code: int
    outcome: str | None = None
    message: str | UnsetType = UNSET


class BatchOut(Schema):
    """A result for each row, in order, and the number of refusals by code."""

    feedback: list[BatchRowOut]
    refused: dict[str, int]


class OutcomeIn(Schema, kw_only=True):
    """An outcome of a click: `value`, at least 0, in one unit for the whole board; `id`: deduplicates per click.

    `kind`: purchase, read or any other word; return subtracts from what was reported before.
    """

    impression: str
    item: str
    value: float
    id: str
    kind: str = "purchase"


class OutcomeOut(Schema):
    """learnt; counted, where clicks are the goal; waiting for the answer; ignored; or duplicate.

    ignored: a guard or a label kept the visit from the learner.
    """

    outcome: str


class OutcomeRow(OutcomeIn, kw_only=True):
    """An outcome of a click, with its board."""

    board: str


class OutcomesIn(Schema):
    """Outcomes of many clicks."""

    outcomes: list[OutcomeRow]


class OutcomesOut(Schema):
    """A result for each row, in order, and the number of refusals by code."""

    outcomes: list[BatchRowOut]
    refused: dict[str, int]


class PastIn(AnswerIn, kw_only=True):
    """A list shown in the past, and its clicks; `features`, `segment`: of the visit, as for `rank`.

    `value`: of the outcome of the only click.
    """

    items: list[str]
    value: float = 0.0
    features: Features | None = None
    segment: str | None = None


class HistoryIn(Schema):
    """Past clicks, oldest first.

    Under the name of a `batch` the same rows are learnt once, however often they are sent; other rows under that name
    are refused with 409.
    """

    rows: list[PastIn]
    batch: str = ""


class HistoryOut(Schema):
    """How many rows were learnt from, or that the batch is a duplicate."""

    rows: int
    outcome: str


_AWAY = BatchRowOut(code=503, message=AWAY)
R = TypeVar("R", BatchRow, OutcomeRow)


async def rank(call: Call, body: RankIn) -> RankOut:
    """Rank items. Returns a list, with an id to answer it."""
    check_rank(body)
    session = call.worker.find_board(call.board)
    if body.unknown == "add":
        await _add_unknown(call, session, body)
    return make_list(call.worker, session, body)


def make_list(giver: Worker | Replicas, session: BoardSession, body: RankIn) -> RankOut:
    """Make a list from a board or from a replica; adds no items to the board."""
    some, theirs, skipped = body.candidates, body.theirs, 0
    visit = known_of_visit(session, body.features, body.segment)
    if theirs is not None:
        check_theirs(session, theirs, body.client)
    if body.unknown == "skip":
        some, theirs, skipped = _without_unknown(session, some, theirs)
    who = body.length, body.client, body.cohort, theirs, visit
    return _out(rank_and_answer.rank(giver, session, some, *who, rules=_rules(body)), skipped)


def _out(given: GivenList, skipped: int) -> RankOut:
    impression, items, expires, unkept = given
    out = RankOut(impression=impression, items=items, expires=expires, skipped=skipped or UNSET)
    out.unkept = unkept or UNSET
    return out


def _rules(body: RankIn | QueryRankIn) -> Rules | None:
    """The validated rules of a request, cached by their content. Raises Refused if they are invalid."""
    if body.rules is None:
        return None
    said = msgspec.msgpack.encode(body.rules)
    if (known := _LATEST.get(said)) is not None:
        return known
    try:
        made = body.rules.to_rules()
        check_number("rules", list(made.named()))
    except Refused:
        raise
    except ValueError as error:
        raise Refused(422, str(error)) from None
    if len(said) <= _SHORT:
        if len(_LATEST) >= _MOST_LATEST:
            _LATEST.clear()
        _LATEST[said] = made
    return made


def list_for(worker: Worker | Replicas, session: BoardSession, body: QueryRankIn) -> RankOut:
    """Make a list of a collection."""
    check_sender(body.client, body.cohort)
    check_number("theirs", body.theirs)
    engine_result, who = (
        EngineResult(body.query, body.candidates, body.scores),
        (body.client, body.cohort, body.theirs),
    )
    given = rank_and_answer.rank(
        worker, session, None, body.length, *who, engine_result=engine_result, rules=_rules(body)
    )
    return _out(given, 0)


def list_now(giver: Worker | Replicas, session: BoardSession, body: RankIn | QueryRankIn) -> RankOut | None:
    """Make a list without waiting; None if items must be added first, or the board is of the other kind."""
    if (session.keys is not None) != isinstance(body, QueryRankIn):
        return None
    if isinstance(body, QueryRankIn):
        if body.theirs is not None:
            check_theirs(session, body.theirs, body.client)
        return list_for(giver, session, body)
    check_rank(body)
    return None if body.unknown == "add" else make_list(giver, session, body)


def rank_from_copy(replicas: Replicas, board: str, body: RankIn | QueryRankIn) -> RankOut | None:
    """Make a list from a replica; None if the owner has to make it, as for mixed lists."""
    session = replicas.find_board(board)
    return None if body.theirs is not None else list_now(replicas, session, body)


def check_rank(body: RankIn) -> None:
    """Raise Refused for an invalid request, whatever the board."""
    check_sender(body.client, body.cohort)
    answers.check_candidates(body.candidates)
    check_number("candidates", body.candidates)
    check_number("theirs", body.theirs)


def _without_unknown(
    session: BoardSession, some: list[str] | None, theirs: list[str] | None
) -> tuple[list[str] | None, list[str] | None, int]:
    """Remove unknown names from the candidates and the caller's list; also returns how many there are."""
    gone = set(fresh([*(some or ()), *(theirs or ())], session.board.learner_state.slots))
    some = None if some is None else without(some, [item for item in some if item in gone])
    return some, [item for item in theirs or () if item not in gone] or None, len(gone)


async def _add_unknown(call: Call, session: BoardSession, body: RankIn) -> None:
    """Add unknown candidates and items of the caller's list to the board; this needs the scope observe.

    A request that will be refused adds nothing.
    """
    if body.theirs is not None:
        check_theirs(session, body.theirs, body.client)
    visit = known_of_visit(session, body.features, body.segment)
    others = fresh([*(body.candidates or ()), *(body.theirs or ())], session.board.learner_state.slots)
    if others:
        _rules(body)
        rank_and_answer.list_length(session, body.length)
        session.board.learner_state.features.check_visit(visit)
        call.require("observe", session.name)
        check_items(others)
        await add_new(call.worker, session, others, by_lists=True)


def check_number(what: str, items: list[str] | None) -> None:
    """Raise Refused if there are more items than one request may look up."""
    if items is not None and len(items) > _MOST_CANDIDATES:
        raise Refused(422, f"{what} must name at most {_MOST_CANDIDATES} items, not {len(items)}")


def check_sender(client: str | None, cohort: Mapping[str, str] | None) -> None:
    """Raise Refused for invalid names of the client or its cohorts."""
    if cohort is not None and len(cohort) > MOST_KINDS:
        raise Refused(422, f"a board has at most {MOST_KINDS} kinds of cohorts: not {len(cohort)}")
    if client is not None:
        _check_name("client", client)
    for kind, name in (cohort or {}).items():
        check_kind(kind)
        _check_name(f"cohort {kind}", name)


def _check_name(what: str, name: str) -> None:
    """Raise Refused for an invalid name of a client or a cohort."""
    if not _CLIENT.fullmatch(name) or name in (".", ".."):
        words = f"{what} must be text of 1 to 200 characters, no control characters among them, no . or .."
        raise Refused(422, f"{words}, not {name!r:.80}")


def parse_answer(answer: AnswerIn) -> answers.Given:
    """The content of an answer, given in exactly one of the ways."""
    clicked = answers.LEFT_OUT if answer.clicked is UNSET else answer.clicked
    return answers.given(answers.OVER_HTTP, clicked=clicked, clicks=answer.clicks, examined=answer.examined)


async def _answer(call: Call, name: str, body: FeedbackIn) -> str:
    """Process an answer and return its outcome.

    An id that no board recognizes may come from a board created, or a secret rotated, at another worker a moment ago:
    so the log is read before it is refused. A caller without a key cannot distinguish a missing board from one that
    did not sign the id, neither by the message nor by the time.
    """
    try:
        return await _answer_known(call, name, body)
    except Refused as refusal:
        if not may_pass(refusal):
            raise
    await call.worker.look_at_log()
    try:
        return await _answer_known(call, name, body)
    except Refused as refusal:
        if refusal.code == 404 and not call.visible(name):
            raise Refused(403, FORGED) from None
        raise


async def _answer_known(call: Call, name: str, body: FeedbackIn) -> str:
    parked = call.worker.parked.get(name)
    if parked is not None and not call.visible(name):  # the reason is only told to holders of a valid id
        parked.seals.open(body.impression, call.worker.clock())
    evicted = call.worker.cache.evicted.get(name)
    if evicted is not None and evicted.loading is None:  # only load the board for an id that it signed
        evicted.open_id(body.impression, call.worker.clock())
    async with call.worker.cache.hold_board(name):
        session = call.worker.find_board(name)
        if session.resealing is not None and not session.resealing.done():
            await asyncio.shield(session.resealing)
        shown = shown_list(call.worker, session, body, call.require)
        if body.value is UNSET:
            return await rank_and_answer.answer(call.worker, session, shown, parse_answer(body))
        return await _answer_with_value(call, session, shown, body)


async def _answer_with_value(call: Call, session: BoardSession, shown: ImpressionId, body: FeedbackIn) -> str:
    """Process an answer with the value of its click, validating both before anything is written."""
    call.require("feedback", session.name)
    if body.value is UNSET or not isinstance(body.clicked, str):
        raise Refused(422, "value needs clicked, one item: report the outcomes of several clicks through outcomes")
    amount = amount_of(body.value, "")
    _check_name("id", body.id)
    rank_and_answer.check_outcome(call.worker, session, shown.expires - session.board.config.lifetime)
    outcome = await rank_and_answer.answer(call.worker, session, shown, parse_answer(body))
    await rank_and_answer.outcome(call.worker, session, shown, body.clicked, body.id, amount)
    return outcome


def shown_list(
    worker: Worker, session: BoardSession, body: FeedbackIn, require: Callable[[str, str], object]
) -> ImpressionId:
    """Decode the answered list. Raises Refused if the id is not the board's, or belongs to another client."""
    shown = session.seals.open(body.impression, worker.clock())
    if not session.board.config.public_feedback:
        require("feedback", session.name)
    if session.board.config.bind_client and not session.is_client(body.client, shown.client):
        raise Refused(403, "the list was given to another client: give the name with which it was requested")
    return shown


def answer_now(
    worker: Worker, session: BoardSession, body: FeedbackIn, require: Callable[[str, str], object]
) -> str | asyncio.Future[str] | None:
    """Answer without waiting: the outcome, or a future of it; None if something else must be waited for first."""
    if session.resealing is not None and not session.resealing.done():
        return None
    if body.value is not UNSET:
        return None
    shown = shown_list(worker, session, body, require)
    if shown.key in session.answering or rank_and_answer.has_new_items(session, shown):
        return None
    return rank_and_answer.put_answer(worker, session, shown, parse_answer(body))


def may_pass(failure: Exception) -> bool:
    """Return whether a refusal may be outdated: no board here has signed the id, but the log may know better."""
    return isinstance(failure, Refused) and failure.code in (403, 404)


async def feedback(call: Call, body: FeedbackIn) -> FeedbackOut:
    """Answer an impression, once: repeating the answer is a duplicate, a different one is refused."""
    outcome = await _answer(call, call.board, body)
    session = call.worker.boards.get(call.board)
    return outcome_of(outcome, None if session is None else session.board.settle)


def outcome_of(outcome: str, settle: float | None) -> FeedbackOut:
    """The outcome, with words about when a waiting answer is learnt from, unless `settle` is None."""
    return FeedbackOut(outcome=outcome, says=waits(settle) if outcome == "waiting" and settle is not None else UNSET)


def waits(seconds: float) -> str:
    """Say in words when a waiting answer is learnt from; `seconds`: the settling time."""
    words = (
        f"{seconds:g} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.0f} h"
    )
    return f"waiting, learnt {words} after its list was shown (settle): until then items show no look or click of it"


async def feedback_batch(call: Call, body: BatchIn) -> BatchOut:
    """Answer many impressions of any boards; returns a code for each, and the first few messages."""
    rows = await _each(call, "/v1/feedback", body.feedback, answer_row, BatchOut)
    return BatchOut(feedback=rows, refused=_refused(rows))


async def outcome(call: Call, body: OutcomeIn) -> OutcomeOut:
    """Report an outcome of a click, before or after its list is answered; counts once per id."""
    return OutcomeOut(outcome=await _process_outcome(call, call.board, body))


async def outcome_batch(call: Call, body: OutcomesIn) -> OutcomesOut:
    """Report outcomes of many clicks of any boards; returns a code for each, and the first few messages."""
    rows = await _each(call, OUTCOMES, body.outcomes, outcome_row, OutcomesOut)
    return OutcomesOut(outcomes=rows, refused=_refused(rows))


async def _process_outcome(call: Call, name: str, body: OutcomeIn) -> str:
    call.require("feedback", name)
    amount = amount_of(body.value, body.kind)
    _check_name("id", body.id)
    if not _KIND.fullmatch(body.kind):
        raise Refused(422, f"kind is a word of 1 to 32 of A-Z a-z 0-9 _ -, such as purchase, not {body.kind!r:.80}")
    async with call.worker.cache.hold_board(name):
        session = call.worker.find_board(name)
        if session.resealing is not None and not session.resealing.done():
            await asyncio.shield(session.resealing)
        shown = session.seals.open(body.impression, call.worker.clock())
        return await rank_and_answer.outcome(call.worker, session, shown, body.item, body.id, amount)


async def _each(
    call: Call,
    path: str,
    rows: list[R],
    take: Callable[[Call, R], Awaitable[BatchRowOut]],
    gives: type[BatchOut] | type[OutcomesOut],
) -> list[BatchRowOut]:
    """Process each row of a batch at the worker that owns its board; `path`: the route for such rows."""
    if len(rows) > _MOST_ROWS:
        raise Refused(422, f"a batch has at most {_MOST_ROWS} rows, not {len(rows)}")
    done, member = [_AWAY] * len(rows), path.rpartition("/")[2]  # the name of the list of rows in body and answer

    async def here(numbered: list[tuple[int, R]]) -> None:
        write(numbered, await gather_in_turns(lambda one: take(call, one[1]), numbered))

    async def there(address: str, numbered: list[tuple[int, R]]) -> None:
        answer = await forward(call, address, path, {member: [row for _, row in numbered]}, gives)
        if isinstance(answer, ErrorOut):
            write(numbered, [BatchRowOut(code=answer.code, message=answer.message) for _ in numbered])
        else:
            write(numbered, getattr(answer, member))

    def write(numbered: list[tuple[int, R]], outcomes: list[BatchRowOut]) -> None:
        for (number, _), outcome in zip(numbered, outcomes, strict=True):
            done[number] = outcome

    await at_owners(call, list(enumerate(rows)), lambda numbered: numbered[1].board, here, there)
    return done


async def answer_row(call: Call, row: BatchRow) -> BatchRowOut:
    """Process an answer of a batch, for a board of this worker."""
    return await _row(call, row.board, lambda: _answer(call, row.board, row))


async def outcome_row(call: Call, row: OutcomeRow) -> BatchRowOut:
    """Process an outcome of a batch, for a board of this worker."""
    return await _row(call, row.board, lambda: _process_outcome(call, row.board, row))


async def _row(call: Call, board: str, take: Callable[[], Awaitable[str]]) -> BatchRowOut:
    """Process a row of a batch, for a board of this worker."""
    try:
        with call.worker.answering(board):
            return BatchRowOut(code=200, outcome=await take())
    except Refused as error:
        return BatchRowOut(code=error.code, message=str(error))
    except Unavailable:
        return BatchRowOut(code=503, message=AWAY)


def _refused(rows: list[BatchRowOut]) -> dict[str, int]:
    """Count refusals by code, and drop all but the first few messages, so that the answer stays short."""
    refused: dict[str, int] = {}
    for row in rows:
        if row.code != 200:
            refused[str(row.code)] = refused.get(str(row.code), 0) + 1
            if sum(refused.values()) > _MESSAGES:
                row.message = UNSET
    return refused


async def history(call: Call, body: HistoryIn) -> HistoryOut:
    """Learn from past clicks, oldest first; unknown items are added."""
    session = call.worker.find_board(call.board)
    return await learn_history(call, session, body, functools.partial(_past, session))


async def learn_history(
    call: Call, session: BoardSession, body: Any, past: Callable[[Any], events.Past]
) -> HistoryOut:
    """Learn from past clicks; rows are converted in a thread."""
    if len(body.rows) > 100_000 or len(body.batch) > 200:
        raise Refused(422, "a batch of past clicks has at most 100000 rows and a name of at most 200 characters")
    rows = await asyncio.to_thread(_past_rows, past, body.rows)
    slots = session.board.learner_state.slots  # in a thread, since there may be many
    fresh = await asyncio.to_thread(lambda: list({item for row in rows for item in row.items if item not in slots}))
    check_room(fresh, len(session.board.learner_state.names))
    await call.worker.check_room(session, len(fresh))
    starts, batch = range(0, len(rows), _ROWS_AT_ONCE), body.batch
    parts = [
        events.History(rows[start : start + _ROWS_AT_ONCE], f"{batch}#{start}" if batch else "", len(rows))
        for start in starts
    ]
    # if a part came before with other rows, all are refused
    fresh_parts = await asyncio.to_thread(lambda: [x for x in parts if not session.board.batches.includes(x)])
    learnt, outcome = 0, "duplicate" if parts else "done"
    for part in fresh_parts:  # another worker may have written them meanwhile: the log decides
        if await call.worker.write_event(session, part) != "duplicate":
            learnt, outcome = learnt + len(part.rows), "done"
    return HistoryOut(rows=learnt, outcome=outcome)


def _past_rows(past: Callable[[Any], events.Past], given: list[Any]) -> list[events.Past]:
    rows = []
    for i, row in enumerate(given, 1):
        try:
            rows.append(past(row))
        except Refused as error:
            raise Refused(error.code, f"row {i}: {error}") from None
    return rows


def _past(session: BoardSession, row: PastIn) -> events.Past:
    length, visit = session.board.length, known_of_visit(session, row.features, row.segment)
    if not 1 <= len(row.items) <= length or len(set(row.items)) < len(row.items):
        raise Refused(422, f"a list has 1 to {length} different items, not {len(row.items)}: {row.items[:9]!r:.200}")
    check_items(row.items)
    session.board.learner_state.features.check_visit(visit)
    answer = parse_answer(row).to(row.items)
    amount = amount_of(row.value, "")
    if amount > 0.0:
        answers.only_click(answer)
        if session.board.learner_state.outcomes is None:
            raise Refused(409, NO_OUTCOMES)
    return events.Past(row.items, answer.positions, answer.examined, as_logged(visit), value=amount)
