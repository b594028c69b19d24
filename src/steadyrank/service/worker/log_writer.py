"""The log of all boards that a worker serves, as it writes, reads and applies it.

A thread writes many events in one commit, and reads what others wrote in between: other workers on the same file, or
the commands of an operator. It delivers the whole log, each partition in order, to an inbox in the event loop's
thread, which applies it a few events at a time.
"""

import asyncio
import collections
import contextlib
import itertools
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ...core.refusals import Refused
from .. import tracing
from ..board.board import Steps, Work
from ..board.events import AnyEvent, Created, ListShown, encode, of_sender
from ..storage import Fenced, NewEntry, Numbers, Outdated, Sender, SqlStore, Unavailable, open_store
from .log_rows import Unreadable, read_events

GATHER = 0.001  # seconds from the first event to be written until the commit begins: more of them share it
_BUSY = 8  # events that have come by then: so many more are on their way that it is worth waiting for them
_GATHER_MORE = 0.004  # seconds for these: a commit costs as much processor time as some ten requests
POLL = 0.025  # seconds between looks for events of other workers
_POLL_OWNED = 0.25  # the same where each partition has one owner: only an operator's commands write beside it
MOST_AT_ONCE = 5_000  # events in a commit
MOST_READ = 10_000  # events of others handed over at a time, and not applied yet: after an import there may be many
MOST_BEHIND = 200_000  # events that may wait while the store is away
PATIENCE = 15.0  # seconds after which who waits is told that the store is away, and the thread is taken for stuck
_APPLIED_AT_ONCE = 32  # events applied between requests, each alone or as
ALIKE_AT_ONCE = 250  # lists of one board that are applied together
_TURN = 0.004  # seconds after which requests have their turn, in the middle of a long event as well
_APPLYING = 20.0  # seconds after which who waits for an event to be applied is told that the log cannot be read

log = logging.getLogger("steadyrank.service")

Chore: TypeAlias = tuple[Callable[[SqlStore], Any], asyncio.Future[Any]]


class Line(NamedTuple):
    """An event in log order, and who waits for its outcome."""

    seq: int
    board: int
    event: AnyEvent | Unreadable  # why there is none that can be applied
    waiting: asyncio.Future[str] | None
    client: int = 0  # hash of the client, where this worker knows it
    trace: Any = None  # of the request that it belongs to


class Pending(NamedTuple):
    """An event to be written."""

    board: int
    event: AnyEvent
    body: bytes  # empty where there is a sender: the numbers of client and cohorts are not known yet
    waiting: asyncio.Future[str] | None
    sender: Sender | None
    trace: Any = None

    def entry(self) -> NewEntry:
        """What the store writes."""
        if self.sender is None:
            return NewEntry(self.board, self.body)
        return NewEntry(self.board, lambda numbers: encode(of_sender(self.event, numbers)), self.sender)

    def line(self, seq: int, numbers: Numbers) -> Line:
        """What was written, by the numbers of its client and cohorts."""
        if self.sender is None:
            return Line(seq, self.board, self.event, self.waiting, trace=self.trace)
        return Line(seq, self.board, of_sender(self.event, numbers), self.waiting, self.sender.hash, self.trace)


class Inbox:
    """Applies events a few at a time, and long ones in steps, so that requests need not wait for all of them."""

    def __init__(
        self,
        apply: Callable[[Line, dict[int, Any]], Steps],
        apply_lists: Callable[[Iterator[Line]], tuple[int, bool]] = lambda lines: (1, False),
    ) -> None:
        self.applied: dict[int, int] = {0: 0}  # by partition: every event up to this number was
        self.partitions = 1  # how many the store has
        self._apply, self._apply_lists = apply, apply_lists
        self._alone = 0  # so many of the first lines are applied one by one
        self._steps: Steps | None = None  # of the first line, if it was begun
        self._work: asyncio.Future[None] | None = None  # that these wait for, in a thread
        self._begun = 0  # when the first line was, in nanoseconds since 1970, if it has a trace
        self._holders = 0  # who keeps events from being begun
        self._scheduled = False
        self._lines: collections.deque[tuple[Line, dict[int, Any]]] = collections.deque()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def __len__(self) -> int:
        return len(self._lines)

    def reset(self, heads: Mapping[int, int], partitions: int) -> None:
        """Everything up to these events is applied, of so many partitions in all, and nothing waits."""
        self._lines.clear()
        self._steps, self.applied, self.partitions, self._alone = None, dict(heads), partitions, 0
        self._work = None

    def add(self, heads: Mapping[int, int]) -> None:
        """Events of more partitions come from now on; everything up to these is applied."""
        self.applied |= heads

    def drop(self, partitions: Iterable[int]) -> None:
        """Apply nothing more of some partitions: another worker does. Who waits for an event of them is told so."""
        gone = {partition for partition in partitions if self.applied.pop(partition, None) is not None}
        if self._lines and self._steps is not None and self._lines[0][0].seq % self.partitions in gone:
            self._steps = self._work = None
        kept: list[tuple[Line, dict[int, Any]]] = []
        for line, made in self._lines:
            if line.seq % self.partitions not in gone:
                kept.append((line, made))
            elif line.waiting is not None:
                _settle(line.waiting, None, Fenced([line.seq % self.partitions]))
        self._lines, self._alone = collections.deque(kept), 0
        for seq, future in self._waiting:
            if seq % self.partitions in gone:
                _settle(future, None, Fenced([seq % self.partitions]))
        self._drain_soon()  # nobody else goes on where a thread was at work

    def deliver(self, lines: Sequence[Line], made: dict[int, Any]) -> None:
        """More events in log order, and what was made of boards that they create."""
        idle = not self._lines
        self._lines.extend((line, made) for line in lines)
        if idle:
            self._drain()

    @contextlib.asynccontextmanager
    async def hold_events(self) -> AsyncIterator[None]:
        """Apply nothing meanwhile, and be in the middle of nothing: for who looks at a board as of one event."""
        self.begin_hold()
        try:
            while self._steps is not None:
                await (asyncio.sleep(0) if self._work is None else asyncio.wait([self._work]))
            yield
        finally:
            self.end_hold()

    def begin_hold(self) -> None:
        """Begin no event after the one that is being applied, until `end_hold`."""
        self._holders += 1

    def end_hold(self) -> None:
        """Go on, unless somebody else holds events."""
        self._holders -= 1
        self._drain_soon()

    def _drain_soon(self) -> None:
        """Go on in the next turn, if there is anything that may be applied."""
        may = not self._works and (self._steps is not None or not self._holders)
        if self._lines and not self._scheduled and may:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._drain)

    @property
    def _works(self) -> bool:
        """Whether a thread is at work for the first line."""
        return self._work is not None and not self._work.done()

    def _begin_work(self, work: Work) -> None:
        """Do in a thread what the first line waits for; then it goes on."""
        self._work = asyncio.get_running_loop().run_in_executor(None, work)
        self._work.add_done_callback(lambda _: self._drain_soon())

    def _drain(self) -> None:
        self._scheduled, end = False, time.perf_counter() + _TURN
        if self._works:
            return
        for _ in range(min(len(self._lines), _APPLIED_AT_ONCE)):
            if self._holders and self._steps is None:
                break
            if self._steps is None and self._apply_alike():
                if not self._lines or time.perf_counter() > end:
                    break
                continue
            self._alone -= 1
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

    def _apply_alike(self) -> bool:
        """Apply the first lines together, if they are lists of one board; whether it was done."""
        if self._alone > 0 or type(self._lines[0][0].event) is not ListShown:
            return False
        first = itertools.islice(self._lines, ALIKE_AT_ONCE)
        self._alone, done = self._apply_lists(line for line, _ in first)
        if done:
            for _ in range(self._alone):
                line, _ = self._lines.popleft()
            self._alone, self.applied[line.seq % self.partitions] = 0, line.seq
        return done

    def _is_applied(self, seq: int) -> bool:
        return seq <= self.applied.get(seq % self.partitions, -1)

    def _apply_first(self, end: float) -> str | Exception | None:
        """Apply the first line until a moment; its outcome, None if there are steps left."""
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
        except Exception as error:  # as a replay does: this event has failed, the next one is applied
            log.exception("an event cannot be applied", extra={"fields": {"event": line.seq}})
            return error

    async def wait_for(self, seq: int) -> None:
        """Wait until the log of its partition is applied up to an event."""
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
    """Writes what is put into it and delivers the whole log of its partitions to an inbox.

    `heads`: by partition the latest event that was read; there are so many `partitions` in the store. `begin` makes a
    board of its number, name, secret and first event, in this thread, since a learner may have to be compiled.
    `cut_off` is called, in the event loop's thread, if events that were not read yet are gone; `lost` with partitions
    of which a write said that they have another owner. `fences`: under which partitions may be written.

    An event that somebody waits for is acknowledged by its outcome, after it is on the disk and was applied. If the
    store is away, those who wait are told so; events that nobody waits for are kept and written when it is back.
    Whether a failed commit took place is unknown, so an event may come twice in the log: that does no harm.
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
        self.outdated = ""  # why nothing is read or written any more: a newer version has upgraded the store
        self._partitions, self._fences, self._lost = partitions, fences, lost
        self._inbox, self._begin, self._cut_off = inbox, begin, cut_off
        self._clock = clock
        self._working: bool | None = None  # not known yet
        self._beat = time.monotonic()
        self._queue: collections.deque[Pending] = collections.deque()
        self._own: dict[int, list[Line]] = {}  # by partition: written, not handed over yet
        self._looked, self._look = 0.0, True  # when heads were read, and whether they have to be
        self._waiting: collections.deque[tuple[float, asyncio.Future[str]]] = collections.deque()
        self._chores: collections.deque[Chore] = collections.deque()
        self._wake = threading.Event()
        self._stop = False
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="log writer", daemon=True)
        self._thread.start()

    @property
    def available(self) -> bool:
        """Whether the store answers."""
        return bool(self._working) and self._thread.is_alive() and time.monotonic() - self._beat < PATIENCE

    @property
    def behind(self) -> int:
        """Events that wait to be written."""
        return len(self._queue)

    def put_event(
        self, board: int, event: AnyEvent, wait: bool = False, sender: Sender | None = None
    ) -> asyncio.Future[str] | None:
        """Write an event soon, with the number of its sender; with `wait`, a future of its outcome."""
        body = encode(event) if sender is None else b""
        future = None
        if wait:
            future = self._loop.create_future()
            self._waiting.append((time.monotonic() + PATIENCE, future))
        self._queue.append(Pending(board, event, body, future, sender, tracing.current()))
        if (wait or len(self._queue) > MOST_AT_ONCE) and not self._wake.is_set():
            self._wake.set()
        return future

    def run_chore(self, chore: Callable[[SqlStore], Any]) -> asyncio.Future[Any]:
        """Run something else with the thread's connection, after what was put before; a future of its result."""
        future = self._loop.create_future()
        self._waiting.append((time.monotonic() + PATIENCE, future))
        self._chores.append((chore, future))
        self._wake.set()
        return future

    def give_up(self) -> None:
        """Tell those who have waited too long that the store is away; to be called now and then."""
        now = time.monotonic()
        while self._waiting and (self._waiting[0][1].done() or self._waiting[0][0] < now):
            _settle(self._waiting.popleft()[1], None, Unavailable("the store takes too long"))

    def add(self, heads: Mapping[int, int]) -> asyncio.Future[Any]:
        """Write to more partitions, and deliver their logs, from these events on; a future of when it does."""
        return self.run_chore(lambda store: self.seen.update(heads))

    def drop(self, partitions: Iterable[int]) -> asyncio.Future[Any]:
        """Write what was put, and no more, to some partitions; a future of when that is done."""
        return self.run_chore(lambda store: self._forget(partitions))

    async def stop(self) -> None:
        """Write what is left and end the thread."""
        self._stop = True
        self._wake.set()
        await asyncio.to_thread(self._thread.join, 20.0)
        while self._waiting:  # what a store that is away kept from being written
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
            # chores are taken first: then the batch holds what was put before them
            chores = [self._chores.popleft() for _ in range(len(self._chores))]
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), MOST_AT_ONCE))]
            if self._queue:
                self._wake.set()
            try:
                store = store or self._open()
                batch = self._still_served(batch)
                if batch:
                    begun = time.time_ns()
                    seqs, numbers = store.append([x.entry() for x in batch], self._clock())
                    self.commits += 1
                    for pending in batch:
                        if pending.trace is not None:
                            tracing.note("commit", pending.trace, begun, events=len(batch))
                    for pending, seq, clients in zip(batch, seqs, numbers, strict=True):
                        self._own.setdefault(seq % self._partitions, []).append(pending.line(seq, clients))
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
        """A connection through which something can be written: that it can be read says nothing of a full disk."""
        store = open_store(self.url, self._fences)
        try:
            store.try_writing()
        except BaseException:
            store.close()
            raise
        return store

    def _still_served(self, batch: Sequence[Pending]) -> list[Pending]:
        """What may be written; who waits for anything else is told that another worker has it."""
        kept = []
        for pending in batch:
            partition = pending.board % self._partitions
            if partition in self.seen:
                kept.append(pending)
            elif pending.waiting is not None:
                self._loop.call_soon_threadsafe(_settle, pending.waiting, None, Fenced([partition]))
        return kept

    def _lose(self, partitions: Iterable[int]) -> None:
        """Other workers own partitions: nothing more is written to them."""
        log.warning("partitions lost", extra={"fields": {"partitions": sorted(partitions)}})
        self._forget(partitions)
        self._loop.call_soon_threadsafe(self._lost, partitions)

    def _forget(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self.seen.pop(partition, None)
            for line in self._own.pop(partition, []):  # on the disk; who asks again hears of it from the new owner
                if line.waiting is not None:
                    self._loop.call_soon_threadsafe(_settle, line.waiting, None, Fenced([partition]))

    def _hand_over(self, store: SqlStore) -> None:
        """Deliver the log up to its heads, as of now; own events need not be read."""
        lines: list[Line] = []
        done: dict[int, int] = {}
        for partition, head in self._heads(store).items():
            own, at, step = self._own.get(partition, []), self.seen[partition], self._partitions
            if (head - at) // step > len(own) and store.cut_after(at):
                self._loop.call_soon_threadsafe(self._cut_off)
                raise Unavailable("events are gone that this worker has not read")
            until = own[0].seq - step if own else head
            if (until - at) // step > MOST_READ:  # much to catch up with: a part of it now, soon the next
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
        """The latest events of partitions in which there may be new ones."""
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
        """Deliver all events up to some numbers, by partition.

        Whatever fails does so before anything is taken for handed over.
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
        """Events of a partition."""
        rows = list(store.entries(after, upto, partition=after % self._partitions))
        return [Line(x.seq, x.board, event, None) for x, event in zip(rows, read_events(rows), strict=True)]

    def _run_chore(self, store: SqlStore, chore: Callable[[SqlStore], Any], future: asyncio.Future[Any]) -> None:
        try:
            result, failure = chore(store), None
        except Exception as error:  # handed to who asked
            result, failure = None, error
        self._loop.call_soon_threadsafe(_settle, future, result, failure)
        if isinstance(failure, Unavailable):
            raise failure
        self._look = True  # it may have written events
        self._wake.set()

    def _go_away(
        self, store: SqlStore | None, batch: Sequence[Pending], chores: Sequence[Chore], error: Exception
    ) -> None:
        """The store is away: tell those who wait, and keep what nobody waits for."""
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
            except Exception as failure:  # a broken connection cannot always be closed
                log.debug("closing the store", extra={"fields": {"why": str(failure)}})


class SharedLook:
    """Apply what any worker wrote until now. Who asks within a moment shares one look: without a key it costs the
    store little, however many ask."""

    def __init__(self, catch_up: Callable[[], Awaitable[None]], spawn: Callable[[Any], "asyncio.Task[Any]"]) -> None:
        self._catch_up, self._spawn = catch_up, spawn
        self._next: asyncio.Task[Unavailable | None] | None = None

    async def __call__(self) -> None:
        """Look, and wait for it."""
        if self._next is None:
            self._next = self._spawn(self._look())
        failure = await asyncio.shield(self._next)
        if failure is not None:
            raise failure

    async def _look(self) -> Unavailable | None:
        await asyncio.sleep(POLL)
        self._next = None  # who comes from here on is too late for this one
        try:
            await self._catch_up()
        except Unavailable as error:
            return error
        return None


def _without_frames(error: Exception) -> Exception:
    """An error without the frames that it went through: they hold the board, and it would hold who waits for it."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error


def _settle(future: asyncio.Future[Any], result: Any, failure: BaseException | None) -> None:
    if future.done():
        return  # who waited has gone
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
        future.exception()  # whoever waited may have gone: no warning then
