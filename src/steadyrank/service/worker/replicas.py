"""Replicas: copies of boards that other workers own, which follow the log and give out lists.

A board that is requested often at a worker that does not own it is copied there, loaded as by its owner, and its
events are read from the log several times a second. Lists are made from the replica while it is at most `MOST_AGE`
old. They are logged asynchronously, in one order with the owner's; writing them needs no fence, since a list commits
nobody to anything. Answers go to the owner: an impression id contains all that they need.

Each worker draws lists from its own independent random stream, and the log has what was drawn: replaying it draws
nothing, so replicas, owner and replays agree.

A board that this worker hands over continues as a replica until its new owner serves it, so that lists need not wait.
"""

import asyncio
import collections
import functools
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.refusals import Refused
from ..board import events
from ..board.events import AnyEvent
from ..storage import LogEntry, Seal, Sender, SqlStore, Unavailable
from .board_session import BoardSession
from .log_rows import Unreadable, read_events
from .log_writer import Line, Pending, together
from .recovery import load
from .store_threads import StoreThreads

MOST_AGE = 0.25  # seconds; an older replica gives out no lists
_TURN = 0.1  # seconds between reads of the log
_OFTEN = 50  # lists of a board per second, requested at a worker that does not own it, that start a replica
_SELDOM = 10  # the same, below which a replica is dropped
_KEPT = 5.0  # seconds over which this is counted
_MOVING = 2.0  # seconds for which a board that was handed over remains as a replica in any case
_MOST = 64  # replicas
_MOST_WAITING = 50_000  # lists queued for writing
_AT_ONCE = 1_000  # lists per commit
_APPLIED_FOR = 0.004  # seconds after which requests get a turn
_THREADS = 3  # so that reading waits neither for writing nor for loading, which would make replicas too old

log = logging.getLogger("steadyrank.service")


class _News(NamedTuple):
    """What is new in the log of a replicated board; `events` is None if the replica must be reloaded."""

    read: float  # when the read began
    head: int
    events: list[tuple[int, AnyEvent]] | None
    seals: list[Seal] | None  # set if the secret was rotated


class _Copy:
    """A replicated board."""

    def __init__(self, session: BoardSession, read: float) -> None:
        self.session, self.read = session, read
        # whether its former owner, this worker, still applies its events: then none are read for it
        self.leaving = False
        self.begin_term(read, _KEPT, _SELDOM)

    def begin_term(self, now: float, seconds: float, least: float) -> None:
        """Keep the replica for so many seconds, and then on if at least `least` lists a second were requested."""
        self.asked, self.end, self.least = 0, now + seconds, least * seconds


class Outbox:
    """Lists queued for writing, by partition; stands in for `LogWriter`."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self.waiting: dict[int, collections.deque[Pending]] = {}

    @property
    def behind(self) -> int:
        """The number of queued lists."""
        return sum(map(len, self.waiting.values()))

    def put_event(self, board: int, event: AnyEvent, sender: Sender | None = None) -> None:
        """Queue a list."""
        self.waiting.setdefault(board % self._partitions, collections.deque()).append(
            Pending(board, event, None, sender)
        )


class Replicas:
    """The replicas of a worker; used in the event loop's thread only."""

    def __init__(
        self,
        url: str,
        partitions: int,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        chance: np.random.Generator,
        next_key: Callable[[], int],
        gave: Callable[[AnyEvent], bool],
        spawn: Callable[[Any], "asyncio.Task[Any]"],
    ) -> None:
        self.clock, self.monotonic, self.chance, self.next_key = clock, monotonic, chance, next_key
        self._gave, self._spawn = gave, spawn
        self.log_writer = Outbox(partitions)
        self.copies: dict[str, _Copy] = {}
        self.given = 0  # lists given out
        self._asked: collections.Counter[str] = collections.Counter()  # lists requested in this second, by board
        self._second = 0
        self._loading: dict[str, asyncio.Task[Any]] = {}
        self._following: asyncio.Task[Any] | None = None
        self._sending: asyncio.Task[Any] | None = None
        self._turn_ends = 0.0
        self._threads = StoreThreads("replicas", url, _THREADS)

    def find(self, name: str) -> BoardSession | None:
        """Return a replica fresh enough for a list, if any; starts replicating boards that are requested often."""
        if name in self.copies:
            return self.find_copy(name)
        self.note_asked(name)
        return None

    def note_asked(self, name: str) -> None:
        """A list was asked for of a board that is not copied."""
        if self._second != (second := int(time.monotonic())):
            self._second = second
            self._asked.clear()
        self._asked[name] += 1
        if self._asked[name] == _OFTEN:
            self._begin(name)

    def find_copy(self, name: str) -> BoardSession | None:
        """The same, for boards that are replicated already."""
        copy = self.copies.get(name)
        if copy is None:
            return None
        copy.asked += 1
        return copy.session if copy.leaving or time.monotonic() - copy.read <= MOST_AGE else None

    def begin_move(self, sessions: Iterable[BoardSession]) -> None:
        """Give out lists of boards that are being handed over, while this worker writes their last events."""
        for session in sessions:
            if len(self.copies) < _MOST and not session.board.stale:
                self.copies[session.name] = copy = _Copy(session, time.monotonic())
                copy.leaving = True

    def end_move(self, names: Iterable[str], moved: bool) -> None:
        """Continue boards that were handed over as replicas; drop the replicas if the handover failed.

        A board with a half-applied event is in a state that no other worker has, so it cannot continue.
        """
        now = time.monotonic()
        for name in names:
            copy = self.copies.get(name)
            if copy is None or not copy.leaving:
                continue
            if not moved or copy.session.users or copy.session.board.stale:
                self.drop(name)
                continue
            copy.leaving, copy.read = False, now
            copy.begin_term(now, _MOVING, _OFTEN)
        self._follow_soon()

    async def need(self, name: str, seconds: float) -> BoardSession | None:
        """Return a replica of a board whose owner does not respond; None if there is none within so many seconds."""
        if name not in self.copies:
            self._begin(name)
        end = time.monotonic() + seconds
        while (session := self.find(name)) is None and (name in self._loading or name in self.copies):
            if time.monotonic() > end:
                break
            await asyncio.sleep(0.01)
        return session

    def find_board(self, name: str) -> BoardSession:
        """Return the replica that `find` has found."""
        copy = self.copies.get(name)
        if copy is None:
            raise Unavailable(f"board {name!r} is no longer copied here")
        self.given += 1
        return copy.session

    def seen(self, session: BoardSession) -> int:
        """The latest event of a board that was read."""
        return session.applied

    def drop(self, name: str) -> None:
        """Drop a replica."""
        self.copies.pop(name, None)

    async def finish(self) -> None:
        """Write queued lists when the worker stops."""
        try:
            await self._threads.run(functools.partial(self._write, self._take()))
        except Unavailable as error:
            log.warning("lists not written", extra={"fields": {"why": str(error)}})
        self._threads.close()

    def _begin(self, name: str) -> None:
        if name not in self._loading and len(self.copies) + len(self._loading) < _MOST:
            self._loading[name] = self._spawn(self._load(name))

    async def _load(self, name: str) -> None:
        try:
            begin = time.monotonic()
            session = await self._threads.run(lambda store: _load(store, name))
            if session is not None and not session.board.stale:
                self.copies[name] = _Copy(session, begin)
                log.info("board copied", extra={"fields": {"board": name}})
        except (Unavailable, ValueError) as error:
            log.warning("board not copied", extra={"fields": {"board": name, "why": str(error)}})
        finally:
            del self._loading[name]
        self._follow_soon()

    def _follow_soon(self) -> None:
        if self._following is None or self._following.done():
            self._following = self._spawn(self._follow())

    async def _follow(self) -> None:
        """Read what is new in the log while there is a replica or a queued list."""
        working = True
        while self.copies or self.log_writer.behind:
            begin = time.monotonic()
            if self.log_writer.behind and (self._sending is None or self._sending.done()):
                self._sending = self._spawn(self._send())
            there = [copy.session for copy in self.copies.values() if not copy.leaving]
            places = {session.number: session.applied for session in there}
            try:
                news = await self._threads.run(functools.partial(_read_all, places))
                working = True
            except Unavailable as error:
                if working:
                    log.warning("copies not kept up", extra={"fields": {"why": str(error)}})
                working, news = False, {}
            for name, copy in list(self.copies.items()):
                if copy.session.number in news and self.copies.get(name) is copy:
                    await self._apply(name, copy, news[copy.session.number])
            self._end_idle()
            await asyncio.sleep(max(_TURN - (time.monotonic() - begin), 0.01))

    async def _send(self) -> None:
        """Write queued lists, however long other workers keep the database busy with the same board."""
        working = True
        while self.log_writer.behind:
            begin = time.monotonic()
            lists = self._take()
            try:
                await self._threads.run(functools.partial(self._write, lists))
                working = True
            except Unavailable as error:
                if working:
                    log.warning("lists not written yet", extra={"fields": {"why": str(error)}})
                working = False
                self._put_back(lists)
            await asyncio.sleep(max(_TURN - (time.monotonic() - begin), 0.01))

    def _take(self) -> dict[int, list[Pending]]:
        waiting = self.log_writer.waiting
        taken = {p: [lists.popleft() for _ in range(min(len(lists), _AT_ONCE))] for p, lists in waiting.items()}
        for partition in [partition for partition, lists in waiting.items() if not lists]:
            del waiting[partition]
        return taken

    def _put_back(self, lists: Mapping[int, Sequence[Pending]]) -> None:
        """Requeue lists that were not written, unless too many are queued. Their answers count in any case."""
        for partition, some in lists.items():
            if some and self.log_writer.behind + len(some) <= _MOST_WAITING:
                self.log_writer.waiting.setdefault(partition, collections.deque()).extendleft(reversed(some))

    def _write(self, lists: dict[int, list[Pending]], store: SqlStore) -> None:
        """Write one commit per partition, so that no transaction locks two; written lists are removed."""
        for partition in sorted(lists):
            if lists[partition]:
                store.append([one.entry() for one in together(lists[partition])], self.clock())
                lists[partition] = []

    async def _apply(self, name: str, copy: _Copy, news: _News) -> None:
        """Apply new events, with requests in between; drops the replica if it cannot continue."""
        session = copy.session
        if news.events is None:
            self.drop(name)
            return
        for seq, event in news.events:
            if not await self._apply_one(session, Line(seq, session.number, event, None)):
                self.drop(name)
                return
        session.applied, copy.read = news.head, news.read
        if news.seals is not None:
            session.reseal(news.seals)

    async def _apply_one(self, session: BoardSession, line: Line) -> bool:
        """Apply an event. Returns whether the replica can continue."""
        event = line.event
        assert not isinstance(event, Unreadable)
        try:
            for work in session.board.steps(event):
                if work is not None:
                    await asyncio.to_thread(work)
                await self._give_way()
            session.note(line, "", self._gave(event), self.monotonic())
        except Refused:
            pass  # the worker that wrote it got the refusal
        except Exception as error:  # whatever it is: the owner parks the board
            fields = {"board": session.name, "event": line.seq, "why": str(error)}
            log.error("a copy cannot go on", extra={"fields": fields})
            return False
        session.learn_clients(line)
        session.applied = line.seq
        await self._give_way()
        return not session.board.stale  # if stale, the learning changes from here on

    async def _give_way(self) -> None:
        """Let requests run if the turn is over."""
        if time.perf_counter() > self._turn_ends:
            await asyncio.sleep(0)
            self._turn_ends = time.perf_counter() + _APPLIED_FOR

    def _end_idle(self) -> None:
        """Drop replicas of boards that are no longer requested often."""
        now = time.monotonic()
        for name, copy in list(self.copies.items()):
            if now > copy.end and not copy.leaving:
                if copy.asked < copy.least:
                    self.drop(name)
                copy.begin_term(now, _KEPT, _SELDOM)


def _load(store: SqlStore, name: str) -> BoardSession | None:
    """Load a board by name as of now; None if there is none."""
    with store.reading():
        board = store.find_board(name)
        return None if board is None else load(store, board[0], name, board[1])


def _read_all(places: Mapping[int, int], store: SqlStore) -> dict[int, _News]:
    """Read what is new in the logs of boards, each after an event."""
    return {number: _read(store, number, after, kept) for number, after, kept in _kept(store, places)}


def _kept(store: SqlStore, places: Mapping[int, int]) -> list[tuple[int, int, bool]]:
    """For each board the event up to which it was read, and whether all later events are still kept."""
    edges = store.edges(list(places)) if places else {}
    return [(number, after, edges.get(number, math.inf) <= after) for number, after in places.items()]


def _events_of(entries: Sequence[LogEntry]) -> list[tuple[int, AnyEvent]]:
    """Decode events, with their numbers. Raises Unreadable if one is damaged or unknown."""
    fresh: list[tuple[int, AnyEvent]] = []
    for entry, event in zip(entries, read_events(entries), strict=True):
        if isinstance(event, Unreadable):
            raise event
        fresh.append((entry.seq, event))
    return fresh


def _read(store: SqlStore, number: int, after: int, kept: bool) -> _News:
    """Read what is new in the log of a board after an event."""
    begin = time.monotonic()
    if not kept:
        return _News(begin, after, None, None)
    head = store.head(number % store.partitions)
    try:
        fresh = _events_of(list(store.entries(after, head, number)))
    except Unreadable as error:
        log.error("a copy cannot go on", extra={"fields": {"board": number, "why": str(error)}})
        return _News(begin, after, None, None)
    if any(isinstance(event, events.Deleted) for _, event in fresh):
        return _News(begin, after, None, None)
    resealed = any(isinstance(event, events.Resealed) for _, event in fresh)
    return _News(begin, head, fresh, store.seals(number) if resealed else None)
