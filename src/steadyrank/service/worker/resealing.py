"""Another secret signs the impression ids of a board; ids in flight stay good until they expire."""

import asyncio

from ...refusals import Refused
from ..board import events
from ..storage import Unavailable
from .board_session import BoardSession
from .log_writer import LogWriter

_SLACK = 60.0  # seconds until every worker signs by the new secret: a store may be away for a moment
_AGAIN = 0.5  # seconds


async def rotate(log_writer: LogWriter, session: BoardSession, now: float) -> float:
    """Have the store make a secret that signs from now on; until when ids signed by the one before are good."""
    until = now + session.board.config.lifetime + _SLACK
    event = events.encode(events.Resealed())
    if not await log_writer.do(lambda store: store.rotate_seal(session.number, event, now, until)):
        raise Refused(404, "the board was deleted")
    return until


async def reseal(log_writer: LogWriter, session: BoardSession) -> None:
    """Read which secret signs, after the log said that it is another one."""
    while True:
        try:
            session.reseal(await log_writer.do(lambda store: store.seals(session.number)))
            return
        except Unavailable:
            await asyncio.sleep(_AGAIN)
