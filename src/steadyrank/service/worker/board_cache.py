"""The boards of a worker that are not in memory: who they are, when they have to wake, and how.

A board that is not in memory, and what is known of it all the same.

Which boards of a worker are in memory: the least used ones go to sleep, and wake when they are asked for.

A board sleeps when nobody holds it, its own events are applied, and nothing of it is due. If impressions of it are
open, the sleeper keeps when they are due, and wakes for that. Waking is folding: from the latest snapshot, or from
the beginning of the log, up to one moment; what came since is applied in log order: nothing is missed or comes twice.
"""

import asyncio
import concurrent.futures
import heapq
import logging
import math
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from ...core.refusals import Refused
from ..board import events
from ..board.board import Board, BoardOut
from ..storage import KnownBoard, Seal, Store, Unavailable, open_store
from .allowances import Allowances
from .board_session import BoardSession, DueClock, Parked, Reached
from .impression_ids import ImpressionId, Seals
from .log_writer import Line
from .recovery import Kept, load, parking_words, put_snapshot, rebuild

# what a list of boards shows: only the values are kept, so that a board takes few bytes
_SHOWN = BoardOut.__struct_fields__[1:]  # without its name
_FORMAT = zlib.crc32(",".join(_SHOWN).encode())  # with another one a board is folded once, and put to sleep anew
_LAST, *_DELAYS = (_SHOWN.index(name) for name in ("impressions", "lifetime", "settle"))
_PATIENCE = 1.25  # lifetimes until a worker looks after lists that another one gave out


class Rest(msgspec.Struct, array_like=True, frozen=True):
    """What is shown of a board without waking it."""

    format: int
    shown: list[Any]
    over: int
    settled: int

    def summary(self, name: str) -> BoardOut:
        """What a list of boards shows, of a board of this name."""
        return BoardOut(board=name, **dict(zip(_SHOWN, self.shown, strict=True)))

    def reached(self) -> Reached:
        """How far its impressions have come."""
        return Reached(self.shown[_LAST], self.over, self.settled)

    def delays(self) -> tuple[float, float]:
        """Its lifetime and its settling time in seconds."""
        lifetime, settle = (self.shown[place] for place in _DELAYS)
        return lifetime, lifetime if settle is None else settle


_decoder = msgspec.msgpack.Decoder(Rest)


def rest_of(board: Board) -> bytes:
    """What is kept of a board that goes to sleep, as bytes."""
    summary, impressions = board.summary(""), board.impressions
    shown = [getattr(summary, name) for name in _SHOWN]
    return msgspec.msgpack.encode(Rest(_FORMAT, shown, impressions.over, impressions.settled))


def read_rest(body: bytes) -> Rest | None:
    """What such bytes say; None if another version wrote them."""
    try:
        rest = _decoder.decode(body)
    except msgspec.MsgspecError:
        return None
    return rest if rest.format == _FORMAT and len(rest.shown) == len(_SHOWN) else None


class Sleeper:
    """A board that sleeps. Nothing of it decides what is learnt: all that does is in the store.

    It keeps what a session knows beside the log, as far as that matters later: the latest round given out, the
    allowances of this minute, and when its open impressions are due. `stirred`: since when another worker's lists
    are open that nobody has ended.
    """

    __slots__ = (
        "allowances",
        "clock",
        "due",
        "held",
        "name",
        "number",
        "rest",
        "round",
        "seals",
        "secret",
        "stirred",
        "waking",
    )

    def __init__(self, number: int, name: str, secret: bytes, rest: bytes | None, seals: Sequence[Seal] = ()) -> None:
        self.number, self.name, self.secret, self.rest = number, name, secret, rest
        self.seals = tuple(seals)
        self.round = 0
        self.due = math.inf  # when it has to wake
        self.stirred = math.inf
        self.clock: DueClock | None = None
        self.allowances: tuple[Allowances, Allowances] | None = None  # of answers and of lists
        self.waking: Any = None  # a task, once somebody asked for it
        self.held: list[Line] = []  # events that came while it was waking

    @classmethod
    def of(cls, session: BoardSession, now: float) -> "Sleeper":
        """A session goes to sleep; nothing of it may be due."""
        seals = session.seals.kept
        sleeper = cls(session.number, session.name, session.secret, rest_of(session.board), seals)
        sleeper.round = session.round
        if session.answers.used(now) or session.lists.used(now):
            sleeper.allowances = session.answers, session.lists
        due = session.clock.next(session.reached())
        if due < math.inf:
            session.clock.thin()
            sleeper.clock, sleeper.due = session.clock, session.clock.next(session.reached())
        return sleeper

    def started(self, now: float) -> None:
        """The worker begins: the time of open impressions counts from now."""
        rest = None if self.rest is None else read_rest(self.rest)
        if rest is None:
            self.rest = None
        elif rest.reached().last > rest.over:
            self.clock = DueClock()
            for _ in self.clock.due(now, rest.reached(), *rest.delays()):
                pass
            self.due = self.clock.next(rest.reached())

    def hear(self, line: Line, now: float) -> bool:
        """An event of it was written, by another worker; whether it has to wake for that.

        Lists of others are theirs to end, and their ends are heard of, too. It wakes only if these stay away.
        """
        if isinstance(line.event, events.Configured | events.Resealed):
            self.rest, self.due = None, now  # until it has woken, nothing is known of it for sure
            return True
        rest = None if self.rest is None else read_rest(self.rest)
        if rest is None:
            return False
        lifetime, _ = rest.delays()
        if isinstance(line.event, events.OfVisitor):
            self.stirred = min(self.stirred, now)
        elif isinstance(line.event, events.Expired) and self.stirred < math.inf:
            self.stirred = max(self.stirred, now - lifetime)
        else:
            return False
        own = math.inf if self.clock is None else self.clock.next(rest.reached())
        self.due = min(own, self.stirred + _PATIENCE * lifetime + 1.0)
        return False

    def open_id(self, text: str, now: float) -> ImpressionId:
        """What an impression id of this board says; any other is refused."""
        return Seals(self.secret, self.seals).open(text, now)

    def woken(self, session: BoardSession) -> None:
        """Give a session back what was kept."""
        session.round = self.round
        if self.allowances is not None:
            session.answers, session.lists = self.allowances
        if self.clock is not None:
            session.clock = self.clock


_READERS = 2  # threads that fold boards which wake
_WAKE_AT_ONCE = 8  # boards woken in a tick because something is due

log = logging.getLogger("steadyrank.service")


class Resting(NamedTuple):
    """What is to be written of a board that goes to sleep, or of a worker that ends."""

    number: int
    seq: int
    rest: bytes
    kept: Kept | None  # a snapshot, if it is worth one


class Sleepers:
    """Boards by name and by number; used in the event loop's thread. Reading and writing goes on in others."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.by_name: dict[str, Sleeper] = {}
        self.by_number: dict[int, Sleeper] = {}
        self._due: list[tuple[float, int]] = []
        self._threads = concurrent.futures.ThreadPoolExecutor(_READERS, "reader")
        self._stores: list[Store] = []
        self._mine = threading.local()

    def __len__(self) -> int:
        return len(self.by_number)

    def begin(self, known: Iterable[KnownBoard], now: float) -> None:
        """Boards of a store that are not loaded when a worker starts."""
        self.by_name, self.by_number, self._due = {}, {}, []
        for board in known:
            sleeper = Sleeper(board.number, board.name, board.secret, board.rest, board.seals)
            sleeper.started(now)
            self.add(sleeper)

    def add(self, sleeper: Sleeper) -> None:
        """A board sleeps from now on."""
        self.by_name[sleeper.name] = self.by_number[sleeper.number] = sleeper
        self.schedule(sleeper)

    def drop(self, number: int) -> Sleeper | None:
        """A board wakes, or is gone."""
        sleeper = self.by_number.pop(number, None)
        if sleeper is not None and self.by_name.get(sleeper.name) is sleeper:
            del self.by_name[sleeper.name]
        return sleeper

    def schedule(self, sleeper: Sleeper) -> None:
        """See to it that a board is named by `due` when its time has come."""
        if sleeper.due < math.inf:
            heapq.heappush(self._due, (sleeper.due, sleeper.number))

    def due(self, now: float) -> Iterator[Sleeper]:
        """Some boards that have to wake now; the others at the next look."""
        count = 0
        while self._due and self._due[0][0] <= now and count < _WAKE_AT_ONCE:
            _, number = heapq.heappop(self._due)
            sleeper = self.by_number.get(number)
            if sleeper is None or sleeper.waking is not None:
                continue
            if sleeper.due > now:
                self.schedule(sleeper)  # put off since
                continue
            count += 1
            yield sleeper

    def unknown(self) -> list[Sleeper]:
        """Boards of which nothing can be shown without waking them, and whose open impressions are not known."""
        return [sleeper for sleeper in self.by_number.values() if sleeper.rest is None]

    def rests(self) -> Iterator[tuple[Sleeper, Rest]]:
        """What is known of each board, of which anything is."""
        for sleeper in list(self.by_number.values()):
            rest = None if sleeper.rest is None else read_rest(sleeper.rest)
            if rest is not None:
                yield sleeper, rest

    async def load(self, sleeper: Sleeper) -> BoardSession | None:
        """The session of a board as the log says at one moment; None if it is no longer there."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._load, sleeper)

    def _load(self, sleeper: Sleeper) -> BoardSession | None:
        store = self._store()
        try:
            with store.reading():
                return load(store, sleeper.number, sleeper.name, sleeper.secret)
        except Unavailable:
            self._away()
            raise

    async def save(self, boards: Sequence[Resting], seconds: float = math.inf) -> list[int]:
        """Write what boards leave, snapshots for so many seconds; numbers of those unlike another worker's."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._save, boards, seconds)

    def _save(self, boards: Sequence[Resting], seconds: float) -> list[int]:
        end, unlike = time.monotonic() + seconds, []
        try:
            store = self._store()
            store.rest([(board.number, board.seq, board.rest) for board in boards])
            for board in boards:
                if board.kept is None or time.monotonic() > end:
                    continue
                if not put_snapshot(store, board.number, board.seq, board.kept):
                    unlike.append(board.number)
        except Unavailable as error:
            log.warning("not written before sleep", extra={"fields": {"why": str(error)}})
            self._away()
        return unlike

    def _store(self) -> Store:
        """The connection of this thread."""
        store: Store | None = getattr(self._mine, "store", None)
        if store is None:
            store = self._mine.store = open_store(self._url)
            self._stores.append(store)
        return store

    def _away(self) -> None:
        store: Store | None = getattr(self._mine, "store", None)
        self._mine.store = None
        if store is not None:
            self._stores.remove(store)
            store.close()

    def close(self) -> None:
        """End the threads and their connections."""
        self._threads.shutdown(cancel_futures=True)
        while self._stores:
            self._stores.pop().close()


def summaries(store: Store) -> Iterator[tuple[str, BoardOut | str]]:
    """Of each board by name what a list shows, or why it cannot be read; each is folded to see."""
    with store.reading():
        for known in sorted(store.known(), key=lambda board: board.name):
            try:
                board = rebuild(store, known.number, known.name, store.head())
            except Unavailable:
                raise
            except Exception as error:  # a lack of memory, too: the others are shown
                yield known.name, parking_words(error)
            else:
                yield known.name, board.summary(known.name)


SNAPSHOT_AFTER = 500  # events of a board since its latest snapshot for which it is worth another before it sleeps
_SPARE = 20  # one in so many boards more than needed goes to sleep, so that not every moment somebody has to
_MOST_CLIENTS = 20  # counted in a minute: of a board with more, the minute has to end before it sleeps
_AGAIN = 5.0  # seconds until a board that could not be read is tried again
_LEAVING = 2.0  # seconds for snapshots at the end
_SLEEPING_HOURS = 60  # minutes between looks for clients of a board that sleeps


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
        (sleeper.number, rest.summary(sleeper.name).client_days)
        for sleeper, rest in host.sleepers.rests()
        if sleeper.number % _SLEEPING_HOURS == minute % _SLEEPING_HOURS
    ]
