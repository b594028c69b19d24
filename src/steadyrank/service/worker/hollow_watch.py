"""Items whose clicks rise while outcomes do not, looked for again whenever enough has come that is new."""

import weakref

from ..board.hollow_items import BLOCKS, HollowItemOut, answered_lists, hollow_items
from .board_session import BoardSession
from .worker import Worker

_FEWEST_EVENTS = 50  # between two looks


async def hollow_items_of(worker: Worker, session: BoardSession) -> list[HollowItemOut]:
    """The items of a board that are told of, as of a fortieth of its remembered lists ago, or less."""
    board, (looked_at, events, items) = session.board, session.hollow
    remembered = board.impressions.last - board.impressions.forgotten
    again = looked_at is None or looked_at() is not board
    if again or board.events - events >= max(_FEWEST_EVENTS, remembered // BLOCKS):
        events = board.events
        items = await worker.look_at_copy(session, answered_lists, hollow_items)
        session.hollow = weakref.ref(board), events, items
    return items
