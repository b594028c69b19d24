"""Routes that are asked all the time: a list, its answer, and past clicks."""

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
from ..worker.listing import Found
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
    gather_in_turns,
    known_of_visit,
    pass_on,
)

OUTCOMES = "/v1/outcomes"
_MOST_ROWS = 10_000  # of a batch
_CLIENT = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,200}")  # what can be stored can be written down, and deleted
_KIND = re.compile(KIND_NAME)
_MESSAGES = 10  # refusals of a batch that say why
_ROWS_AT_ONCE = 1_000  # past clicks of an event
_MOST_CANDIDATES = 10_000  # each is looked up while others wait
_SHORT = 10_000  # bytes of rules of a request that are kept for the next
_MOST_LATEST = 32  # such rules
_LATEST: dict[bytes, Rules] = {}  # by what requests said


class RankIn(Schema):
    """What to rank: all items, or some candidates; a list as long as the board's, or shorter.

    `client`: who looks; `cohort`: what it has in common with others, at most eight kinds, such as network or agent;
    of these, those that the board declares in `cohorts`, if it does.
    `unknown`: what becomes of candidates that are no items of the board: refuse the request, skip or add them.
    `theirs`: the caller's own list, from the top, to be mixed with ours, where the board has `interleave`.
    `features`: what is known of the visit, where the board has `features` of visits; `segment`: which of the board's
    `segments` it belongs to; null: it is not known. `rules`: those of this list, beside the board's.
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

    `client`, `cohort`, `length` and `theirs` are as for boards; what is in `theirs` has to be among the candidates.
    `rules`: what this list keeps, as for boards; of items that are no candidates they hold as far as they can.
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
    """A list that was given out; `expires` in seconds since 1970; `skipped`: how many candidates were left out;
    `unkept`: rules that could not be kept, where the best list was asked for."""

    impression: str
    items: list[str]
    expires: float
    skipped: int | UnsetType = UNSET
    unkept: list[str] | UnsetType = UNSET


class FeedbackIn(AnswerIn, kw_only=True):
    """An answer to an impression; `client`: who answers, where the board has `bind_client`.

    `value`: what came of the click on `clicked` at once, as by `outcomes` under this `id`. It needs a key with the
    scope feedback.
    """

    impression: str
    client: str | None = None
    value: float | UnsetType = UNSET
    id: str = WITH_ANSWER


class FeedbackOut(Schema):
    """learnt, waiting, late, or duplicate; `says`: when an answer that waits is learnt from, in words."""

    outcome: str
    says: str | UnsetType = UNSET


class BatchRow(FeedbackIn, kw_only=True):
    """An answer with its board."""

    board: str


class BatchIn(Schema):
    """Many answers."""

    feedback: list[BatchRow]


class BatchRowOut(Schema):
    """An outcome, or the code of a refusal; the first few of these say why."""

    code: int
    outcome: str | None = None
    message: str | UnsetType = UNSET


class BatchOut(Schema):
    """One for each row, in order, and how many were refused with which code."""

    feedback: list[BatchRowOut]
    refused: dict[str, int]


class OutcomeIn(Schema, kw_only=True):
    """What came of a click: `value`, at least 0, all of a board in one unit; `id`: counts once for a click under it.

    `kind`: purchase, read or any other word; return takes off what was reported before.
    """

    impression: str
    item: str
    value: float
    id: str
    kind: str = "purchase"


class OutcomeOut(Schema):
    """learnt; counted, where clicks are the goal; waiting for the answer; ignored: a guard or a label kept the visit
    from the learner; or duplicate.
    """

    outcome: str


class OutcomeRow(OutcomeIn, kw_only=True):
    """What came of a click, with its board."""

    board: str


class OutcomesIn(Schema):
    """What came of many clicks."""

    outcomes: list[OutcomeRow]


class OutcomesOut(Schema):
    """One for each row, in order, and how many were refused with which code."""

    outcomes: list[BatchRowOut]
    refused: dict[str, int]


class PastIn(AnswerIn, kw_only=True):
    """A list shown in the past, and what was clicked; `features`, `segment`: known of the visit, as for `rank`.

    `value`: what came of the one click.
    """

    items: list[str]
    value: float = 0.0
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


_AWAY = BatchRowOut(code=503, message=AWAY)
R = TypeVar("R", BatchRow, OutcomeRow)


async def rank(call: Call, body: RankIn) -> RankOut:
    """A list of items, and an id to answer it with."""
    check_rank(body)
    session = call.worker.find_board(call.board)
    if body.unknown == "add":
        await _add_unknown(call, session, body)
    return make_list(call.worker, session, body)


def make_list(giver: Worker | Replicas, session: BoardSession, body: RankIn) -> RankOut:
    """A list of items, and an id to answer it with, of a board or of a copy of it; nothing is added to the board."""
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
    """The rules of a request; refused where they are wrong in themselves.

    Those of the latest requests are kept, so that the same ones again are not looked through again.
    """
    if body.rules is None:
        return None
    said = msgspec.msgpack.encode(body.rules)
    if (known := _LATEST.get(said)) is not None:
        return known
    try:
        made = body.rules.made()
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
    """A list of a collection, and an id to answer it with."""
    check_sender(body.client, body.cohort)
    check_number("theirs", body.theirs)
    found, who = Found(body.query, body.candidates, body.scores), (body.client, body.cohort, body.theirs)
    given = rank_and_answer.rank(worker, session, None, body.length, *who, found=found, rules=_rules(body))
    return _out(given, 0)


def list_now(giver: Worker | Replicas, session: BoardSession, body: RankIn | QueryRankIn) -> RankOut | None:
    """A list of a board or of a collection; None if items are to be added first, or if it is the other of these."""
    if (session.keys is not None) != isinstance(body, QueryRankIn):
        return None
    if isinstance(body, QueryRankIn):
        if body.theirs is not None:
            check_theirs(session, body.theirs, body.client)
        return list_for(giver, session, body)
    check_rank(body)
    return None if body.unknown == "add" else make_list(giver, session, body)


def rank_from_copy(replicas: Replicas, board: str, body: RankIn | QueryRankIn) -> RankOut | None:
    """The same from a copy of another worker's board; None also where the owner has to: to mix lists."""
    session = replicas.find_board(board)
    return None if body.theirs is not None else list_now(replicas, session, body)


def check_rank(body: RankIn) -> None:
    """Refuse what is wrong in itself."""
    check_sender(body.client, body.cohort)
    answers.check_candidates(body.candidates)
    check_number("candidates", body.candidates)
    check_number("theirs", body.theirs)


def _without_unknown(
    session: BoardSession, some: list[str] | None, theirs: list[str] | None
) -> tuple[list[str] | None, list[str] | None, int]:
    """Candidates and the caller's list without names that are no items, and how many these are."""
    gone = set(fresh([*(some or ()), *(theirs or ())], session.board.learner_state.slots))
    some = None if some is None else without(some, [item for item in some if item in gone])
    return some, [item for item in theirs or () if item not in gone] or None, len(gone)


async def _add_unknown(call: Call, session: BoardSession, body: RankIn) -> None:
    """Add candidates, and items of the caller's list, that are none of the board yet; it takes the scope for that.

    Whatever is to be refused adds nothing.
    """
    if body.theirs is not None:
        check_theirs(session, body.theirs, body.client)
    visit = known_of_visit(session, body.features, body.segment)
    others = fresh([*(body.candidates or ()), *(body.theirs or ())], session.board.learner_state.slots)
    if others:
        _rules(body)
        rank_and_answer.places(session, body.length)
        session.board.learner_state.features.check_visit(visit)
        call.may("observe", session.name)
        check_items(others)
        await add_new(call.worker, session, others, by_lists=True)


def check_number(what: str, items: list[str] | None) -> None:
    """Refuse more items than are looked up for one list."""
    if items is not None and len(items) > _MOST_CANDIDATES:
        raise Refused(422, f"{what} must name at most {_MOST_CANDIDATES} items, not {len(items)}")


def check_sender(client: str | None, cohort: Mapping[str, str] | None) -> None:
    """Refuse what cannot name who looks, or what it has in common with others."""
    if cohort is not None and len(cohort) > MOST_KINDS:
        raise Refused(422, f"a board has at most {MOST_KINDS} kinds of cohorts: not {len(cohort)}")
    if client is not None:
        _check_name("client", client)
    for kind, name in (cohort or {}).items():
        check_kind(kind)
        _check_name(f"cohort {kind}", name)


def _check_name(what: str, name: str) -> None:
    """Refuse what cannot name a client or a cohort."""
    if not _CLIENT.fullmatch(name) or name in (".", ".."):
        words = f"{what} must be text of 1 to 200 characters, no control characters among them, no . or .."
        raise Refused(422, f"{words}, not {name!r:.80}")


def said(answer: AnswerIn) -> answers.Given:
    """What an answer says, if it says it in one way."""
    clicked = answers.LEFT_OUT if answer.clicked is UNSET else answer.clicked
    return answers.given(answers.OVER_HTTP, clicked=clicked, clicks=answer.clicks, examined=answer.examined)


async def _answer(call: Call, name: str, body: FeedbackIn) -> str:
    """The outcome of an answer.

    An id that no board recognizes may be of one that was made, or made anew, at another worker a moment ago: so the
    store is looked at before it is refused. To who has no key a board that is not there is like one that did not sign
    the id, in words and in time.
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
    if parked is not None and not call.visible(name):  # why it is not served is told to who has an id of it
        parked.seals.open(body.impression, call.worker.clock())
    evicted = call.worker.cache.evicted.get(name)
    if evicted is not None and evicted.loading is None:  # it is loaded for an id of its own alone
        evicted.open_id(body.impression, call.worker.clock())
    async with call.worker.cache.hold_board(name):
        session = call.worker.find_board(name)
        if session.resealing is not None and not session.resealing.done():
            await asyncio.shield(session.resealing)
        shown = shown_list(call.worker, session, body, call.may)
        if body.value is UNSET:
            return await rank_and_answer.answer(call.worker, session, shown, said(body))
        return await _answer_with_value(call, session, shown, body)


async def _answer_with_value(call: Call, session: BoardSession, shown: ImpressionId, body: FeedbackIn) -> str:
    """The outcome of an answer with what came of its click, which is refused before anything of it is written."""
    call.may("feedback", session.name)
    if body.value is UNSET or not isinstance(body.clicked, str):
        raise Refused(422, "value goes with clicked, an item: report what came of several clicks by outcomes")
    amount = amount_of(body.value, "")
    _check_name("id", body.id)
    rank_and_answer.check_outcome(call.worker, session, shown.expires - session.board.config.lifetime)
    outcome = await rank_and_answer.answer(call.worker, session, shown, said(body))
    await rank_and_answer.outcome(call.worker, session, shown, body.clicked, body.id, amount)
    return outcome


def shown_list(
    worker: Worker, session: BoardSession, body: FeedbackIn, may: Callable[[str, str], object]
) -> ImpressionId:
    """The list that is answered; refused where the id is not the board's, or not for who sent the answer."""
    shown = session.seals.open(body.impression, worker.clock())
    if not session.board.config.public_feedback:
        may("feedback", session.name)
    if session.board.config.bind_client and not session.is_client(body.client, shown.client):
        raise Refused(403, "the list was given to another client: name that one, as when the list was asked for")
    return shown


def answer_now(
    worker: Worker, session: BoardSession, body: FeedbackIn, may: Callable[[str, str], object]
) -> str | asyncio.Future[str] | None:
    """The outcome of an answer to a board in memory, or a future of it; None if it has to wait for anything else."""
    if session.resealing is not None and not session.resealing.done():
        return None
    if body.value is not UNSET:
        return None
    shown = shown_list(worker, session, body, may)
    if shown.key in session.answering or rank_and_answer.has_new_items(session, shown):
        return None
    return rank_and_answer.put_answer(worker, session, shown, said(body))


def may_pass(failure: Exception) -> bool:
    """Whether an answer was refused for what the log may say otherwise by now: no board here has signed its id."""
    return isinstance(failure, Refused) and failure.code in (403, 404)


async def feedback(call: Call, body: FeedbackIn) -> FeedbackOut:
    """Answer an impression: once; the same answer again is a duplicate, another one is refused."""
    outcome = await _answer(call, call.board, body)
    session = call.worker.boards.get(call.board)
    return outcome_of(outcome, None if session is None else session.board.settle)


def outcome_of(outcome: str, settle: float | None) -> FeedbackOut:
    """An outcome, and in words when an answer that waits is learnt from; None: that is not known."""
    return FeedbackOut(outcome=outcome, says=waits(settle) if outcome == "waiting" and settle is not None else UNSET)


def waits(seconds: float) -> str:
    """When an answer is learnt from that waits until its list was shown so long ago."""
    words = (
        f"{seconds:g} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.0f} h"
    )
    return f"waiting, learnt {words} after its list was shown (settle): until then items show no look or click of it"


async def feedback_batch(call: Call, body: BatchIn) -> BatchOut:
    """Answer many impressions, of any boards; a code for each, and the first few messages."""
    rows = await _each(call, "/v1/feedback", body.feedback, answer_row, BatchOut)
    return BatchOut(feedback=rows, refused=_refused(rows))


async def outcome(call: Call, body: OutcomeIn) -> OutcomeOut:
    """Something came of a click: once by its id, before or after its list was answered."""
    return OutcomeOut(outcome=await _take_outcome(call, call.board, body))


async def outcome_batch(call: Call, body: OutcomesIn) -> OutcomesOut:
    """What came of many clicks, of any boards; a code for each, and the first few messages."""
    rows = await _each(call, OUTCOMES, body.outcomes, outcome_row, OutcomesOut)
    return OutcomesOut(outcomes=rows, refused=_refused(rows))


async def _take_outcome(call: Call, name: str, body: OutcomeIn) -> str:
    call.may("feedback", name)
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
    """What becomes of each row of a batch, at the worker that owns its board; `path`: of the route of such rows."""
    if len(rows) > _MOST_ROWS:
        raise Refused(422, f"a batch has at most {_MOST_ROWS} rows, not {len(rows)}")
    done, member = [_AWAY] * len(rows), path.rpartition("/")[2]  # what the rows are called in body and answer

    async def here(numbered: list[tuple[int, R]]) -> None:
        write(numbered, await gather_in_turns(lambda one: take(call, one[1]), numbered))

    async def there(address: str, numbered: list[tuple[int, R]]) -> None:
        answer = await pass_on(call, address, path, {member: [row for _, row in numbered]}, gives)
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
    """What becomes of an answer to a list of a board that is here."""
    return await _row(call, row.board, lambda: _answer(call, row.board, row))


async def outcome_row(call: Call, row: OutcomeRow) -> BatchRowOut:
    """What becomes of an outcome of a click on a board that is here."""
    return await _row(call, row.board, lambda: _take_outcome(call, row.board, row))


async def _row(call: Call, board: str, take: Callable[[], Awaitable[str]]) -> BatchRowOut:
    """What becomes of a row of a board that is here."""
    try:
        with call.worker.answering(board):
            return BatchRowOut(code=200, outcome=await take())
    except Refused as error:
        return BatchRowOut(code=error.code, message=str(error))
    except Unavailable:
        return BatchRowOut(code=503, message=AWAY)


def _refused(rows: list[BatchRowOut]) -> dict[str, int]:
    """Refusals as numbers by code; messages are left to the first few: not an echo of what was sent."""
    refused: dict[str, int] = {}
    for row in rows:
        if row.code != 200:
            refused[str(row.code)] = refused.get(str(row.code), 0) + 1
            if sum(refused.values()) > _MESSAGES:
                row.message = UNSET
    return refused


async def history(call: Call, body: HistoryIn) -> HistoryOut:
    """Start from past clicks, oldest first; items not known yet are added."""
    session = call.worker.find_board(call.board)
    return await take_history(call, session, body, functools.partial(_past, session))


async def take_history(
    call: Call, session: BoardSession, body: Any, past: Callable[[Any], events.Past]
) -> HistoryOut:
    """Start from past clicks, each of which is read in a thread."""
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
    # if a part came with other rows before, all are refused
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
    answer = said(row).to(row.items)
    amount = amount_of(row.value, "")
    if amount > 0.0:
        answers.only_click(answer)
        if session.board.learner_state.outcomes is None:
            raise Refused(409, NO_OUTCOMES)
    return events.Past(row.items, answer.positions, answer.examined, as_logged(visit), value=amount)
