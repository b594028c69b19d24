"""Which boards of a worker are in memory: the least used ones leave it, and come back when they are asked for.

A board is evicted when nobody holds it, its own events are applied, and nothing of it is due. If impressions of it
are open, the cache keeps when they are due, and loads it for that. Loading is folding: from the latest snapshot, or
from the beginning of the log, up to one moment; what came since is applied in log order: nothing is missed or comes
twice. To users, an evicted board sleeps, and wakes when it is loaded.
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

SNAPSHOT_AFTER = 500  # events of a board since its latest snapshot for which it is worth another when it is evicted
_READERS = 2  # threads that fold boards
_LOADED_AT_ONCE = 8  # boards loaded in a tick because something is due
_PATIENCE = 1.25  # lifetimes until a worker looks after lists that another one gave out
_AGAIN = 5.0  # seconds until a board that could not be read is tried again
_SPARE = 20  # one in so many boards more than needed is evicted, so that not every moment somebody has to be
_MOST_CLIENTS = 20  # counted in a minute: of a board with more, the minute has to end before it is evicted
_LEAVING = 2.0  # seconds for snapshots at the end
_HOUR = 60  # minutes between looks for clients of an evicted board

# what a list of boards shows, without the name: only the values are kept, so that a board takes few bytes
_SHOWN = BoardOut.__struct_fields__[1:]
_FORMAT = zlib.crc32(",".join(_SHOWN).encode())  # with another one a board is folded once, and evicted anew
_LAST, *_DELAYS = (_SHOWN.index(name) for name in ("impressions", "lifetime", "settle"))

log = logging.getLogger("steadyrank.service")
T = TypeVar("T")


class BoardSummary(msgspec.Struct, array_like=True, frozen=True):
    """What is shown of a board that is not in memory, and how far its impressions have come."""

    format: int
    shown: list[Any]
    over: int
    settled: int

    @classmethod
    def of(cls, board: Board) -> "BoardSummary":
        """The summary of a board that is evicted."""
        shown, impressions = board.summary(""), board.impressions
        return cls(_FORMAT, [getattr(shown, name) for name in _SHOWN], impressions.over, impressions.settled)

    @staticmethod
    def decode(body: bytes | None) -> "BoardSummary | None":
        """The summary that `encode` wrote; None if there is none, or another version wrote it."""
        try:
            summary = None if body is None else _summary_decoder.decode(body)
        except msgspec.MsgspecError:
            return None
        ours = summary is not None and summary.format == _FORMAT and len(summary.shown) == len(_SHOWN)
        return summary if ours else None

    def encode(self) -> bytes:
        """As the store keeps it."""
        return msgspec.msgpack.encode(self)

    def shown_as(self, name: str) -> BoardOut:
        """What a list of boards shows, of a board of this name."""
        shown = dict(zip(_SHOWN, self.shown, strict=True))
        return BoardOut(board=name, **shown | {"collection": msgspec.convert(shown["collection"], _Facts)})

    def reached(self) -> Reached:
        """How far its impressions have come."""
        return Reached(self.shown[_LAST], self.over, self.settled)

    def delays(self) -> tuple[float, float]:
        """Its lifetime and its settling time in seconds."""
        lifetime, settle = (self.shown[place] for place in _DELAYS)
        return lifetime, lifetime if settle is None else settle


_Facts = CollectionFacts | None
_summary_decoder = msgspec.msgpack.Decoder(BoardSummary)


class EvictedBoard:
    """A board that is not in memory. Nothing of it decides what is learnt: all that does is in the store.

    It keeps what a session knows beside the log, as far as that matters later: the latest round given out, the
    allowances of this minute, and when its open impressions are due. `stirred`: since when another worker's lists
    are open that nobody has ended.
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
        self._summary = summary  # encoded: there may be very many
        self.round = 0
        self.due = math.inf  # when it has to be loaded
        self.stirred = math.inf
        self.clock: DueClock | None = None
        self.allowances: tuple[Allowances, Allowances] | None = None  # of answers and of lists
        self.loading: Any = None  # a task, once somebody asked for it
        self.waiting: list[Line] = []  # events that came while it was being loaded

    @classmethod
    def of(cls, session: BoardSession, now: float) -> "EvictedBoard":
        """A session is evicted; nothing of it may be due."""
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
        """Whether anything is known of it without loading it."""
        return self._summary is not None

    def summary(self) -> BoardSummary | None:
        """What is known of it without loading it; None if that is nothing."""
        return BoardSummary.decode(self._summary)

    def start(self, now: float) -> None:
        """The worker begins: the time of open impressions counts from now."""
        summary = self.summary()
        if summary is None:
            self._summary = None
        elif summary.reached().last > summary.over:
            self.clock = DueClock()
            for _ in self.clock.due(now, summary.reached(), *summary.delays()):
                pass
            self.due = self.clock.next(summary.reached())

    def note_event(self, line: Line, now: float) -> bool:
        """An event of it was written, by another worker; whether it has to be loaded for that.

        Lists of others are theirs to end, and their ends are heard of, too. It is loaded only if these stay away.
        """
        if isinstance(line.event, events.Configured | events.Resealed):
            self._summary, self.due = None, now  # until it is loaded, nothing is known of it for sure
            return True
        summary = self.summary()
        if summary is None:
            return False
        lifetime, _ = summary.delays()
        if isinstance(line.event, events.OfVisitor):
            self.stirred = min(self.stirred, now)
        elif isinstance(line.event, events.Expired) and self.stirred < math.inf:
            self.stirred = max(self.stirred, now - lifetime)
        else:
            return False
        own = math.inf if self.clock is None else self.clock.next(summary.reached())
        self.due = min(own, self.stirred + _PATIENCE * lifetime + 1.0)
        return False

    def open_id(self, text: str, now: float) -> ImpressionId:
        """What an impression id of this board says; any other is refused."""
        return Seals(self.secret, self.seals).open(text, now)

    def give_back(self, session: BoardSession) -> None:
        """Give a session that was loaded what was kept."""
        session.round = self.round
        if self.allowances is not None:
            session.answers, session.lists = self.allowances
        if self.clock is not None:
            session.clock = self.clock


class _Eviction(NamedTuple):
    """What is to be written of a board that is evicted, or of a worker that ends."""

    number: int
    seq: int
    summary: bytes
    kept: Kept | None  # a snapshot, if it is worth one

    @classmethod
    def of(cls, session: BoardSession) -> "_Eviction":
        board = session.board
        worth = board.events - board.events_kept >= SNAPSHOT_AFTER
        summary = BoardSummary.of(board).encode()
        return cls(session.number, session.applied, summary, board.keep() if worth else None)


class BoardCache:
    """The boards of a worker, whether they are in memory, evicted or parked; used in the event loop's thread.

    `most`: how many may be in memory. The worker gives what time it is, and how to apply an event to a board in
    memory, to wait until the log is applied as far as it goes now, and to do something meanwhile.
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
        self.divergences = 0  # snapshots unlike another worker's
        self._due: list[tuple[float, int]] = []  # a heap: when evicted boards have to be loaded, and their numbers
        self._uses = itertools.count(1)
        self._readers = StoreThreads("reader", url, _READERS, fences)

    def begin(
        self, sessions: Iterable[BoardSession], others: Iterable[KnownBoard], parked: dict[str, Parked]
    ) -> None:
        """The boards of a store when a worker starts: those that are loaded, all others, and those not served."""
        self.boards, self.by_number, self.parked = {}, {}, {}
        self.evicted, self.evicted_by_number, self._due = {}, {}, []
        self.add_boards(sessions, others, parked)

    def add_boards(
        self, sessions: Iterable[BoardSession], others: Iterable[KnownBoard], parked: dict[str, Parked]
    ) -> None:
        """More boards, as `begin` takes them."""
        self.parked |= parked
        for session in sessions:
            self.add_board(session)
        now = self._monotonic()
        for board in others:
            evicted = EvictedBoard(board.number, board.name, board.secret, board.summary, board.seals)
            evicted.start(now)
            self._add_evicted(evicted)

    def knows_board(self, name: str) -> bool:
        """Whether there is a board of this name, as far as the log was applied."""
        return name in self.boards or name in self.evicted or name in self.parked

    def find_board(self, name: str) -> BoardSession:
        """A board in memory by its name."""
        if name in self.parked:
            raise self.parked[name].refusal()
        if name in self.evicted:
            raise Unavailable(f"board {name!r} sleeps")  # for who did not hold it
        if name not in self.boards:
            raise Refused(404, f"no board {name!r}")
        return self.boards[name]

    def count_boards(self) -> dict[str, int]:
        """How many boards are in memory, how many are not, and how many are not served."""
        return {"awake": len(self.by_number), "asleep": len(self.evicted_by_number), "parked": len(self.parked)}

    def hold_board(self, name: str) -> contextlib.AbstractAsyncContextManager[None]:
        """Keep a board in memory meanwhile, and load it first if it is evicted; one that is not there is nothing."""
        return _Holding(self, name)

    async def take_hold(self, name: str) -> BoardSession | None:
        """A board with one user more, loaded first if it is evicted; None if it is not there."""
        while (evicted := self.evicted.get(name)) is not None:
            await self.load_board(evicted)
        session = self.boards.get(name)
        if session is not None:
            session.users += 1
            self.count_use(session)
        return session

    def count_use(self, session: BoardSession) -> None:
        """A board was asked for: the others are evicted before it."""
        session.used = next(self._uses)

    def add_board(self, session: BoardSession) -> None:
        """A board is in memory from now on."""
        session.used = next(self._uses)
        self.boards[session.name] = self.by_number[session.number] = session

    def remove_board(self, number: int) -> None:
        """A board is deleted, wherever it was."""
        self._drop_session(number)
        self._drop_evicted(number)
        self.parked = {name: board for name, board in self.parked.items() if board.number != number}

    def numbers(self) -> Iterator[int]:
        """The numbers of all boards."""
        parked = (board.number for board in self.parked.values())
        return itertools.chain(self.by_number, self.evicted_by_number, parked)

    def park_board(self, number: int, why: str, begun: Parked | None = None) -> None:
        """Serve a board no longer, until the next start: it cannot go on with its log. The others do.

        `begun`: the same, where this worker had not heard of the board before.
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
        """An event of a board that is not in memory; its outcome."""
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
        """See to it that a board is named by `due_boards` when its time has come."""
        if evicted.due < math.inf:
            heapq.heappush(self._due, (evicted.due, evicted.number))

    def due_boards(self, now: float) -> Iterator[EvictedBoard]:
        """Some boards that have to be loaded now; the others at the next look."""
        count = 0
        while self._due and self._due[0][0] <= now and count < _LOADED_AT_ONCE:
            _, number = heapq.heappop(self._due)
            evicted = self.evicted_by_number.get(number)
            if evicted is None or evicted.loading is not None:
                continue
            if evicted.due > now:
                self._schedule(evicted)  # put off since
                continue
            count += 1
            yield evicted

    async def load_board(self, evicted: EvictedBoard) -> None:
        """Bring a board into memory; who asks meanwhile waits for the same."""
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
            return None  # deleted, and the event that says so is on its way
        evicted.give_back(session)
        self.add_board(session)
        for line in evicted.waiting:
            try:
                self._apply(session, line)
            except Refused:
                if session.parked is not None:
                    break
                continue  # who wrote it was told
        return None

    def _put_off(self, evicted: EvictedBoard) -> None:
        """A board could not be read now: who asks may try again, and what has to load it will."""
        lines, evicted.waiting, evicted.loading = evicted.waiting, [], None
        now = self._monotonic()
        for line in lines:
            evicted.note_event(line, now)
        if evicted.due < math.inf:
            evicted.due = max(evicted.due, now + _AGAIN)
            self._schedule(evicted)

    async def load_unasked(self, evicted: EvictedBoard) -> None:
        """Load a board that nobody asked for: it is the first to be evicted again."""
        try:
            await self.load_board(evicted)
        except Unavailable as error:
            log.warning("not woken", extra={"fields": {"board": evicted.name, "why": str(error)}})
        session = self.by_number.get(evicted.number)
        if session is not None and not session.users:
            session.used = 0

    async def load_unknown(self) -> None:
        """Fold boards once of which the store says too little: it is not known whether impressions of them are open.

        They were not evicted in good order, or by another version. Others go first.
        """
        for evicted in [board for board in self.evicted_by_number.values() if not board.is_known]:
            if self.evicted_by_number.get(evicted.number) is evicted:
                await self.load_unasked(evicted)
            await asyncio.sleep(0)
            while len(self.by_number) > self.most + self.most // _SPARE:
                await asyncio.sleep(0.1)

    @property
    def is_full(self) -> bool:
        """Whether more boards are in memory than there may be."""
        return len(self.by_number) > self.most

    async def evict_idle(self) -> None:
        """Evict the least used boards, until there are no more than there may be in memory."""
        now = self._monotonic()
        count = len(self.by_number) - self.most + self.most // _SPARE
        idle = (session for session in self.by_number.values() if _is_idle(session, now))
        chosen = [(session, session.used) for session in heapq.nsmallest(count, idle, key=lambda s: s.used)]
        try:
            await self._catch_up()  # what they have put into the log is applied then
        except Unavailable:
            return
        now, evictions = self._monotonic(), []
        for session, used in chosen:
            if session.used == used and self.by_number.get(session.number) is session and _is_idle(session, now):
                self._drop_session(session.number)
                self._add_evicted(EvictedBoard.of(session, now))
                evictions.append(_Eviction.of(session))
        if evictions:
            await asyncio.shield(self._save(evictions))  # also if the worker ends

    async def save_all(self) -> None:
        """Write what a worker that ends knows of its boards, so that the next start need not fold their logs."""
        sessions = [session for session in self.by_number.values() if not session.board.stale]
        sessions.sort(key=lambda session: session.board.events_kept - session.board.events)
        await self._save([_Eviction.of(session) for session in sessions], _LEAVING)

    async def save_boards(self, numbers: Iterable[int], seconds: float) -> None:
        """Write what another worker has to know of some boards, which is to serve them; snapshots for so long."""
        sessions = [self.by_number[number] for number in numbers if number in self.by_number]
        evictions = [_Eviction.of(session) for session in sessions if not session.board.stale]
        if evictions:
            await self._save(evictions, seconds)

    async def _save(self, evictions: Sequence[_Eviction], seconds: float = math.inf) -> None:
        """Write what boards leave, snapshots for so many seconds."""
        unlike: list[int] = []
        try:
            await self._readers.run(lambda store: _save(store, evictions, time.monotonic() + seconds, unlike))
        except Unavailable as error:
            log.warning("not written before sleep", extra={"fields": {"why": str(error)}})
        self.divergences += len(unlike)

    def client_days(self, minute: int) -> list[tuple[int, float]]:
        """Evicted boards whose clients are to be looked at in this minute, and after how many days they go."""
        return [
            (number, summary.shown_as("").client_days)
            for number, evicted in list(self.evicted_by_number.items())
            if number % _HOUR == minute % _HOUR and (summary := evicted.summary()) is not None
        ]

    def close(self) -> None:
        """End the threads that read boards."""
        self._readers.close()


class _Holding(contextlib.AbstractAsyncContextManager[None]):
    """A board that is held by a request; a class, since a generator would take twice the time."""

    __slots__ = ("_cache", "_name", "_session")

    def __init__(self, cache: BoardCache, name: str) -> None:
        self._cache, self._name = cache, name

    async def __aenter__(self) -> None:
        self._session = await self._cache.take_hold(self._name)

    async def __aexit__(self, *exception: object) -> None:
        if self._session is not None:
            self._session.users -= 1


def _is_idle(session: BoardSession, now: float) -> bool:
    """Whether a board could be evicted as far as it knows itself."""
    busy = session.users or session.refolding is not None or session.board.stale or session.answering
    clients = max(session.answers.used(now), session.lists.used(now))
    return not busy and clients <= _MOST_CLIENTS and not any(session.due(now))


def _load(store: SqlStore, evicted: EvictedBoard) -> BoardSession | None:
    """The session of a board as the log says at one moment; None if it is no longer there."""
    with store.reading():
        return load(store, evicted.number, evicted.name, evicted.secret)


def _save(store: SqlStore, evictions: Sequence[_Eviction], end: float, unlike: list[int]) -> None:
    """Write what boards leave, snapshots until a moment; `unlike` gets those that are unlike another worker's."""
    store.keep_summaries([(one.number, one.seq, one.summary) for one in evictions])
    for one in evictions:
        if one.kept is None or time.monotonic() > end:
            continue
        if not put_snapshot(store, one.number, one.seq, one.kept):
            unlike.append(one.number)


def summaries(store: SqlStore) -> Iterator[tuple[str, BoardOut | str]]:
    """Of each board by name what a list shows, or why it cannot be read; each is folded to see."""
    with store.reading():
        for known in sorted(store.known_boards(), key=lambda board: board.name):
            try:
                board = rebuild(store, known.number, known.name, store.head())
            except Unavailable:
                raise
            except Exception as error:  # a lack of memory, too: the others are shown
                yield known.name, parking_words(error)
            else:
                yield known.name, board.summary(known.name)
