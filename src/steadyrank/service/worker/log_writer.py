"""The log of all boards that a worker serves: written and read in a thread, applied in the event loop.

The thread writes many events per commit, and reads what others wrote in between: other workers on the same file, or
an operator's commands. It delivers the whole log, each partition in order, to an inbox in the event loop's thread,
which applies it a few events at a time.
"""

import asyncio
import collections
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ...core.refusals import Refused
from .. import tracing
from ..board.board import Steps, Work
from ..board.events import AnyEvent, Created, ListShown, encode, join, may_join, of_sender
from ..storage import Fenced, NewEntry, Numbers, Outdated, Sender, SqlStore, Unavailable, open_store
from .log_rows import Unreadable, read_events

GATHER = 0.001  # seconds from the first queued event to the commit, so that more events share it
_BUSY = 8  # with so many events queued by then, more are on their way and worth waiting for
_GATHER_MORE = 0.004  # seconds to wait for these: a commit costs as much processor time as about ten requests
POLL = 0.025  # seconds between checks for events of other workers
_POLL_OWNED = 0.25  # the same if each partition has one owner: only an operator's commands write besides it
MOST_AT_ONCE = 5_000  # events per commit
MOST_READ = 10_000  # events of others handed over at a time and not yet applied; an import may bring many
MOST_BEHIND = 200_000  # events queued while the store is unavailable
PATIENCE = 15.0  # seconds after which a waiting request fails, and the thread counts as stuck
_APPLIED_AT_ONCE = 32  # events applied between requests
_FEWEST, _MOST_JOINED = 8, 250  # lists of a board that are written as one event
_TURN = 0.004  # seconds after which requests get a turn, even in the middle of a long event
_APPLYING = 20.0  # seconds after which waiting for an event to be applied fails

log = logging.getLogger("steadyrank.service")

Chore: TypeAlias = tuple[Callable[[SqlStore], Any], asyncio.Future[Any]]


class Line(NamedTuple):
    """An event in log order, and the future that waits for its outcome."""

    seq: int
    board: int
    event: AnyEvent | Unreadable  # Unreadable: why it cannot be applied
    waiting: asyncio.Future[str] | None
    clients: Sequence[int] = ()  # hashes of its clients, if this worker knows them
    trace: Any = None  # of the request that it belongs to


class Pending(NamedTuple):
    """An event that waits to be written."""

    board: int
    event: AnyEvent
    waiting: asyncio.Future[str] | None
    sender: Sender | None
    trace: Any = None

    @property
    def may_join(self) -> bool:
        """Whether this is a list that may share an event with others: no request awaits its own outcome."""
        return self.waiting is None and self.trace is None and may_join(self.event)


class Writing:
    """An event to be written: a queued event, or several lists of one board queued in succession."""

    def __init__(self, first: Pending) -> None:
        self.parts = [first]
        self._event = first.event  # the final event, once it is encoded

    @property
    def board(self) -> int:
        """The number of its board."""
        return self.parts[0].board

    def takes(self, other: Pending) -> bool:
        """Return whether another list may join these."""
        event, mine = other.event, self.parts[0].event
        if len(self.parts) >= _MOST_JOINED or not isinstance(event, ListShown) or not isinstance(mine, ListShown):
            return False
        return len(event.ranking) == len(mine.ranking) and event.generation == mine.generation and other.may_join

    def entry(self) -> NewEntry:
        """The entry for the store."""
        senders = [part.sender for part in self.parts]
        if not any(senders):
            return NewEntry(self.board, self._body([()] * len(senders)))
        return NewEntry(self.board, self._body, senders)

    def _body(self, numbers: Sequence[Numbers]) -> bytes:
        """The encoded event, with the numbers of clients and cohorts."""
        named = zip(self.parts, numbers, strict=True)
        parts = [of_sender(part.event, some) if some else part.event for part, some in named]
        self._event = parts[0] if len(parts) == 1 else join(parts)
        return encode(self._event)

    def line(self, seq: int) -> Line:
        """The written event, by its number."""
        first = self.parts[0]
        clients = [part.sender.hash if part.sender else 0 for part in self.parts]
        return Line(seq, self.board, self._event, first.waiting, clients if any(clients) else (), first.trace)


def together(batch: Sequence[Pending]) -> list[Writing]:
    """Group queued events: many lists of a board, with no other event of the board between them, become one event.

    The order of events of a board stays.
    """
    found: list[Writing] = []
    last: dict[int, Writing | None] = {}  # by board: the event that its next list may join
    for one in batch:
        before = last.get(one.board)
        if before is not None and before.takes(one):
            before.parts.append(one)
        else:
            found.append(writing := Writing(one))
            last[one.board] = writing if one.may_join else None
    few = [writing for writing in found if 1 < len(writing.parts) < _FEWEST]
    if not few:
        return found
    return [alone for one in found for alone in (map(Writing, one.parts) if len(one.parts) < _FEWEST else [one])]


class Inbox:
    """Applies events a few at a time, and long ones in steps, so that requests do not wait for all of them."""

    def __init__(
        self,
        apply: Callable[[Line, dict[int, Any]], Steps],
    ) -> None:
        self.applied: dict[int, int] = {0: 0}  # by partition: every event up to this number is applied
        self.partitions = 1  # number of partitions of the store
        self._apply = apply
        self._steps: Steps | None = None  # of the first line, if it was begun
        self._work: asyncio.Future[None] | None = None  # computation in a thread that these wait for
        self._begun = 0  # when the first line was begun, in nanoseconds since 1970, if it has a trace
        self._holders = 0  # how many callers hold events back
        self._scheduled = False
        self._lines: collections.deque[tuple[Line, dict[int, Any]]] = collections.deque()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def __len__(self) -> int:
        return len(self._lines)

    def reset(self, heads: Mapping[int, int], partitions: int) -> None:
        """Start over: everything up to `heads` is applied, and nothing is queued."""
        self._lines.clear()
        self._steps, self.applied, self.partitions = None, dict(heads), partitions
        self._work = None

    def add(self, heads: Mapping[int, int]) -> None:
        """Expect events of more partitions; everything up to `heads` is applied."""
        self.applied |= heads

    def drop(self, partitions: Iterable[int]) -> None:
        """Apply nothing more of partitions that another worker serves; their waiting requests fail."""
        gone = {partition for partition in partitions if self.applied.pop(partition, None) is not None}
        if self._lines and self._steps is not None and self._lines[0][0].seq % self.partitions in gone:
            self._steps = self._work = None
        kept: list[tuple[Line, dict[int, Any]]] = []
        for line, made in self._lines:
            if line.seq % self.partitions not in gone:
                kept.append((line, made))
            elif line.waiting is not None:
                _settle(line.waiting, None, Fenced([line.seq % self.partitions]))
        self._lines = collections.deque(kept)
        for seq, future in self._waiting:
            if seq % self.partitions in gone:
                _settle(future, None, Fenced([seq % self.partitions]))
        self._drain_soon()  # a dropped line may have been waiting for a thread

    def deliver(self, lines: Sequence[Line], made: dict[int, Any]) -> None:
        """Queue more events in log order; `made`: new boards, by number."""
        idle = not self._lines
        self._lines.extend((line, made) for line in lines)
        if idle:
            self._drain()

    @contextlib.asynccontextmanager
    async def hold_events(self) -> AsyncIterator[None]:
        """A context in which no event is being applied, for reading a board as of one event."""
        self.begin_hold()
        try:
            while self._steps is not None:
                await (asyncio.sleep(0) if self._work is None else asyncio.wait([self._work]))
            yield
        finally:
            self.end_hold()

    def begin_hold(self) -> None:
        """Begin no further event until `end_hold`; the present one continues."""
        self._holders += 1

    def end_hold(self) -> None:
        """Continue, unless somebody else holds events back."""
        self._holders -= 1
        self._drain_soon()

    def _drain_soon(self) -> None:
        """Schedule the next turn, if there is anything to apply."""
        may = not self._works and (self._steps is not None or not self._holders)
        if self._lines and not self._scheduled and may:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._drain)

    @property
    def _works(self) -> bool:
        """Return whether a thread is computing for the first line."""
        return self._work is not None and not self._work.done()

    def _begin_work(self, work: Work) -> None:
        """Run the computation of the first line in a thread, then continue."""
        self._work = asyncio.get_running_loop().run_in_executor(None, work)
        self._work.add_done_callback(lambda _: self._drain_soon())

    def _drain(self) -> None:
        self._scheduled, end = False, time.perf_counter() + _TURN
        if self._works:
            return
        for _ in range(min(len(self._lines), _APPLIED_AT_ONCE)):
            if self._holders and self._steps is None:
                break
            outcome = self._apply_first(end)
            if outcome is None:
                break
            line, _ = self._lines.popleft()
            if line.trace is not None:
                tracing.note("apply", line.trace, self._begun)
            self._steps, self.applied[line.seq % self.partitions] = None, line.seq
            if line.waiting is not None and not line.waiting.done():
                if isinstance(outcome, str):
                    line.waiting.set_result(outcome)
                else:
                    line.waiting.set_exception(_without_frames(outcome))
            if time.perf_counter() > end:
                break
        self._drain_soon()
        for seq, future in [waiter for waiter in self._waiting if self._is_applied(waiter[0]) or waiter[1].done()]:
            self._waiting.remove((seq, future))
            if not future.done():
                future.set_result(None)

    def _is_applied(self, seq: int) -> bool:
        return seq <= self.applied.get(seq % self.partitions, -1)

    def _apply_first(self, end: float) -> str | Exception | None:
        """Apply the first line until `end`. Returns its outcome, or None if there are steps left."""
        line, made = self._lines[0]
        if self._steps is None and line.trace is not None:
            self._begun = time.time_ns()
        steps = self._steps = self._steps or self._apply(line, made)
        self._work = None
        try:
            while True:
                work = next(steps)
                if work is not None:
                    self._begin_work(work)
                if work is not None or time.perf_counter() > end:
                    return None
        except StopIteration as stop:
            outcome: str = stop.value
            return outcome
        except (Refused, Fenced) as error:
            return error
        except Exception as error:  # as in a replay, this event has failed, and the next one is applied
            log.exception("an event cannot be applied", extra={"fields": {"event": line.seq}})
            return error

    async def wait_for(self, seq: int) -> None:
        """Wait until the log of the event's partition is applied up to it."""
        if seq % self.partitions not in self.applied:
            raise Fenced([seq % self.partitions])
        if not self._is_applied(seq):
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((seq, future))
            try:
                await asyncio.wait_for(future, _APPLYING)
            except TimeoutError:
                raise Unavailable("the log cannot be read") from None


class LogWriter:
    """Writes queued events, and delivers the whole log of its partitions to an inbox.

    `heads`: by partition the latest event read; `partitions`: their number in the store. `begin` makes a board from
    its number, name, secret and first event, in this thread, since a learner may have to be compiled. `cut_off` is
    called in the event loop's thread if unread events are gone; `lost` with partitions that turned out to have
    another owner. `fences`: of the partitions that may be written to.

    An event is acknowledged to those who wait by its outcome, once it is on disk and applied. If the store is
    unavailable, waiting requests fail; events that nobody waits for are kept and written later. It is unknown whether
    a failed commit took place, so an event may be in the log twice, which does no harm.
    """

    def __init__(
        self,
        url: str,
        heads: Mapping[int, int],
        partitions: int,
        inbox: Inbox,
        begin: Callable[[int, str, bytes, Created | Unreadable], Any],
        cut_off: Callable[[], None],
        clock: Callable[[], float] = time.time,
        fences: Mapping[int, int] | None = None,
        lost: Callable[[Iterable[int]], None] = lambda partitions: None,
    ) -> None:
        self.url = url
        self.seen = dict(heads)  # by partition: every event up to this number was handed over
        self.commits = 0
        self.outdated = ""  # set if reading and writing have stopped because a newer version has upgraded the store
        self._partitions, self._fences, self._lost = partitions, fences, lost
        self._inbox, self._begin, self._cut_off = inbox, begin, cut_off
        self._clock = clock
        self._working: bool | None = None  # None: unknown
        self._beat = time.monotonic()
        self._queue: collections.deque[Pending] = collections.deque()
        self._own: dict[int, list[Line]] = {}  # by partition: written, not handed over yet
        self._looked, self._look = 0.0, True  # when heads were read, and whether they must be read again
        self._waiting: collections.deque[tuple[float, asyncio.Future[str]]] = collections.deque()
        self._chores: collections.deque[Chore] = collections.deque()
        self._wake = threading.Event()
        self._stop = False
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="log writer", daemon=True)
        self._thread.start()

    @property
    def available(self) -> bool:
        """Whether the store responds."""
        return bool(self._working) and self._thread.is_alive() and time.monotonic() - self._beat < PATIENCE

    @property
    def behind(self) -> int:
        """The number of queued events."""
        return len(self._queue)

    def put_event(
        self, board: int, event: AnyEvent, wait: bool = False, sender: Sender | None = None
    ) -> asyncio.Future[str] | None:
        """Queue an event; `sender` gets its numbers when written. With `wait`, returns a future of its outcome."""
        future = None
        if wait:
            future = self._loop.create_future()
            self._waiting.append((time.monotonic() + PATIENCE, future))
        self._queue.append(Pending(board, event, future, sender, tracing.current()))
        if (wait or len(self._queue) > MOST_AT_ONCE) and not self._wake.is_set():
            self._wake.set()
        return future

    def run_chore(self, chore: Callable[[SqlStore], Any]) -> asyncio.Future[Any]:
        """Run a function with the thread's connection, after what is queued now. Returns a future of its result."""
        future = self._loop.create_future()
        self._waiting.append((time.monotonic() + PATIENCE, future))
        self._chores.append((chore, future))
        self._wake.set()
        return future

    def give_up(self) -> None:
        """Fail requests that have waited for too long; call it regularly."""
        now = time.monotonic()
        while self._waiting and (self._waiting[0][1].done() or self._waiting[0][0] < now):
            _settle(self._waiting.popleft()[1], None, Unavailable("the store takes too long"))

    def add(self, heads: Mapping[int, int]) -> asyncio.Future[Any]:
        """Write to more partitions, and deliver their logs after `heads`. Returns a future for when it begins."""
        return self.run_chore(lambda store: self.seen.update(heads))

    def drop(self, partitions: Iterable[int]) -> asyncio.Future[Any]:
        """Write what is queued for partitions, and nothing more. Returns a future for its completion."""
        return self.run_chore(lambda store: self._forget(partitions))

    async def stop(self) -> None:
        """Write what is queued and stop the thread."""
        self._stop = True
        self._wake.set()
        await asyncio.to_thread(self._thread.join, 20.0)
        while self._waiting:  # not written because the store is unavailable
            _settle(self._waiting.popleft()[1], None, Unavailable("the store is away"))

    def _run(self) -> None:
        store: SqlStore | None = None
        pause = 0.1
        while True:
            if self._wake.wait(POLL) and not self._stop:
                time.sleep(GATHER)
                if len(self._queue) >= _BUSY:
                    time.sleep(_GATHER_MORE)
            self._wake.clear()
            self._beat = time.monotonic()
            # chores are taken first, so that the batch contains what was queued before them
            chores = [self._chores.popleft() for _ in range(len(self._chores))]
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), MOST_AT_ONCE))]
            if self._queue:
                self._wake.set()
            try:
                store = store or self._open()
                batch = self._still_served(batch)
                if batch:
                    begun = time.time_ns()
                    writings = together(batch)
                    seqs, _ = store.append([x.entry() for x in writings], self._clock())
                    self.commits += 1
                    for pending in batch:
                        if pending.trace is not None:
                            tracing.note("commit", pending.trace, begun, events=len(batch))
                    for writing, seq in zip(writings, seqs, strict=True):
                        self._own.setdefault(seq % self._partitions, []).append(writing.line(seq))
                    batch = []
                self._hand_over(store)
                while chores:
                    self._run_chore(store, *chores.pop(0))
                pause = 0.1
            except Fenced as error:
                self._queue.extendleft(reversed(batch))
                self._chores.extendleft(reversed(chores))
                self._lose(error.partitions)
                self._wake.set()
            except Exception as error:
                self._go_away(store, batch, chores, error)
                store = None
                time.sleep(pause)
                pause = min(2 * pause, 2.0)
            if self._stop and (not self._queue or store is None):
                break
        if store is not None:
            store.close()

    def _open(self) -> SqlStore:
        """Connect and try a write: that the store can be read says nothing about a full disk."""
        store = open_store(self.url, self._fences)
        try:
            store.try_writing()
        except BaseException:
            store.close()
            raise
        return store

    def _still_served(self, batch: Sequence[Pending]) -> list[Pending]:
        """The events of served partitions; requests that wait for others fail."""
        kept = []
        for pending in batch:
            partition = pending.board % self._partitions
            if partition in self.seen:
                kept.append(pending)
            elif pending.waiting is not None:
                self._loop.call_soon_threadsafe(_settle, pending.waiting, None, Fenced([partition]))
        return kept

    def _lose(self, partitions: Iterable[int]) -> None:
        """Stop writing to partitions that other workers own."""
        log.warning("partitions lost", extra={"fields": {"partitions": sorted(partitions)}})
        self._forget(partitions)
        self._loop.call_soon_threadsafe(self._lost, partitions)

    def _forget(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self.seen.pop(partition, None)
            for line in self._own.pop(partition, []):  # on disk: a retry gets its outcome from the new owner
                if line.waiting is not None:
                    self._loop.call_soon_threadsafe(_settle, line.waiting, None, Fenced([partition]))

    def _hand_over(self, store: SqlStore) -> None:
        """Deliver the log up to its present heads; own events need not be read."""
        lines: list[Line] = []
        done: dict[int, int] = {}
        for partition, head in self._heads(store).items():
            own, at, step = self._own.get(partition, []), self.seen[partition], self._partitions
            if (head - at) // step > len(own) and store.cut_after(at):
                self._loop.call_soon_threadsafe(self._cut_off)
                raise Unavailable("events are gone that this worker has not read")
            until = own[0].seq - step if own else head
            if (until - at) // step > MOST_READ:  # much to catch up with: deliver a part now, and the next soon
                self._wait_for_inbox()
                upto = at + MOST_READ * step
                self._deliver(store, self._read(store, at, upto), {partition: upto})
                self._look = True
                self._wake.set()
                return
            for line in own:
                if line.seq > at + step:
                    lines += self._read(store, at, line.seq - step)
                lines.append(line)
                at = line.seq
            if head > at:
                lines += self._read(store, at, head)
            done[partition] = head
        self._deliver(store, lines, done)
        for partition in done:
            self._own.pop(partition, None)

    def _heads(self, store: SqlStore) -> dict[int, int]:
        """The latest events of partitions that may have new ones."""
        own = {partition: lines[-1].seq for partition, lines in self._own.items()}
        now = time.monotonic()
        pause = 0.0 if self._fences is None else _POLL_OWNED
        if self._look or (not own and pause == 0.0) or (pause and now >= self._looked + pause):
            self._look, self._looked = False, now
            seen = self.seen
            return own | {p: head for p, head in store.heads(seen).items() if head > seen[p]}
        return own

    def _wait_for_inbox(self) -> None:
        while len(self._inbox) > MOST_READ and not self._stop:
            self._beat = time.monotonic()
            time.sleep(GATHER)

    def _deliver(self, store: SqlStore, lines: Sequence[Line], upto: Mapping[int, int]) -> None:
        """Deliver all events up to `upto`, by partition.

        Whatever can fail does so before anything counts as handed over.
        """
        first: dict[int, Created | Unreadable] = {}
        for line in lines:
            if isinstance(line.event, Created | Unreadable):
                first.setdefault(line.board, line.event)
        names = store.boards(list(first)) if first else {}
        made = {n: self._begin(n, *names[n], event) for n, event in first.items() if n in names}
        if self._working is False:
            log.info("store back", extra={"fields": {"behind": self.behind}})
        self._working = True
        self.seen.update(upto)
        if lines:
            self._loop.call_soon_threadsafe(self._inbox.deliver, lines, made)

    def _read(self, store: SqlStore, after: int, upto: int) -> list[Line]:
        """Read events of a partition."""
        rows = list(store.entries(after, upto, partition=after % self._partitions))
        return [Line(x.seq, x.board, event, None) for x, event in zip(rows, read_events(rows), strict=True)]

    def _run_chore(self, store: SqlStore, chore: Callable[[SqlStore], Any], future: asyncio.Future[Any]) -> None:
        try:
            result, failure = chore(store), None
        except Exception as error:  # raised where the result is awaited
            result, failure = None, error
        self._loop.call_soon_threadsafe(_settle, future, result, failure)
        if isinstance(failure, Unavailable):
            raise failure
        self._look = True  # it may have written events
        self._wake.set()

    def _go_away(
        self, store: SqlStore | None, batch: Sequence[Pending], chores: Sequence[Chore], error: Exception
    ) -> None:
        """The store is unavailable: fail waiting requests, and keep events that nobody waits for."""
        outdated = isinstance(error, Outdated)
        if self._working is not False or (outdated and not self.outdated):
            log.error("store away", extra={"fields": {"why": f"{type(error).__name__}: {error}"}})
        self._working, self._look = False, True
        if outdated:
            self.outdated = self.outdated or str(error)
        why = Outdated(self.outdated) if self.outdated else Unavailable("the store is away")
        for pending in reversed(batch):
            if pending.waiting is None and len(self._queue) < MOST_BEHIND:
                self._queue.appendleft(pending)
        waiting = (
            [x.waiting for x in batch]
            + [x.waiting for own in self._own.values() for x in own]
            + [f for _, f in chores]
        )
        for future in waiting:
            if future is not None:
                self._loop.call_soon_threadsafe(_settle, future, None, why)
        if store is not None:
            try:
                store.close()
            except Exception as failure:  # closing a broken connection may fail
                log.debug("closing the store", extra={"fields": {"why": str(failure)}})


class SharedLook:
    """Catch up with the log, sharing one read among simultaneous callers.

    So requests without a key cost the store little, however many there are.
    """

    def __init__(self, catch_up: Callable[[], Awaitable[None]], spawn: Callable[[Any], "asyncio.Task[Any]"]) -> None:
        self._catch_up, self._spawn = catch_up, spawn
        self._next: asyncio.Task[Unavailable | None] | None = None

    async def __call__(self) -> None:
        """Apply everything written until now, and wait for it."""
        if self._next is None:
            self._next = self._spawn(self._look())
        failure = await asyncio.shield(self._next)
        if failure is not None:
            raise failure

    async def _look(self) -> Unavailable | None:
        await asyncio.sleep(POLL)
        self._next = None  # later callers need another read
        try:
            await self._catch_up()
        except Unavailable as error:
            return error
        return None


def _without_frames(error: Exception) -> Exception:
    """Remove an exception's frames: they refer to the board, and would keep it alive with the waiting request."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error


def _settle(future: asyncio.Future[Any], result: Any, failure: BaseException | None) -> None:
    if future.done():
        return  # the waiting request is gone
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
        future.exception()  # marks it as retrieved, since the waiting request may be gone
