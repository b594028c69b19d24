"""Rotate the secret that signs a board's impression ids; ids in flight remain valid until they expire."""

import asyncio

from ...core.refusals import Refused
from ..board import events
from ..board.config import MOST_LIFETIME
from ..storage import SqlStore, Unavailable
from .board_session import BoardSession
from .log_writer import LogWriter

_SLACK = 60.0  # seconds until every worker signs with the new secret: a store may be unavailable for a moment
_AGAIN = 0.5  # seconds


async def promise(log_writer: LogWriter, session: BoardSession, now: float) -> None:
    """Store until when ids given out so far are valid; call it before the lifetime is lowered."""
    until = now + session.board.config.lifetime + _SLACK
    await log_writer.run_chore(lambda store: store.promise(session.number, until))


async def rotate(log_writer: LogWriter, session: BoardSession, now: float) -> float:
    """Make the store create a new secret. Returns until when ids signed by the old one are valid.

    That is when the last of them expires, by the present lifetime or a longer former one.
    """
    event, lifetime = events.encode(events.Resealed()), session.board.config.lifetime

    def write(store: SqlStore) -> float | None:
        longest = now + MOST_LIFETIME + _SLACK  # a later time was promised by a clock that was wrong
        until = max(now + lifetime + _SLACK, min(store.promised(session.number), longest))
        return until if store.rotate_seal(session.number, event, now, until) else None

    until: float | None = await log_writer.run_chore(write)
    if until is None:
        raise Refused(404, "the board was deleted")
    return until


async def reseal(log_writer: LogWriter, session: BoardSession) -> None:
    """Read the current secrets after the log announced a rotation, retrying until it succeeds."""
    while True:
        try:
            session.reseal(await log_writer.run_chore(lambda store: store.seals(session.number)))
            return
        except Unavailable:
            await asyncio.sleep(_AGAIN)
