"""Another secret signs the impression ids of a board; ids in flight stay good until they expire."""

import asyncio

from ...core.refusals import Refused
from ..board import events
from ..board.config import MOST_LIFETIME
from ..storage import SqlStore, Unavailable
from .board_session import BoardSession
from .log_writer import LogWriter

_SLACK = 60.0  # seconds until every worker signs by the new secret: a store may be away for a moment
_AGAIN = 0.5  # seconds


async def promise(log_writer: LogWriter, session: BoardSession, now: float) -> None:
    """Have the store keep when ids given out by now expire; to be called before the lifetime is lowered."""
    until = now + session.board.config.lifetime + _SLACK
    await log_writer.run_chore(lambda store: store.promise(session.number, until))


async def rotate(log_writer: LogWriter, session: BoardSession, now: float) -> float:
    """Have the store make a secret that signs from now on; until when ids signed by the one before are good.

    That is when the last of them expires, by the lifetime that the board has, or by a longer one that it had.
    """
    event, lifetime = events.encode(events.Resealed()), session.board.config.lifetime

    def write(store: SqlStore) -> float | None:
        longest = now + MOST_LIFETIME + _SLACK  # beyond it, it was promised by a clock that was wrong
        until = max(now + lifetime + _SLACK, min(store.promised(session.number), longest))
        return until if store.rotate_seal(session.number, event, now, until) else None

    until: float | None = await log_writer.run_chore(write)
    if until is None:
        raise Refused(404, "the board was deleted")
    return until


async def reseal(log_writer: LogWriter, session: BoardSession) -> None:
    """Read which secret signs, after the log said that it is another one."""
    while True:
        try:
            session.reseal(await log_writer.run_chore(lambda store: store.seals(session.number)))
            return
        except Unavailable:
            await asyncio.sleep(_AGAIN)
