"""Items whose clicks rise while outcomes do not, looked for again whenever enough has come that is new."""

import weakref

from ..board.few_outcomes import BLOCKS, FewOutcomesOut, answered_lists, few_outcomes
from .board_session import BoardSession
from .worker import Worker

_FEWEST_EVENTS = 50  # between two looks


async def few_outcomes_of(worker: Worker, session: BoardSession) -> list[FewOutcomesOut]:
    """The items of a board that are told of, as of a fortieth of its remembered lists ago, or less."""
    board, (looked_at, events, items) = session.board, session.few_outcomes
    remembered = board.impressions.last - board.impressions.forgotten
    again = looked_at is None or looked_at() is not board
    if again or board.events - events >= max(_FEWEST_EVENTS, remembered // BLOCKS):
        events = board.events
        items = await worker.look_at_copy(session, answered_lists, few_outcomes)
        session.few_outcomes = weakref.ref(board), events, items
    return items
