"""Cached search for items with rising clicks and too few outcomes, repeated after enough new events."""

import weakref

from ..board.few_outcomes import BLOCKS, FewOutcomesOut, answered_lists, few_outcomes
from .board_session import BoardSession
from .worker import Worker

_FEWEST_EVENTS = 50  # between two searches


async def few_outcomes_of(worker: Worker, session: BoardSession) -> list[FewOutcomesOut]:
    """The items found on a board; the result may lag by up to a fortieth of its remembered lists."""
    board, (looked_at, events, items) = session.board, session.few_outcomes
    remembered = board.impressions.last - board.impressions.forgotten
    again = looked_at is None or looked_at() is not board
    if again or board.events - events >= max(_FEWEST_EVENTS, remembered // BLOCKS):
        events = board.events
        items = await worker.look_at_copy(session, answered_lists, few_outcomes)
        session.few_outcomes = weakref.ref(board), events, items
    return items
