"""Forward requests for boards of other workers, over persistent HTTP connections.

A request is forwarded unchanged, with its headers: the owner authorizes it. It is forwarded only once: a worker that
gets a forwarded request for a board that it does not own answers 421, and the first worker tries the new owner. So
requests wait for a moment while the partition of their board moves.
"""

import asyncio
import collections
import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import httptools
from starlette.types import Message, Receive, Scope, Send

from ...core.refusals import Refused
from ..storage import Unavailable
from ..tracing import with_trace_context
from ..worker.ownership import Ownership
from ..worker.worker import Worker
from .auth import read_headers
from .bodies import Bodies, SpooledBody

MISDIRECTED = 421  # answer to a forwarded request by a worker that does not own the board
OWNER = b"steadyrank-owner"  # header of forwarded answers: HOST:PORT of the worker that answered
_HOP = b"x-steadyrank-hop"
_OF_A_CONNECTION = frozenset(
    (
        b"connection",
        b"content-length",
        b"date",
        b"expect",
        b"keep-alive",
        b"te",
        b"transfer-encoding",
        b"upgrade",
        _HOP,
    )
)
PATIENCE = 1.5  # seconds to wait for a board that is moving
_AGAIN = 0.05  # seconds between attempts to find it
_CONNECT = 1.0  # seconds
_LOOK = 0.25  # seconds between checks whether the other worker is alive, and still the owner
_ANSWER = 600.0  # seconds until a live worker counts as stuck: a change of learner replays a whole log
_IDLE = 60.0  # seconds after which a connection is not reused: the other end closes it after 75
_MOST_READ = 1 << 20  # bytes of an answer buffered for sending
_PART = 1 << 18  # bytes of a body sent at a time
_NOBODY = "the board is moving to another worker: try again"
T = TypeVar("T")


def is_forwarded(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether another worker sent a request."""
    return any(name == _HOP for name, _ in headers)


class NotReached(Exception):
    """No worker answered at an address. `sent`: it may have received the request."""

    def __init__(self, sent: bool) -> None:
        self.sent = sent
        super().__init__("a worker that owns the board cannot be reached")


class Reply:
    """The answer of another worker, read in parts."""

    def __init__(self, connection: "_Connection", code: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._connection, self.code, self.headers = connection, code, headers

    async def part(self) -> bytes:
        """The next part of the body; empty at its end. Raises NotReached if the other worker is dead."""
        return await self._connection.part()

    async def body(self) -> bytes:
        """Read the whole body."""
        parts = []
        while part := await self.part():
            parts.append(part)
        return b"".join(parts)


class _Connection(asyncio.Protocol):
    """A connection to another worker, for one request at a time; `alive` tells whether that worker is."""

    def __init__(self, done: Callable[["_Connection"], None], alive: Callable[[], bool]) -> None:
        self._done, self._alive = done, alive
        self.idle_since = 0.0
        self._transport: Any = None
        self._head: asyncio.Future[Reply] | None = None
        self._more: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._parts: collections.deque[bytes] = collections.deque()
        self._size, self._complete, self.closed, self._keep = 0, True, False, True
        self._headers: list[tuple[bytes, bytes]] = []
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: Any) -> None:
        """The connection is open."""
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """Tell everybody who waits that the connection is lost."""
        self.closed = True
        if self._head is not None and not self._head.done():
            self._head.set_exception(NotReached(sent=True))
            self._head.exception()  # the caller may have gone
        for waiting in (self._more, self._writable):
            if waiting is not None and not waiting.done():
                waiting.set_result(None)

    def pause_writing(self) -> None:
        """The other end does not accept data."""
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """The other end accepts data again."""
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Parse a part of an answer."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header was parsed."""
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The headers are complete; a body may follow."""
        self._keep = self._parser.should_keep_alive()
        if self._head is not None and not self._head.done():
            self._head.set_result(Reply(self, self._parser.get_status_code(), self._headers))

    def on_body(self, body: bytes) -> None:
        """Queue a part of the body."""
        self._parts.append(body)
        self._size += len(body)
        if self._size > _MOST_READ:
            self._transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        """The answer is complete."""
        self._complete = True
        self._wake()

    def _wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    async def ask(self, head: bytes, body: bytes | SpooledBody) -> "asyncio.Future[Reply]":
        """Send a request; returns a future of its answer."""
        if self._transport.is_closing():  # `connection_lost` will follow
            raise NotReached(sent=False)
        self._head = asyncio.get_running_loop().create_future()
        self._headers, self._complete = [], False
        if isinstance(body, bytes):
            self._transport.write(head + body)
            return self._head
        self._transport.write(head)
        body.file.seek(0)
        while not self.closed and (part := body.file.read(_PART)):
            self._transport.write(part)
            if self._writable is not None:
                await self._wait(self._writable)
                self._writable = None
        return self._head

    async def _wait(self, waiting: "asyncio.Future[None]") -> None:
        """Wait for the other end while it is alive."""
        end = time.monotonic() + _ANSWER
        while not waiting.done():
            await asyncio.wait([waiting], timeout=_LOOK)
            if not waiting.done() and not (self._alive() and time.monotonic() < end):
                self.close()
                raise NotReached(sent=True)

    async def part(self) -> bytes:
        """The next part of the body; empty at its end, where the connection becomes idle and reusable."""
        while not self._parts and not self._complete:
            if self.closed:
                raise NotReached(sent=True)
            self._more = asyncio.get_running_loop().create_future()
            await self._wait(self._more)
        if self._parts:
            part = self._parts.popleft()
            self._size -= len(part)
            if self._size <= _MOST_READ:
                self._transport.resume_reading()
            return part
        if not self._keep:
            self.close()
        self._done(self)
        return b""

    def close(self) -> None:
        """Close the connection."""
        self.closed = True
        self._transport.abort()


class Peers:
    """Connections to other workers, by address; `alive` tells whether a live worker has an address."""

    def __init__(self, alive: Callable[[str], bool]) -> None:
        self._alive = alive
        self._idle: dict[str, list[_Connection]] = {}

    async def ask(
        self,
        address: str,
        method: str,
        target: bytes,
        headers: Iterable[tuple[bytes, bytes]],
        body: bytes | SpooledBody = b"",
        still: Callable[[], bool] | None = None,
    ) -> Reply:
        """Send a request to another worker; returns its answer as soon as the headers are there.

        It is given up when `still` returns False; by default when the worker is no longer alive.
        """
        end = time.monotonic() + _ANSWER
        still = still or (lambda: self._alive(address) and time.monotonic() < end)
        size = len(body) if isinstance(body, bytes) else body.size
        lines = [b"%b %b HTTP/1.1" % (method.encode(), target), _HOP + b": 1", b"content-length: %d" % size]
        lines += [b"%b: %b" % header for header in with_trace_context(headers) if header[0] not in _OF_A_CONNECTION]
        connection = await self._connection(address)
        try:
            waiting = await connection.ask(b"\r\n".join(lines) + b"\r\n\r\n", body)
            while not waiting.done():
                await asyncio.wait([waiting], timeout=_LOOK)
                if not waiting.done() and not still():
                    raise NotReached(sent=True)
            return waiting.result()
        except BaseException:
            connection.close()
            raise

    async def _connection(self, address: str) -> _Connection:
        idle, now = self._idle.setdefault(address, []), time.monotonic()
        while idle:
            connection = idle.pop()
            if not connection.closed and now < connection.idle_since + _IDLE:
                return connection
            connection.close()
        host, _, port = address.rpartition(":")

        def done(connection: _Connection) -> None:
            if not connection.closed:
                connection.idle_since = time.monotonic()
                idle.append(connection)

        alive = functools.partial(self._alive, address)
        make = functools.partial(_Connection, done, alive)
        begin = asyncio.get_running_loop().create_connection(make, host.strip("[]"), int(port))
        try:
            _, made = await asyncio.wait_for(begin, _CONNECT)
        except (OSError, TimeoutError) as error:
            raise NotReached(sent=False) from error
        return made

    def close(self) -> None:
        """Close all idle connections."""
        for idle in self._idle.values():
            while idle:
                idle.pop().close()


class OtherWorkers:
    """Sends parts of a request about several boards to other workers, with the headers of its sender."""

    def __init__(self, worker: Worker, peers: Peers, headers: list[tuple[bytes, bytes]]) -> None:
        assert worker.ownership is not None
        self._worker, self._ownership, self._peers, self._headers = worker, worker.ownership, peers, headers

    def others(self) -> list[str]:
        """The addresses of all other workers."""
        return self._ownership.others()

    def by_owner(self, rows: Sequence[T], board: Callable[[T], str]) -> dict[str | None, list[T]]:
        """Group rows by the address of the owner of their board: None is this worker, and empty means no owner."""
        by_address: dict[str | None, list[T]] = {}
        places: dict[str, str | None] = {}
        for row in rows:
            name = board(row)
            if name not in places:
                partition = self._ownership.partition_of(name)
                here = partition in self._worker.served
                places[name] = None if here else self._ownership.address_of(partition) or ""
            by_address.setdefault(places[name], []).append(row)
        return by_address

    async def ask(self, address: str, method: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
        """Status code and content of another worker's answer. Raises Unavailable if it cannot be reached."""
        if not address or address == self._ownership.address:
            raise Unavailable(_NOBODY)
        try:
            reply = await self._peers.ask(address, method, target.encode(), self._headers, body)
            return reply.code, await reply.body()
        except NotReached as error:
            self._ownership.renew_soon()
            raise Unavailable(str(error)) from None


class _Request(NamedTuple):
    """A request to forward; arguments of `Forwarder.forward`."""

    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes | SpooledBody
    repeatable: bool
    public: bool


class Forwarder:
    """Forwards requests to the workers that own their boards."""

    def __init__(self, worker: Worker, bodies: Bodies) -> None:
        self._worker, self._bodies, self.peers = worker, bodies, Peers(self._is_alive)

    def _is_alive(self, address: str) -> bool:
        ownership = self._worker.ownership
        return ownership is not None and address in ownership.others()

    def other_workers(self, headers: list[tuple[bytes, bytes]]) -> OtherWorkers | None:
        """Return what sends parts of a request to other workers; None if there are none, or one of them sent it."""
        if self._worker.ownership is None or is_forwarded(headers):
            return None
        return OtherWorkers(self._worker, self.peers, list(headers))

    async def forward(
        self,
        board: str,
        scope: Scope,
        receive: Receive,
        send: Send,
        most: int,
        repeatable: bool,
        public: bool,
        patience: float = PATIENCE,
        answer: float = _ANSWER,
    ) -> "int | Receive":
        """Have the owner of a board answer a request; returns the status code.

        If this worker has become the owner, it returns the body instead, to be received again. `repeatable`: the
        request may be repeated if it is unknown whether it was processed. `public`: anybody may have sent it, so the
        answer does not tell the address of the owner in a header. `patience`: seconds to wait for a board that is
        moving; `answer`: seconds until an owner that does not answer counts as dead.
        """
        ownership, headers = self._worker.ownership, list(scope["headers"])
        assert ownership is not None
        partition, end = ownership.partition_of(board), time.monotonic() + patience
        if is_forwarded(headers):
            ownership.renew_soon()
            raise Refused(MISDIRECTED, "another worker owns the board")
        body = await self._bodies.receive(receive, read_headers(headers), most)
        query = scope["query_string"]
        target = (scope.get("raw_path") or scope["path"].encode()) + (b"?" + query if query else b"")
        request = _Request(scope["method"], target, headers, body, repeatable, public)
        with contextlib.nullcontext() if isinstance(body, bytes) else body:
            while True:
                if partition in self._worker.served:
                    return replayed(body if isinstance(body, bytes) else body.read())
                address = ownership.address_of(partition)
                if address is not None and address != ownership.address:
                    still = functools.partial(_still_owned, ownership, partition, address, time.monotonic() + answer)
                    code = await self._ask_owner(address, request, still, send)
                    if code != MISDIRECTED:
                        return code
                ownership.renew_soon()
                if time.monotonic() > end:
                    raise Unavailable(_NOBODY)
                await ownership.wait_for_change(_AGAIN)

    async def _ask_owner(self, address: str, request: _Request, still: Callable[[], bool], send: Send) -> int:
        """Ask one worker; returns 421 if it does not own the board or was not reached."""
        try:
            reply = await self.peers.ask(address, *request[:4], still)
            part = await reply.part()
        except NotReached as error:
            if error.sent and not request.repeatable:
                raise Unavailable(str(error)) from None
            return MISDIRECTED
        if reply.code == MISDIRECTED:
            while part:
                part = await reply.part()
            return MISDIRECTED
        headers = [] if request.public else [(OWNER, address.encode())]
        headers += [one for one in reply.headers if one[0] == b"content-length" or one[0] not in _OF_A_CONNECTION]
        await send({"type": "http.response.start", "status": reply.code, "headers": headers})
        while following := await reply.part() if part else b"":
            await send({"type": "http.response.body", "body": part, "more_body": True})
            part = following
        await send({"type": "http.response.body", "body": part})
        return reply.code


def _still_owned(ownership: Ownership, partition: int, address: str, until: float) -> bool:
    """Return whether a partition is still served at an address and the time is not up."""
    return ownership.address_of(partition) == address and time.monotonic() < until


def replayed(body: bytes) -> Receive:
    """A `receive` function that delivers a body again."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
