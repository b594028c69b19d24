"""Clients of the ranking service that fail fast, blocking and asynchronous, using only the standard library."""

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
from .api import Api, Observed, Outcome, Ranking
from .patience import Send, Steps, log
from .wire import Address, ResponseReader, StaleConnection

__all__ = ["AsyncClient", "Client", "Observed", "Outcome", "Ranking", "Refused"]

_T = TypeVar("_T")
_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_PIECE = 1 << 18  # bytes received at a time
_EXIT_SECONDS = 5.0  # for which the end of the process waits for queued answers


class Client(Api):
    """A client of one server; thread-safe, with one connection per thread.

    `rank` and `feedback` take at most 0.2 s and are tried once. Other requests wait at most 10 s for each step of the
    exchange, and are tried five times if the server cannot be reached or answers 503. `timeout` (seconds) and `tries`
    change this for all requests. Name resolution is not limited.

    - After `breaker_failures` failures of `rank` in a row, only one list is requested in `breaker_seconds`; all other
      calls of `rank` fail, or return their fallback, at once.
    - Answers that the server did not accept in time are queued, at most `queue` of them, and sent in the background.
      `close` and the end of the process wait for that, for 5 s at most. Each answer counts once, however often it is
      sent. A list whose response is lost in transit stays unanswered. `queue` is 10,000 by default, and 0 if `tries`
      is given: then an answer that cannot be sent is an error.
    - `straight`: lists, answers and `observe` go directly to the worker that owns their board, once an answer has
      named it, and to the server again when the worker is gone. The key goes there unencrypted: use it only on a
      private network.
    - Refusals are `steadyrank.Refused` with the server's code.
    """

    def _prepare(self, sleep: Callable[[float], Any] | None) -> None:
        self._sleep, self._local, self._hurry = sleep or time.sleep, threading.local(), threading.Event()

    def each_board(self, after: str = "") -> Iterator[dict[str, Any]]:
        """Iterate over boards by name, after a given name, requesting pages as needed."""
        following: str | None = after
        while following is not None:
            page = self._run(self._page(following))
            yield from page["boards"]
            following = page.get("next")  # older servers send all at once

    def flush(self, seconds: float = _EXIT_SECONDS) -> bool:
        """Wait until all queued answers are sent. Returns whether they are."""
        self._hurry.set()
        return self._queue.wait(seconds)

    def close(self) -> None:
        """Send queued answers, for at most 5 s, and close this thread's connections."""
        self.flush()
        self._disconnect()

    def _run(self, steps: Steps[_T], pause: Callable[[float], object] | None = None) -> _T:
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
        end, address = time.monotonic() + step.timeout, self._owners.address(step.request)
        try:
            return self._exchange(step, address, end)
        except (TimeoutError, StaleConnection):
            self._owners.forget(address)
            raise
        except OSError:
            if not self._owners.forget(address):
                raise
            return self._exchange(step, self._address, end)

    def _exchange(self, step: Send, address: Address, end: float) -> ResponseReader:
        response, connection = ResponseReader(step.request.into), self._idle(address)
        reused = connection is not None

        def left() -> float:
            seconds = end - time.monotonic() if step.whole else step.timeout
            if seconds <= 0:
                raise TimeoutError("timed out")
            return seconds

        try:
            if connection is None:
                connection = self._connect(address, left())
            connection.settimeout(left())
            connection.sendall(address.encode(step.request))
            whole = False
            while not whole:
                connection.settimeout(left())
                whole = response.feed(connection.recv(_PIECE))
        except BaseException as error:  # the state of this connection is unknown
            self._disconnect(address)
            if reused and not response.started and isinstance(error, ConnectionError):
                raise StaleConnection(str(error)) from error
            raise
        if not response.reusable:
            self._disconnect(address)
        self._owners.learn(step.request, address, response)
        return response

    def _connections(self) -> dict[str, socket.socket]:
        """This thread's connections by server name, without those inherited by a fork."""
        process, connections = getattr(self._local, "connections", (0, {}))
        if process != os.getpid():
            connections = {}
            self._local.connections = os.getpid(), connections
        mine: dict[str, socket.socket] = connections
        return mine

    def _idle(self, address: Address) -> socket.socket | None:
        """This thread's connection to a server, if any."""
        return self._connections().get(address.name)

    def _connect(self, address: Address, seconds: float) -> socket.socket:
        connection = socket.create_connection((address.host, address.port), seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections()[address.name] = connection
        if self._secure is not None:
            connection = self._secure.wrap_socket(connection, server_hostname=address.host)
            self._connections()[address.name] = connection
        return connection

    def _disconnect(self, address: Address | None = None) -> None:
        """Close this thread's connection to a server, or all of them."""
        connections = self._connections()
        for name in list(connections) if address is None else [address.name]:
            if name in connections:
                connections.pop(name).close()

    def _start_delivery(self) -> None:
        atexit.register(_flush_at_exit, weakref.ref(self))
        threading.Thread(target=self._deliver_all, name="steadyrank-answers", daemon=True).start()

    def _deliver_all(self) -> None:
        def pause(seconds: float) -> None:
            self._hurry.wait(seconds)
            self._hurry.clear()

        try:
            self._run(self._deliver(), pause)
        finally:
            self._disconnect()


class AsyncClient(Api):
    """`Client` for asyncio: the same methods as coroutines; `async with AsyncClient(url) as client:`.

    Queued answers are sent by a task of the running loop; only `close`, or the end of `async with`, waits for them.
    """

    def _prepare(self, sleep: Callable[[float], Any] | None) -> None:
        self._sleep = sleep or asyncio.sleep
        self._free: dict[str, list[_Streams]] = {}  # idle connections by server name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._delivery: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "AsyncClient":
        """Return this client, which is closed at the end of the block."""
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Close the client."""
        await self.close()

    async def each_board(self, after: str = "") -> AsyncIterator[dict[str, Any]]:
        """Iterate over boards by name, after a given name, requesting pages as needed."""
        following: str | None = after
        while following is not None:
            page = await self._run(self._page(following))
            for board in page["boards"]:
                yield board
            following = page.get("next")

    async def flush(self, seconds: float = _EXIT_SECONDS) -> bool:
        """Wait until all queued answers are sent. Returns whether they are."""
        if self._delivery is not None:
            await asyncio.wait([self._delivery], timeout=seconds)
        return not self.queued

    async def close(self) -> None:
        """Send queued answers, for at most 5 s, and close all connections."""
        await self.flush()
        if self._delivery is not None and self._delivery.cancel():
            await asyncio.wait([self._delivery])
        _say_undelivered(self.queued)
        for streams in self._free.values():
            while streams:
                streams.pop()[1].close()

    async def _run(self, steps: Steps[_T]) -> _T:
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
        address = self._owners.address(step.request)
        async with asyncio.timeout(step.timeout if step.whole else None):
            try:
                return await self._exchange(step, address)
            except (TimeoutError, asyncio.CancelledError, StaleConnection):  # possibly cancelled by the timeout
                self._owners.forget(address)
                raise
            except OSError:
                if not self._owners.forget(address):
                    raise
                return await self._exchange(step, self._address)

    async def _exchange(self, step: Send, address: Address) -> ResponseReader:
        patience = None if step.whole else step.timeout
        response, streams = ResponseReader(step.request.into), self._idle(address)
        reused = streams is not None
        try:
            if streams is None:
                opened = asyncio.open_connection(address.host, address.port, ssl=self._secure)
                streams = await asyncio.wait_for(opened, patience)
            reader, writer = streams
            writer.write(address.encode(step.request))
            await asyncio.wait_for(writer.drain(), patience)
            while not response.feed(await asyncio.wait_for(reader.read(_PIECE), patience)):
                pass
        except BaseException as error:  # the state of this connection is unknown
            if streams is not None:
                streams[1].close()
            if reused and not response.started and isinstance(error, ConnectionError):
                raise StaleConnection(str(error)) from error
            raise
        if response.reusable:
            self._free.setdefault(address.name, []).append(streams)
        else:
            writer.close()
        self._owners.learn(step.request, address, response)
        return response

    def _idle(self, address: Address) -> _Streams | None:
        """An idle connection to a server; connections of a finished loop are dropped."""
        if self._loop is not asyncio.get_running_loop():
            self._loop = asyncio.get_running_loop()
            self._free.clear()
        free = self._free.get(address.name)
        return free.pop() if free else None

    def _start_delivery(self) -> None:
        self._delivery = asyncio.get_running_loop().create_task(self._run(self._deliver()))


def _flush_at_exit(client: "weakref.ref[Client]") -> None:
    living = client()
    if living is not None and living.queued:
        living.flush()
        _say_undelivered(living.queued)


def _say_undelivered(count: int) -> None:
    if count:
        log.warning("%d answers to lists were not delivered: the server was away until the end", count)
