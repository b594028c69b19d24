"""Which boards of a worker are in memory: the least used ones go to sleep, and wake when they are asked for.

A board sleeps when nobody holds it, its own events are applied, and nothing of it is due. If impressions of it are
open, the sleeper keeps when they are due, and wakes for that. Waking is folding: from the latest snapshot, or from
the beginning of the log, up to one moment; what came since is applied in log order: nothing is missed or comes twice.
"""

import asyncio
import heapq
import logging
import math
from typing import Any, Protocol

from ...refusals import Refused
from ..storage import Unavailable
from .board_session import BoardSession, Parked
from .log_writer import Line
from .sleeper import Sleeper, rest_of
from .sleepers import Resting, Sleepers

SNAPSHOT_AFTER = 500  # events of a board since its latest snapshot for which it is worth another before it sleeps
_SPARE = 20  # one in so many boards more than needed goes to sleep, so that not every moment somebody has to
_MOST_CLIENTS = 20  # counted in a minute: of a board with more, the minute has to end before it sleeps
_AGAIN = 5.0  # seconds until a board that could not be read is tried again
_LEAVING = 2.0  # seconds for snapshots at the end
_SLEEPING_HOURS = 60  # minutes between looks for clients of a board that sleeps

log = logging.getLogger("steadyrank.service")


class Host(Protocol):
    """What of a worker is needed here."""

    numbers: dict[int, BoardSession]
    parked: dict[str, Parked]
    sleepers: Sleepers
    most_awake: int
    divergences: int

    def monotonic(self) -> float:
        """Seconds since some start."""

    def take_up(self, session: BoardSession) -> None:
        """A board is in memory from now on."""

    def drop(self, number: int) -> None:
        """A board is no longer in memory."""

    def apply(self, session: BoardSession, line: Line) -> str:
        """Apply an event to a board."""

    def park(self, number: int, why: str) -> None:
        """Serve a board no longer."""

    def spawn(self, work: Any) -> "asyncio.Task[Any]":
        """Do something meanwhile."""

    async def catch_up(self) -> None:
        """Wait until the log is applied as far as it goes now."""


async def wake(host: Host, sleeper: Sleeper) -> None:
    """Bring a board into memory; who asks meanwhile waits for the same."""
    _begin_waking(host, sleeper)
    failure: Unavailable | None = await asyncio.shield(sleeper.waking)
    if failure is not None:
        raise failure


def _begin_waking(host: Host, sleeper: Sleeper) -> None:
    if sleeper.waking is None:
        sleeper.waking = host.spawn(_wake(host, sleeper))


async def _wake(host: Host, sleeper: Sleeper) -> Unavailable | None:
    try:
        session = await host.sleepers.load(sleeper)
    except Unavailable as error:
        _sleep_on(host, sleeper)
        return error
    except ValueError as error:
        if host.sleepers.by_number.get(sleeper.number) is sleeper:
            host.park(sleeper.number, str(error))
        return None
    except BaseException:
        _sleep_on(host, sleeper)
        raise
    if host.sleepers.by_number.get(sleeper.number) is not sleeper:
        return None  # deleted meanwhile
    host.sleepers.drop(sleeper.number)
    if session is None:
        return None  # deleted, and the event that says so is on its way
    sleeper.woken(session)
    host.take_up(session)
    for line in sleeper.held:
        try:
            host.apply(session, line)
        except Refused:
            if session.parked is not None:
                break
            continue  # who wrote it was told
    return None


def _sleep_on(host: Host, sleeper: Sleeper) -> None:
    """A board could not be read now: who asks may try again, and what has to wake it will."""
    held, sleeper.held, sleeper.waking = sleeper.held, [], None
    now = host.monotonic()
    for line in held:
        sleeper.hear(line, now)
    if sleeper.due < math.inf:
        sleeper.due = max(sleeper.due, now + _AGAIN)
        host.sleepers.schedule(sleeper)


def hear(host: Host, line: Line) -> str:
    """An event of a board that is not in memory."""
    sleeper = host.sleepers.by_number.get(line.board)
    if sleeper is None:
        parked = next((board for board in host.parked.values() if board.number == line.board), None)
        raise Refused(404, "the board was deleted") if parked is None else parked.refusal()
    if sleeper.waking is not None:
        sleeper.held.append(line)
    elif sleeper.hear(line, host.monotonic()):
        _begin_waking(host, sleeper)
        host.spawn(wake_unasked(host, sleeper))
    else:
        host.sleepers.schedule(sleeper)
    return "done"


async def rest(host: Host) -> None:
    """Put the least used boards to sleep, until there are no more than there may be in memory."""
    now = host.monotonic()
    count = len(host.numbers) - host.most_awake + host.most_awake // _SPARE
    idle = (session for session in host.numbers.values() if _idle(session, now))
    chosen = [(session, session.used) for session in heapq.nsmallest(count, idle, key=lambda s: s.used)]
    try:
        await host.catch_up()  # what they have put into the log is applied then
    except Unavailable:
        return
    now, leaving = host.monotonic(), []
    for session, used in chosen:
        if session.used == used and host.numbers.get(session.number) is session and _idle(session, now):
            host.drop(session.number)
            host.sleepers.add(Sleeper.of(session, now))
            leaving.append(_resting(session))
    if leaving:
        host.divergences += len(await asyncio.shield(host.sleepers.save(leaving)))  # also if the worker ends


def _idle(session: BoardSession, now: float) -> bool:
    """Whether a board could sleep as far as it knows itself."""
    busy = session.users or session.refolding is not None or session.board.stale or session.answering
    clients = max(session.answers.used(now), session.lists.used(now))
    return not busy and clients <= _MOST_CLIENTS and not any(session.due(now))


def _resting(session: BoardSession) -> Resting:
    board = session.board
    worth = board.events - board.events_kept >= SNAPSHOT_AFTER
    return Resting(session.number, session.applied, rest_of(board), board.keep() if worth else None)


async def leave(host: Host) -> None:
    """Write what a worker that ends knows of its boards, so that the next start need not fold their logs."""
    sessions = [session for session in host.numbers.values() if not session.board.stale]
    sessions.sort(key=lambda session: session.board.events_kept - session.board.events)
    host.divergences += len(await host.sleepers.save([_resting(session) for session in sessions], _LEAVING))


async def wake_unknown(host: Host) -> None:
    """Fold boards once of which the store says too little: it is not known whether impressions of them are open.

    They were not put to sleep in good order, or by another version. Others go first.
    """
    for sleeper in host.sleepers.unknown():
        if host.sleepers.by_number.get(sleeper.number) is sleeper:
            await wake_unasked(host, sleeper)
        await asyncio.sleep(0)
        while len(host.numbers) > host.most_awake + host.most_awake // _SPARE:
            await asyncio.sleep(0.1)


async def wake_unasked(host: Host, sleeper: Sleeper) -> None:
    """Wake a board that nobody asked for: it is the first to sleep again."""
    try:
        await wake(host, sleeper)
    except Unavailable as error:
        log.warning("not woken", extra={"fields": {"board": sleeper.name, "why": str(error)}})
    session = host.numbers.get(sleeper.number)
    if session is not None and not session.users:
        session.used = 0


def client_days(host: Host, minute: int) -> list[tuple[int, float]]:
    """Sleeping boards whose clients are to be looked at in this minute, and after how many days they go."""
    return [
        (sleeper.number, rest.summary["client_days"])
        for sleeper, rest in host.sleepers.rests()
        if sleeper.number % _SLEEPING_HOURS == minute % _SLEEPING_HOURS
    ]
