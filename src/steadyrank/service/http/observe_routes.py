"""Routes for who runs another ranker today: its lists come in, and ours are compared with them."""

import msgspec

from ...refusals import Refused
from ..worker import observing
from .board_routes import check_items
from .observe_schemas import ObserveIn, ObserveOut
from .rank_routes import check_sender, said
from .route import Call


async def observe(call: Call) -> ObserveOut:
    """Learn from a list that another ranker showed; once, however often it is sent."""
    body: ObserveIn = call.body
    session = call.worker.find(call.board)
    state = session.board.learner_state
    if not 1 <= len(body.items) <= state.length or len(set(body.items)) < len(body.items):
        raise Refused(422, f"a list has 1 to {state.length} different items, not {body.items!r:.200}")
    check_items(body.items)
    check_items([item for item in body.items if item not in state.slots], len(state.names))
    check_sender(body.client, body.cohort)
    for name in ("propensities", "marginals"):
        given = getattr(body, name)
        if given is not None and len(given) != len(body.items):
            raise Refused(422, f"{name} must be one for each of the {len(body.items)} items, not {len(given)}")
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
    )
    taken = await observing.observe(call.worker, session, report)
    return ObserveOut(outcome=taken.outcome, impression=taken.impression, expires=taken.expires, ours=taken.ours)
