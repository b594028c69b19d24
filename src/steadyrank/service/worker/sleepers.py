"""The boards of a worker that are not in memory: who they are, when they have to wake, and how."""

import asyncio
import concurrent.futures
import heapq
import logging
import math
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..storage import KnownBoard, Store, Unavailable, open_store
from .board_session import BoardSession
from .recovery import Kept, load, parking_words, put_snapshot, rebuild
from .sleeper import Rest, Sleeper, read_rest

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


def summaries(store: Store) -> Iterator[tuple[str, dict[str, Any] | str]]:
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
                yield known.name, board.summary()
