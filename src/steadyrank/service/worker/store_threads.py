"""Threads with their own connections to the store, so that slow queries do not delay other requests."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

from ..storage import Fenced, SqlStore, Unavailable, open_store

T = TypeVar("T")


class StoreThreads:
    """A named thread pool. Each thread connects on demand, and reconnects after a failure.

    `fences`: of the partitions that may be written.
    """

    def __init__(self, name: str, url: str, threads: int = 1, fences: Mapping[int, int] | None = None) -> None:
        self._url, self._fences = url, fences
        self._threads = concurrent.futures.ThreadPoolExecutor(threads, name)
        self._stores: list[SqlStore] = []
        self._mine = threading.local()

    async def run(self, work: Callable[[SqlStore], T]) -> T:
        """Run a function of a store in a thread and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, work)

    def _run(self, work: Callable[[SqlStore], T]) -> T:
        try:
            return work(self._store())
        except Fenced:  # the connection is fine, but the partition has another owner
            raise
        except Unavailable:
            self._drop_store()
            raise

    def _store(self) -> SqlStore:
        """The connection of this thread."""
        store: SqlStore | None = getattr(self._mine, "store", None)
        if store is None:
            store = self._mine.store = open_store(self._url, self._fences)
            self._stores.append(store)
        return store

    def _drop_store(self) -> None:
        store: SqlStore | None = getattr(self._mine, "store", None)
        self._mine.store = None
        if store is not None:
            self._stores.remove(store)
            store.close()

    def close(self) -> None:
        """Stop the threads and close their connections; queued work is cancelled."""
        self._threads.shutdown(cancel_futures=True)
        while self._stores:
            self._stores.pop().close()
