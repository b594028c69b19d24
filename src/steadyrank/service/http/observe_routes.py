"""Routes for users of another ranker: it reports its lists, and ours are compared with them."""

import asyncio
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from ...comparison.off_policy import LEAST_CHANCE, check_chances
from ...core.refusals import Refused
from ...live.outcomes import WITH_ANSWER, amount_of
from ..board.guard_summary import suspects
from ..board.interleaving_summary import InterleavingOut, summarize_interleaving
from ..worker import observing, rank_and_answer
from ..worker.board_session import BoardSession
from ..worker.listing import EngineResult
from ..worker.observing import ComparisonOut, ObserveOut
from .board_routes import check_items
from .rank_routes import check_number, check_sender, parse_answer
from .request import NO_QUERY, AnswerIn, Call, Features, known_of_visit

# checked by the route, which names the value that is wrong
_Chance: TypeAlias = Annotated[float, Meta(extra_json_schema={"minimum": LEAST_CHANCE, "maximum": 1})]


class ObserveIn(AnswerIn, kw_only=True):
    """A list shown by another ranker, from the top, and its answer, if known.

    `id`: any unique name of the list; repeating it is a duplicate. `time`: when it was shown, in seconds since 1970;
    default: now. `propensities`: the chance with which that ranker chose the item of each place, given those above
    it; `marginals`: the same whatever is above it. `candidates`: what it chose from, if not from all items.
    `features`, `segment`: of the visit, as for `rank`. `query`: for a collection, the query of the list; there
    `candidates` are in the engine's order, with their `scores`, and default to the items. `value`: of the outcome of
    the click on `clicked`, if known; it also needs a key with the scope feedback.
    """

    id: Annotated[str, Meta(min_length=1, max_length=200)]
    items: list[str]
    time: float | None = None
    client: str | None = None
    cohort: dict[str, str] | None = None
    candidates: list[str] | None = None
    propensities: list[_Chance] | None = None
    marginals: list[_Chance] | None = None
    features: Features | None = None
    segment: str | None = None
    query: str | None = None
    scores: list[float] | None = None
    value: float | msgspec.UnsetType = msgspec.UNSET


async def observe(call: Call, body: ObserveIn) -> ObserveOut:
    """Learn from a list shown by another ranker; repeated reports count once."""
    return await observe_at(call, body)


async def observe_at(call: Call, body: ObserveIn, stream: str = "", offset: int = 0) -> ObserveOut:
    """Run `observe` for a list from a stream, given its partition and offset."""
    session = call.worker.find_board(call.board)
    check_list(session, body.items)
    check_sender(body.client, body.cohort)
    check_number("candidates", body.candidates)
    for name in ("propensities", "marginals"):
        _check_chances(name, getattr(body, name), len(body.items))
    amount = _amount(call, session, body)
    answered = body.clicked is not msgspec.UNSET or body.clicks is not None or body.examined is not None
    report = observing.Report(
        body.id,
        body.items,
        parse_answer(body) if answered else None,
        body.time,
        body.client,
        body.cohort or {},
        body.candidates,
        body.propensities or (),
        body.marginals or (),
        known_of_visit(session, body.features, body.segment),
        stream,
        offset,
        _engine_result(session, body),
    )
    seen = await observing.observe(call.worker, session, report)
    if amount is not None and isinstance(body.clicked, str):
        shown = session.seals.open(seen.impression, call.worker.clock())
        await rank_and_answer.outcome(call.worker, session, shown, body.clicked, WITH_ANSWER, amount)
    return seen


def _amount(call: Call, session: BoardSession, body: ObserveIn) -> float | None:
    """The value of the click's outcome, validated before anything is written; None if not given."""
    if body.value is msgspec.UNSET:
        return None
    call.require("feedback", session.name)
    if not isinstance(body.clicked, str):
        raise Refused(422, "value needs clicked, one item: report the outcomes of several clicks through outcomes")
    rank_and_answer.check_outcome(call.worker, session, call.worker.clock() if body.time is None else body.time)
    return amount_of(body.value, "")


def _engine_result(session: BoardSession, body: ObserveIn) -> EngineResult | None:
    """The candidates of a collection's list; None for a board. Raises Refused if given or missing wrongly."""
    if session.keys is None:
        if body.query is not None or body.scores is not None:
            raise Refused(422, NO_QUERY.format(session.name))
        return None
    if body.query is None:
        raise Refused(422, "a list of a collection needs the query that it was for")
    return EngineResult(body.query, body.items if body.candidates is None else body.candidates, body.scores)


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
    """Raise Refused if this cannot be a list of the board, or has more new items than there is room for."""
    state = session.board.learner_state
    if not 1 <= len(items) <= state.length or len(set(items)) < len(items):
        raise Refused(422, f"a list has 1 to {state.length} different items, not {len(items)}: {items[:9]!r:.200}")
    check_items(items)
    check_items([item for item in items if item not in state.slots], len(state.names))


async def comparison(call: Call) -> ComparisonOut:
    """Compare with what our lists would have got instead of the other ranker's, with 95 % intervals, from the log."""
    worker, session = call.worker, call.worker.find_board(call.board)
    async with worker.exporting:
        reported = await asyncio.to_thread(observing.read_reported, worker.url, session.number)
        board = session.board
        over = worker.clock() - board.config.lifetime if board.config.count_unanswered else None
        names, odd = [] if session.keys else list(board.learner_state.names), suspects(board)
        return await asyncio.to_thread(observing.compare_rankers, reported, names, odd, over)


async def interleaving(call: Call) -> InterleavingOut:
    """Which of two rankers clicks on mixed lists prefer; the answer is valid however often it is requested."""
    return summarize_interleaving(call.worker.find_board(call.board).board)
