"""A client of the ranking service that fails fast, blocking or asynchronous: the standard library alone."""

import asyncio
import atexit
import os
import socket
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

from ..core.refusals import Refused
from .api import Api, Observed, Ranking
from .patience import Send, Steps, log
from .wire import ResponseReader, StaleConnection

__all__ = ["AsyncClient", "Client", "Observed", "Ranking", "Refused"]

_T = TypeVar("_T")
_PIECE = 1 << 18  # bytes received at a time
_EXIT_SECONDS = 5.0  # that the end of the process waits for queued answers


class Client(Api):
    """Talks to one server; safe for threads, each of which keeps a connection of its own.

    `rank` and `feedback` take at most 0.2 s and are tried once. Other requests wait at most 10 s whenever the server
    is to answer, and are tried five times if it cannot be reached or answers 503. `timeout` (seconds) and `tries`
    change this for all requests. Looking up the server's name is not limited.

    - After `breaker_failures` lists in a row that the server did not give, it is asked for one in `breaker_seconds`;
      all other calls of `rank` fail, or return their fallback, at once.
    - Answers that the server did not take in time are queued, at most `queue` of them, and sent in the background.
      `close` and the end of the process wait for that, for 5 s at most. Each answer counts once, however often it is
      sent. A list whose response is lost on the way stays unanswered. `queue` is 10,000 by default, and 0 if `tries`
      are given: then an answer that cannot be sent is an error.
    - Refusals are `steadyrank.Refused` with the server's code.
    """

    def _prepare(self, sleep: Callable[[float], Any] | None) -> None:
        self._sleep, self._local, self._hurry = sleep or time.sleep, threading.local(), threading.Event()

    def each_board(self, after: str = "") -> Iterator[dict[str, Any]]:
        """Boards by name, those after a name, asked for as they are needed."""
        following: str | None = after
        while following is not None:
            page = self._carry_out(self._page(following))
            yield from page["boards"]
            following = page.get("next")  # older servers send all at once

    def flush(self, seconds: float = _EXIT_SECONDS) -> bool:
        """Wait until all queued answers are sent; whether they are."""
        self._hurry.set()
        return self._queue.wait(seconds)

    def close(self) -> None:
        """Send what is queued, as far as that takes at most 5 s, and end this thread's connection."""
        self.flush()
        self._hang_up()

    def _carry_out(self, steps: Steps[_T], pause: Callable[[float], object] | None = None) -> _T:
        try:
            step = next(steps)
            while True:
                if not isinstance(step, Send):
                    (pause or self._sleep)(step.seconds)
                    step = next(steps)
                    continue
                try:
                    response = self._send(step)
                except OSError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(response)
        except StopIteration as end:
            result: _T = end.value
            return result
        finally:
            steps.close()

    def _send(self, step: Send) -> ResponseReader:
        end, response = time.monotonic() + step.timeout, ResponseReader(step.request.into)
        connection = self._idle()
        reused = connection is not None

        def left() -> float:
            seconds = end - time.monotonic() if step.whole else step.timeout
            if seconds <= 0:
                raise TimeoutError("timed out")
            return seconds

        try:
            if connection is None:
                connection = self._connect(left())
            connection.settimeout(left())
            connection.sendall(self._address.encode(step.request))
            whole = False
            while not whole:
                connection.settimeout(left())
                whole = response.feed(connection.recv(_PIECE))
        except BaseException as error:  # nobody knows what is still to come on this connection
            self._hang_up()
            if reused and not response.started and isinstance(error, ConnectionError):
                raise StaleConnection(str(error)) from error
            raise
        if not response.reusable:
            self._hang_up()
        return response

    def _idle(self) -> socket.socket | None:
        """This thread's connection, if it has one and did not inherit it by a fork."""
        process, connection = getattr(self._local, "connection", (0, None))
        return connection if process == os.getpid() else None

    def _connect(self, seconds: float) -> socket.socket:
        connection = socket.create_connection((self._address.host, self._address.port), seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._local.connection = (os.getpid(), connection)
        if self._secure is not None:
            connection = self._secure.wrap_socket(connection, server_hostname=self._address.host)
            self._local.connection = (os.getpid(), connection)
        return connection

    def _hang_up(self) -> None:
        _, connection = getattr(self._local, "connection", (0, None))
        if connection is not None:
            connection.close()
            del self._local.connection

    def _begin_to_deliver(self) -> None:
        atexit.register(_flush_at_exit, weakref.ref(self))
        threading.Thread(target=self._deliver_all, name="steadyrank-answers", daemon=True).start()

    def _deliver_all(self) -> None:
        def pause(seconds: float) -> None:
            self._hurry.wait(seconds)
            self._hurry.clear()

        try:
            self._carry_out(self._deliver(), pause)
        finally:
            self._hang_up()


class AsyncClient(Api):
    """`Client` for asyncio: the same requests, each a coroutine; `async with AsyncClient(url) as client:`.

    Queued answers are sent by a task of the running loop; only `close`, or the end of `async with`, waits for them.
    """

    def _prepare(self, sleep: Callable[[float], Any] | None) -> None:
        self._sleep = sleep or asyncio.sleep
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._delivery: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "AsyncClient":
        """This client, closed at the end of the block."""
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Close it."""
        await self.close()

    async def each_board(self, after: str = "") -> AsyncIterator[dict[str, Any]]:
        """Boards by name, those after a name, asked for as they are needed."""
        following: str | None = after
        while following is not None:
            page = await self._carry_out(self._page(following))
            for board in page["boards"]:
                yield board
            following = page.get("next")

    async def flush(self, seconds: float = _EXIT_SECONDS) -> bool:
        """Wait until all queued answers are sent; whether they are."""
        if self._delivery is not None:
            await asyncio.wait([self._delivery], timeout=seconds)
        return not self.queued

    async def close(self) -> None:
        """Send what is queued, as far as that takes at most 5 s, and end all connections."""
        await self.flush()
        if self._delivery is not None and self._delivery.cancel():
            await asyncio.wait([self._delivery])
        _say_undelivered(self.queued)
        while self._free:
            self._free.pop()[1].close()

    async def _carry_out(self, steps: Steps[_T]) -> _T:
        try:
            step = next(steps)
            while True:
                if not isinstance(step, Send):
                    await self._sleep(step.seconds)
                    step = next(steps)
                    continue
                try:
                    response = await self._send(step)
                except OSError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(response)
        except StopIteration as end:
            result: _T = end.value
            return result
        finally:
            steps.close()

    async def _send(self, step: Send) -> ResponseReader:
        async with asyncio.timeout(step.timeout if step.whole else None):
            return await self._exchange(step)

    async def _exchange(self, step: Send) -> ResponseReader:
        patience = None if step.whole else step.timeout
        response, streams = ResponseReader(step.request.into), self._idle()
        reused = streams is not None
        try:
            if streams is None:
                opened = asyncio.open_connection(self._address.host, self._address.port, ssl=self._secure)
                streams = await asyncio.wait_for(opened, patience)
            reader, writer = streams
            writer.write(self._address.encode(step.request))
            await asyncio.wait_for(writer.drain(), patience)
            while not response.feed(await asyncio.wait_for(reader.read(_PIECE), patience)):
                pass
        except BaseException as error:  # nobody knows what is still to come on this connection
            if streams is not None:
                streams[1].close()
            if reused and not response.started and isinstance(error, ConnectionError):
                raise StaleConnection(str(error)) from error
            raise
        if response.reusable:
            self._free.append(streams)
        else:
            writer.close()
        return response

    def _idle(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """A connection that nobody uses; those of a loop that has ended are no use."""
        if self._loop is not asyncio.get_running_loop():
            self._loop = asyncio.get_running_loop()
            self._free.clear()
        return self._free.pop() if self._free else None

    def _begin_to_deliver(self) -> None:
        self._delivery = asyncio.get_running_loop().create_task(self._carry_out(self._deliver()))


def _flush_at_exit(client: "weakref.ref[Client]") -> None:
    living = client()
    if living is not None and living.queued:
        living.flush()
        _say_undelivered(living.queued)


def _say_undelivered(count: int) -> None:
    if count:
        log.warning("%d answers to lists were not delivered: the server was away until the end", count)
