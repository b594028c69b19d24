"""The thread that writes the log: many events in one commit, and what other workers wrote in between."""

import asyncio
import collections
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from .events import AnyEvent, Created, decode, encode
from .sql import Unavailable
from .store import Store

POLL = 0.05  # seconds between looks for events of other workers
MOST_AT_ONCE = 5_000  # events in a commit
MOST_BEHIND = 200_000  # events that may wait while the store is away

log = logging.getLogger("steadyrank.service")


Chore: TypeAlias = tuple[Callable[[Store], Any], asyncio.Future[Any]]


class Line(NamedTuple):
    """An event in log order, and who waits for its outcome."""

    seq: int
    board: int
    event: AnyEvent
    waiting: asyncio.Future[str] | None


class Pending(NamedTuple):
    """An event to be written."""

    board: int
    event: AnyEvent
    waiting: asyncio.Future[str] | None


class Journal:
    """Writes what is put into it and delivers the whole log from `seen` on, in order, in the event loop's thread.

    An event that somebody waits for is acknowledged by its outcome, after it is on the disk and was applied. If the
    store is away, those who wait are told so; events that nobody waits for are kept and written when it is back.
    Whether a failed commit took place is unknown, so an event may come twice in the log: that does no harm.
    """

    def __init__(
        self,
        url: str,
        seen: int,
        deliver: Callable[[Sequence[Line], dict[int, tuple[str, bytes]]], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.url = url
        self.seen = seen  # every event up to this number was handed over
        self.available = True
        self.commits = 0
        self._deliver = deliver
        self._clock = clock
        self._queue: collections.deque[Pending] = collections.deque()
        self._wake = threading.Event()
        self._stop = False
        self._loop = asyncio.get_running_loop()
        self._chores: collections.deque[Chore] = collections.deque()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def put(self, board: int, event: AnyEvent, wait: bool = False) -> asyncio.Future[str] | None:
        """Write an event soon; with `wait`, a future of its outcome."""
        future = self._loop.create_future() if wait else None
        self._queue.append(Pending(board, event, future))
        if wait or len(self._queue) > MOST_AT_ONCE:
            self._wake.set()
        return future

    @property
    def behind(self) -> int:
        """Events that wait to be written."""
        return len(self._queue)

    def do(self, chore: Callable[[Store], Any]) -> asyncio.Future[Any]:
        """Run something else with the thread's connection; a future of its result."""
        future = self._loop.create_future()
        self._chores.append((chore, future))
        self._wake.set()
        return future

    async def stop(self) -> None:
        """Write what is left and end the thread."""
        self._stop = True
        self._wake.set()
        await asyncio.to_thread(self._thread.join, 30.0)

    def _run(self) -> None:
        store: Store | None = None
        pause = 0.1
        while True:
            self._wake.wait(POLL)
            self._wake.clear()
            chores = [
                self._chores.popleft() for _ in range(len(self._chores))
            ]  # first: after what was put before them
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), MOST_AT_ONCE))]
            if self._queue:
                self._wake.set()
            try:
                if store is None:
                    store = Store(self.url)
                self._step(store, batch)
                batch = []
                while chores:
                    self._do(store, *chores.pop(0))
                pause = 0.1
            except (Unavailable, ValueError) as error:
                self._away(store, batch, chores, str(error))
                store = None
                time.sleep(pause)
                pause = min(2 * pause, 2.0)
            if self._stop and (not self._queue or store is None):
                break
        if store is not None:
            store.close()

    def _step(self, store: Store, batch: Sequence[Pending]) -> None:
        first = head = (
            store.append([(x.board, encode(x.event)) for x in batch], self._clock()) if batch else store.head()
        )
        upto = first - 1 if batch else head
        lines = [Line(x.seq, x.board, decode(x.body), None) for x in store.entries(self.seen, upto)]
        lines += [Line(first + i, *pending) for i, pending in enumerate(batch)]
        self.commits += bool(batch)
        if not self.available:
            log.info("store back", extra={"fields": {"behind": self.behind}})
        self.available = True
        names = store.boards() if any(isinstance(line.event, Created) for line in lines) else {}
        self.seen = first + len(batch) - 1 if batch else head
        for start in range(0, len(lines), 200):
            self._loop.call_soon_threadsafe(self._deliver, lines[start : start + 200], names)

    def _do(self, store: Store, chore: Callable[[Store], Any], future: asyncio.Future[Any]) -> None:
        try:
            result, failure = chore(store), None
        except Exception as error:  # handed to who asked
            result, failure = None, error
        self._loop.call_soon_threadsafe(_settle, future, result, failure)
        if isinstance(failure, Unavailable):
            raise failure
        self._wake.set()  # it may have written events

    def _away(self, store: Store | None, batch: Sequence[Pending], chores: Sequence[Chore], why: str) -> None:
        if self.available:
            log.error("store away", extra={"fields": {"why": why}})
        self.available = False
        for pending in reversed(batch):
            if pending.waiting is not None:
                self._loop.call_soon_threadsafe(_settle, pending.waiting, None, Unavailable(why))
            elif len(self._queue) < MOST_BEHIND:
                self._queue.appendleft(pending)
        for _, future in chores:
            self._loop.call_soon_threadsafe(_settle, future, None, Unavailable(why))
        if store is not None:
            try:
                store.close()
            except Exception as error:  # a broken connection cannot always be closed
                log.debug("closing the store", extra={"fields": {"why": str(error)}})


def _settle(future: asyncio.Future[Any], result: Any, failure: BaseException | None) -> None:
    if future.done():
        return  # who waited has gone
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
