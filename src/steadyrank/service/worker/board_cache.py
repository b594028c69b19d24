"""Cache of a worker's boards: the least recently used ones are evicted from memory, and loaded again on demand.

A board is evicted when nobody holds it, its own events are applied, and nothing of it is due. If it has open
impressions, the cache remembers when they are due, and loads the board then. Loading replays the log from the latest
snapshot, or from its beginning, up to one moment; later events are applied in log order, so none is missed or applied
twice. For users, an evicted board is asleep, and wakes when it is loaded.
"""

import asyncio
import contextlib
import heapq
import itertools
import logging
import math
import time
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from ...core.refusals import Refused
from ..board import events
from ..board.board import Board, BoardOut, CollectionFacts
from ..storage import KnownBoard, Seal, SqlStore, Unavailable
from .allowances import Allowances
from .board_session import BoardSession, DueClock, Parked, Reached
from .impression_ids import ImpressionId, Seals
from .log_writer import Line
from .recovery import Kept, load, log_parked, parking_words, put_snapshot, rebuild
from .store_threads import StoreThreads

SNAPSHOT_AFTER = 500  # events since the latest snapshot of a board that justify another one on eviction
_READERS = 2  # threads that load boards
_LOADED_AT_ONCE = 8  # boards loaded per tick because something is due
_PATIENCE = 1.25  # lifetimes after which a worker takes over the open lists of another one
_AGAIN = 5.0  # seconds until the loading of a board is retried
_SPARE = 20  # one in so many boards is evicted in advance, so that evictions come in batches
_MOST_CLIENTS = 20  # with more clients counted in the current minute, a board is evicted only after the minute
_LEAVING = 2.0  # seconds for snapshots when the worker stops
_HOUR = 60  # minutes between checks for expired clients of an evicted board

# the values shown in the list of boards, without names of fields, so that each board takes few bytes
_SHOWN = BoardOut.__struct_fields__[1:]
# summaries of another format are ignored, and their boards loaded once
_FORMAT = zlib.crc32(",".join(_SHOWN).encode())
_LAST, *_DELAYS = (_SHOWN.index(name) for name in ("impressions", "lifetime", "settle"))

log = logging.getLogger("steadyrank.service")
T = TypeVar("T")


class BoardSummary(msgspec.Struct, array_like=True, frozen=True):
    """What is shown of a board that is not in memory, and the progress of its impressions."""

    format: int
    shown: list[Any]
    over: int
    settled: int

    @classmethod
    def of(cls, board: Board) -> "BoardSummary":
        """Summarize a board that is evicted."""
        shown, impressions = board.summary(""), board.impressions
        return cls(_FORMAT, [getattr(shown, name) for name in _SHOWN], impressions.over, impressions.settled)

    @staticmethod
    def decode(body: bytes | None) -> "BoardSummary | None":
        """Decode the output of `encode`; None if there is none, or if another version wrote it."""
        try:
            summary = None if body is None else _summary_decoder.decode(body)
        except msgspec.MsgspecError:
            return None
        ours = summary is not None and summary.format == _FORMAT and len(summary.shown) == len(_SHOWN)
        return summary if ours else None

    def encode(self) -> bytes:
        """Encode the summary for the store."""
        return msgspec.msgpack.encode(self)

    def shown_as(self, name: str) -> BoardOut:
        """The board as shown in the list of boards, under this name."""
        shown = dict(zip(_SHOWN, self.shown, strict=True))
        return BoardOut(board=name, **shown | {"collection": msgspec.convert(shown["collection"], _Facts)})

    def reached(self) -> Reached:
        """The progress of its impressions."""
        return Reached(self.shown[_LAST], self.over, self.settled)

    def delays(self) -> tuple[float, float]:
        """Its lifetime and its settling time, in seconds."""
        lifetime, settle = (self.shown[place] for place in _DELAYS)
        return lifetime, lifetime if settle is None else settle


_Facts = CollectionFacts | None
_summary_decoder = msgspec.msgpack.Decoder(BoardSummary)


class EvictedBoard:
    """A board that is not in memory. Everything that decides what is learnt is in the store.

    It keeps what a session knows beside the log, as far as it matters later: the latest round given out, the
    allowances of this minute, and when its open impressions are due. `stirred`: since when lists of another worker
    have been open that nobody has expired.
    """

    __slots__ = (
        "_summary",
        "allowances",
        "clock",
        "due",
        "loading",
        "name",
        "number",
        "round",
        "seals",
        "secret",
        "stirred",
        "waiting",
    )

    def __init__(
        self, number: int, name: str, secret: bytes, summary: bytes | None, seals: Sequence[Seal] = ()
    ) -> None:
        self.number, self.name, self.secret, self.seals = number, name, secret, tuple(seals)
        self._summary = summary  # encoded, since there may be very many boards
        self.round = 0
        self.due = math.inf  # when it must be loaded
        self.stirred = math.inf
        self.clock: DueClock | None = None
        self.allowances: tuple[Allowances, Allowances] | None = None  # for answers and for lists
        self.loading: Any = None  # a task while it is being loaded
        self.waiting: list[Line] = []  # events to apply after loading

    @classmethod
    def of(cls, session: BoardSession, now: float) -> "EvictedBoard":
        """Convert a session that is evicted; nothing of it may be due."""
        summary = BoardSummary.of(session.board).encode()
        evicted = cls(session.number, session.name, session.secret, summary, session.seals.kept)
        evicted.round = session.round
        if session.answers.used(now) or session.lists.used(now):
            evicted.allowances = session.answers, session.lists
        due = session.clock.next(session.reached())
        if due < math.inf:
            session.clock.thin()
            evicted.clock, evicted.due = session.clock, session.clock.next(session.reached())
        return evicted

    @property
    def is_known(self) -> bool:
        """Return whether its summary is known without loading it."""
        return self._summary is not None

    def summary(self) -> BoardSummary | None:
        """Its summary if known without loading it; None otherwise."""
        return BoardSummary.decode(self._summary)

    def start(self, now: float) -> None:
        """The worker starts: the delays of open impressions count from now."""
        summary = self.summary()
        if summary is None:
            self._summary = None
        elif summary.reached().last > summary.over:
            self.clock = DueClock()
            for _ in self.clock.due(now, summary.reached(), *summary.delays()):
                pass
            self.due = self.clock.next(summary.reached())

    def note_event(self, line: Line, now: float) -> bool:
        """Note an event of it written by another worker. Returns whether the board must be loaded now.

        The worker that gave out a list also logs its expiry. The board is loaded only if that does not happen.
        """
        if isinstance(line.event, events.Configured | events.Resealed):
            self._summary, self.due = None, now  # unknown until it is loaded
            return True
        summary = self.summary()
        if summary is None:
            return False
        lifetime, _ = summary.delays()
        if isinstance(line.event, events.OfVisitor | events.ListsShown):
            self.stirred = min(self.stirred, now)
        elif isinstance(line.event, events.Expired) and self.stirred < math.inf:
            self.stirred = max(self.stirred, now - lifetime)
        else:
            return False
        own = math.inf if self.clock is None else self.clock.next(summary.reached())
        self.due = min(own, self.stirred + _PATIENCE * lifetime + 1.0)
        return False

    def open_id(self, text: str, now: float) -> ImpressionId:
        """Decode an impression id of this board. Raises Refused for any other."""
        return Seals(self.secret, self.seals).open(text, now)

    def give_back(self, session: BoardSession) -> None:
        """Transfer what was kept to the loaded session."""
        session.round = self.round
        if self.allowances is not None:
            session.answers, session.lists = self.allowances
        if self.clock is not None:
            session.clock = self.clock


class _Eviction(NamedTuple):
    """What to write when a board is evicted or its worker stops."""

    number: int
    seq: int
    summary: bytes
    kept: Kept | None  # a snapshot, if it is worthwhile

    @classmethod
    def of(cls, session: BoardSession) -> "_Eviction":
        board = session.board
        worth = board.events - board.events_kept >= SNAPSHOT_AFTER
        summary = BoardSummary.of(board).encode()
        return cls(session.number, session.applied, summary, board.keep() if worth else None)


class BoardCache:
    """The boards of a worker: in memory, evicted or parked. Used in the event loop's thread only.

    `most`: how many may be in memory. The worker passes a clock and callbacks that apply an event to a board in
    memory, wait until the log is applied up to now, and start a background task.
    """

    def __init__(
        self,
        url: str,
        most: int,
        monotonic: Callable[[], float],
        apply: Callable[[BoardSession, Line], str],
        catch_up: Callable[[], Awaitable[None]],
        spawn: Callable[[Any], "asyncio.Task[Any]"],
        fences: Mapping[int, int] | None = None,
    ) -> None:
        self.most, self._monotonic = most, monotonic
        self._apply, self._catch_up, self._spawn = apply, catch_up, spawn
        self.boards: dict[str, BoardSession] = {}  # in memory, by name
        self.by_number: dict[int, BoardSession] = {}
        self.evicted: dict[str, EvictedBoard] = {}  # by name
        self.evicted_by_number: dict[int, EvictedBoard] = {}
        self.parked: dict[str, Parked] = {}  # boards that cannot be served, by name
        self.divergences = 0  # snapshots that differ from another worker's
        # heap of the times when evicted boards must be loaded, with their numbers
        self._due: list[tuple[float, int]] = []
        self._uses = itertools.count(1)
        self._readers = StoreThreads("reader", url, _READERS, fences)

    def begin(
        self, sessions: Iterable[BoardSession], others: Iterable[KnownBoard], parked: dict[str, Parked]
    ) -> None:
        """Reset to the boards of a store when a worker starts: those loaded, all others, and those parked."""
        self.boards, self.by_number, self.parked = {}, {}, {}
        self.evicted, self.evicted_by_number, self._due = {}, {}, []
        self.add_boards(sessions, others, parked)

    def add_boards(
        self, sessions: Iterable[BoardSession], others: Iterable[KnownBoard], parked: dict[str, Parked]
    ) -> None:
        """Add more boards; arguments as of `begin`."""
        self.parked |= parked
        for session in sessions:
            self.add_board(session)
        now = self._monotonic()
        for board in others:
            evicted = EvictedBoard(board.number, board.name, board.secret, board.summary, board.seals)
            evicted.start(now)
            self._add_evicted(evicted)

    def knows_board(self, name: str) -> bool:
        """Return whether a board of this name exists, as far as the log was applied."""
        return name in self.boards or name in self.evicted or name in self.parked

    def find_board(self, name: str) -> BoardSession:
        """Return a board in memory by name. Raises Refused if unknown or parked, Unavailable if evicted."""
        if name in self.parked:
            raise self.parked[name].refusal()
        if name in self.evicted:
            raise Unavailable(f"board {name!r} sleeps")  # only if the caller does not hold it
        if name not in self.boards:
            raise Refused(404, f"no board {name!r}")
        return self.boards[name]

    def count_boards(self) -> dict[str, int]:
        """Count the boards in memory, evicted and parked."""
        return {"awake": len(self.by_number), "asleep": len(self.evicted_by_number), "parked": len(self.parked)}

    def hold_board(self, name: str) -> contextlib.AbstractAsyncContextManager[None]:
        """A context that keeps a board in memory, loading it first if necessary; no effect if it does not exist."""
        return _Holding(self, name)

    async def take_hold(self, name: str) -> BoardSession | None:
        """Load a board if necessary and hold it; None if it does not exist."""
        while (evicted := self.evicted.get(name)) is not None:
            await self.load_board(evicted)
        session = self.boards.get(name)
        if session is not None:
            session.users += 1
            self.count_use(session)
        return session

    def count_use(self, session: BoardSession) -> None:
        """Mark a board as the most recently used."""
        session.used = next(self._uses)

    def add_board(self, session: BoardSession) -> None:
        """Add a board in memory."""
        session.used = next(self._uses)
        self.boards[session.name] = self.by_number[session.number] = session

    def remove_board(self, number: int) -> None:
        """Remove a deleted board, wherever it is."""
        self._drop_session(number)
        self._drop_evicted(number)
        self.parked = {name: board for name, board in self.parked.items() if board.number != number}

    def numbers(self) -> Iterator[int]:
        """The numbers of all boards."""
        parked = (board.number for board in self.parked.values())
        return itertools.chain(self.by_number, self.evicted_by_number, parked)

    def park_board(self, number: int, why: str, begun: Parked | None = None) -> None:
        """Stop serving a board until the next start, because it cannot go on with its log. Other boards go on.

        `begun`: the parked board if it is new to this worker.
        """
        session, evicted = self.by_number.get(number), self.evicted_by_number.get(number)
        if session is not None:
            parked = Parked(number, session.name, why, session.seals)
            session.parked = parked
        elif evicted is not None:
            parked = Parked(number, evicted.name, why, Seals(evicted.secret, evicted.seals))
        elif begun is not None:
            parked = begun
        else:
            return  # parked before, or deleted
        self._drop_session(number)
        self._drop_evicted(number)
        self.parked[parked.name] = parked
        log_parked(parked)

    def _drop_session(self, number: int) -> None:
        session = self.by_number.pop(number, None)
        if session is not None and self.boards.get(session.name) is session:
            del self.boards[session.name]

    def _add_evicted(self, evicted: EvictedBoard) -> None:
        self.evicted[evicted.name] = self.evicted_by_number[evicted.number] = evicted
        self._schedule(evicted)

    def _drop_evicted(self, number: int) -> None:
        evicted = self.evicted_by_number.pop(number, None)
        if evicted is not None and self.evicted.get(evicted.name) is evicted:
            del self.evicted[evicted.name]

    def note_event(self, line: Line) -> str:
        """Handle an event of a board that is not in memory. Returns its outcome."""
        evicted = self.evicted_by_number.get(line.board)
        if evicted is None:
            parked = next((board for board in self.parked.values() if board.number == line.board), None)
            raise Refused(404, "the board was deleted") if parked is None else parked.refusal()
        if evicted.loading is not None:
            evicted.waiting.append(line)
        elif evicted.note_event(line, self._monotonic()):
            self._begin_loading(evicted)
            self._spawn(self.load_unasked(evicted))
        else:
            self._schedule(evicted)
        return "done"

    def _schedule(self, evicted: EvictedBoard) -> None:
        """Make `due_boards` yield a board when it is due."""
        if evicted.due < math.inf:
            heapq.heappush(self._due, (evicted.due, evicted.number))

    def due_boards(self, now: float) -> Iterator[EvictedBoard]:
        """Yield boards that must be loaded now, a few per call."""
        count = 0
        while self._due and self._due[0][0] <= now and count < _LOADED_AT_ONCE:
            _, number = heapq.heappop(self._due)
            evicted = self.evicted_by_number.get(number)
            if evicted is None or evicted.loading is not None:
                continue
            if evicted.due > now:
                self._schedule(evicted)  # postponed meanwhile
                continue
            count += 1
            yield evicted

    async def load_board(self, evicted: EvictedBoard) -> None:
        """Load a board into memory; concurrent calls share one load."""
        self._begin_loading(evicted)
        failure: Unavailable | None = await asyncio.shield(evicted.loading)
        if failure is not None:
            raise failure

    def _begin_loading(self, evicted: EvictedBoard) -> None:
        if evicted.loading is None:
            evicted.loading = self._spawn(self._load_board(evicted))

    async def _load_board(self, evicted: EvictedBoard) -> Unavailable | None:
        try:
            session = await self._readers.run(lambda store: _load(store, evicted))
        except Unavailable as error:
            self._put_off(evicted)
            return error
        except ValueError as error:
            if self.evicted_by_number.get(evicted.number) is evicted:
                self.park_board(evicted.number, str(error))
            return None
        except BaseException:
            self._put_off(evicted)
            raise
        if self.evicted_by_number.get(evicted.number) is not evicted:
            return None  # deleted meanwhile
        self._drop_evicted(evicted.number)
        if session is None:
            return None  # deleted; the event is still to be read
        evicted.give_back(session)
        self.add_board(session)
        for line in evicted.waiting:
            try:
                self._apply(session, line)
            except Refused:
                if session.parked is not None:
                    break
                continue  # the worker that wrote it got the refusal
        return None

    def _put_off(self, evicted: EvictedBoard) -> None:
        """Reset a board that could not be loaded, for later attempts."""
        lines, evicted.waiting, evicted.loading = evicted.waiting, [], None
        now = self._monotonic()
        for line in lines:
            evicted.note_event(line, now)
        if evicted.due < math.inf:
            evicted.due = max(evicted.due, now + _AGAIN)
            self._schedule(evicted)

    async def load_unasked(self, evicted: EvictedBoard) -> None:
        """Load a board that no request needs; it is the first to be evicted again."""
        try:
            await self.load_board(evicted)
        except Unavailable as error:
            log.warning("not loaded", extra={"fields": {"board": evicted.name, "why": str(error)}})
        session = self.by_number.get(evicted.number)
        if session is not None and not session.users:
            session.used = 0

    async def load_unknown(self) -> None:
        """Load the boards without a valid summary, since it is unknown whether they have open impressions.

        They were evicted by a crash or by another version. Boards that requests ask for come first.
        """
        for evicted in [board for board in self.evicted_by_number.values() if not board.is_known]:
            if self.evicted_by_number.get(evicted.number) is evicted:
                await self.load_unasked(evicted)
            await asyncio.sleep(0)
            while len(self.by_number) > self.most + self.most // _SPARE:
                await asyncio.sleep(0.1)

    @property
    def is_full(self) -> bool:
        """Whether more boards are in memory than allowed."""
        return len(self.by_number) > self.most

    async def evict_idle(self) -> None:
        """Evict the least recently used boards until the number in memory is allowed."""
        now = self._monotonic()
        count = len(self.by_number) - self.most + self.most // _SPARE
        idle = (session for session in self.by_number.values() if _is_idle(session, now))
        chosen = [(session, session.used) for session in heapq.nsmallest(count, idle, key=lambda s: s.used)]
        try:
            await self._catch_up()  # applies what they have put into the log
        except Unavailable:
            return
        now, evictions = self._monotonic(), []
        for session, used in chosen:
            if session.used == used and self.by_number.get(session.number) is session and _is_idle(session, now):
                self._drop_session(session.number)
                self._add_evicted(EvictedBoard.of(session, now))
                evictions.append(_Eviction.of(session))
        if evictions:
            await asyncio.shield(self._save(evictions))  # even if the worker stops

    async def save_all(self) -> None:
        """Save summaries and snapshots when the worker stops, so that the next start need not replay the logs."""
        sessions = [session for session in self.by_number.values() if not session.board.stale]
        sessions.sort(key=lambda session: session.board.events_kept - session.board.events)
        await self._save([_Eviction.of(session) for session in sessions], _LEAVING)

    async def save_boards(self, numbers: Iterable[int], seconds: float) -> None:
        """Save boards that another worker is going to serve; `seconds`: the limit for snapshots."""
        sessions = [self.by_number[number] for number in numbers if number in self.by_number]
        evictions = [_Eviction.of(session) for session in sessions if not session.board.stale]
        if evictions:
            await self._save(evictions, seconds)

    async def _save(self, evictions: Sequence[_Eviction], seconds: float = math.inf) -> None:
        """Write summaries, then snapshots until the time is up."""
        unlike: list[int] = []
        try:
            await self._readers.run(lambda store: _save(store, evictions, time.monotonic() + seconds, unlike))
        except Unavailable as error:
            log.warning("not saved on eviction", extra={"fields": {"why": str(error)}})
        self.divergences += len(unlike)

    def client_days(self, minute: int) -> list[tuple[int, float]]:
        """Evicted boards whose clients are checked in this minute, each with the days until clients expire."""
        return [
            (number, summary.shown_as("").client_days)
            for number, evicted in list(self.evicted_by_number.items())
            if number % _HOUR == minute % _HOUR and (summary := evicted.summary()) is not None
        ]

    def close(self) -> None:
        """Stop the threads that load boards."""
        self._readers.close()


class _Holding(contextlib.AbstractAsyncContextManager[None]):
    """A request's hold on a board. A class, since a generator would take twice the time."""

    __slots__ = ("_cache", "_name", "_session")

    def __init__(self, cache: BoardCache, name: str) -> None:
        self._cache, self._name = cache, name

    async def __aenter__(self) -> None:
        self._session = await self._cache.take_hold(self._name)

    async def __aexit__(self, *exception: object) -> None:
        if self._session is not None:
            self._session.users -= 1


def _is_idle(session: BoardSession, now: float) -> bool:
    """Return whether a board can be evicted as far as its own state tells."""
    busy = session.users or session.refolding is not None or session.board.stale or session.answering
    clients = max(session.answers.used(now), session.lists.used(now))
    return not busy and clients <= _MOST_CLIENTS and not any(session.due(now))


def _load(store: SqlStore, evicted: EvictedBoard) -> BoardSession | None:
    """Load a board as of one moment of the log; None if it no longer exists."""
    with store.reading():
        return load(store, evicted.number, evicted.name, evicted.secret)


def _save(store: SqlStore, evictions: Sequence[_Eviction], end: float, unlike: list[int]) -> None:
    """Write summaries, and snapshots until `end`; boards whose snapshot is unlike another worker's go to `unlike`."""
    store.keep_summaries([(one.number, one.seq, one.summary) for one in evictions])
    for one in evictions:
        if one.kept is None or time.monotonic() > end:
            continue
        if not put_snapshot(store, one.number, one.seq, one.kept):
            unlike.append(one.number)


def summaries(store: SqlStore) -> Iterator[tuple[str, BoardOut | str]]:
    """Yield each board's name and its entry in the list of boards, or why it cannot be read. Replays every board."""
    with store.reading():
        for known in sorted(store.known_boards(), key=lambda board: board.name):
            try:
                board = rebuild(store, known.number, known.name, store.head())
            except Unavailable:
                raise
            except Exception as error:  # including a lack of memory
                yield known.name, parking_words(error)
            else:
                yield known.name, board.summary(known.name)
