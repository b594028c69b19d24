"""Routes for who runs another ranker today: its lists come in, and ours are compared with them."""

import asyncio
import math

import msgspec

from ...comparison.interleaving import Standing
from ...comparison.off_policy import Interval, check_chances
from ...comparison.ranker_comparison import Part
from ...core.refusals import Refused
from ..board.guard_summary import suspects
from ..board.interleaving_summary import summarize_interleaving
from ..worker import observing
from ..worker.board_session import BoardSession
from .board_routes import check_items
from .observe_schemas import ComparisonOut, EstimateOut, InterleavingOut, ObserveIn, ObserveOut, PartOut, StandingOut
from .rank_routes import check_number, check_sender, said
from .route import Call, known_of_visit
from .state_schemas import IntervalOut


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
