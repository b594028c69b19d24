"""Links: persistent connections on which one worker sends another many lists and answers at a time, in frames.

A link begins with a greeting, which a worker that supports links returns. A worker of an earlier version closes the
connection, and gets its requests over HTTP (`forwarding`), as does an owner that does not answer in time or declines
a request.

A frame is a header of twelve bytes and two parts: for a request, a description (the same bytes for many requests, so
its decoding is cached) and its body; for an answer, its HTTP headers and its content. The header has the status code
of an answer; 0 marks a request, or an answer that declines it.
"""

import asyncio
import contextlib
import functools
import logging
import struct
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from ..worker.ownership import Ownership
from .connections import GREETING, Handler

_HEAD = struct.Struct(">IIHH")  # bytes of the frame, number of the request, code, bytes of the first part
_MOST_ASKED = 1 << 15  # bytes of a request
_MOST_ANSWERED = 1 << 26  # bytes of an answer
_MOST_OPEN = 4_000  # unanswered requests of a link
_AT_ONCE = 16  # requests handled per iteration of the event loop
_CONNECT = 1.0  # seconds
_AGAIN = 1.0  # seconds until a worker that was unreachable or late is retried
_WITHOUT = 30.0  # the same for one that does not support links
_LOOK = 0.05  # seconds between checks for late answers

log = logging.getLogger("steadyrank.service")
Done: TypeAlias = Callable[[int, bytes, bytes], None]  # code, headers as lines, content; code 0: declined


class _Frames:
    """Splits received data into frames."""

    def __init__(self, most: int) -> None:
        self._most, self._data, self._start = most, b"", 0

    def add(self, data: bytes) -> None:
        """Append received data."""
        self._data, self._start = self._data[self._start :] + data, 0

    def clear(self) -> None:
        """Drop data that was not consumed."""
        self._data, self._start = b"", 0

    def first(self) -> tuple[int, int, bytes, bytes] | None:
        """Remove and return the first complete frame: number, code and both parts; None if there is none.

        Raises ValueError for an invalid frame.
        """
        left = len(self._data) - self._start
        if left < _HEAD.size:
            return None
        size, number, code, first = _HEAD.unpack_from(self._data, self._start)
        if not _HEAD.size + first <= size <= self._most:
            raise ValueError(f"a frame of {size} bytes with a part of {first}")
        if left < size:
            return None
        begin = self._start + _HEAD.size
        self._start += size
        return number, code, self._data[begin : begin + first], self._data[begin + first : self._start]


def _frame(number: int, code: int, first: bytes, second: bytes) -> bytes:
    head = _HEAD.pack(_HEAD.size + len(first) + len(second), number, code, len(first))
    return b"".join((head, first, second))


class AnsweringLink:
    """The answering end of a link. `find` returns the handler of a request, or None.

    Reading pauses while requests are queued here, or while the other end does not read answers: anybody who can reach
    this worker can open a link, and send anything.
    """

    def __init__(self, transport: Any, find: Callable[[bytes], Handler | None]) -> None:
        self._transport, self._find, self._frames = transport, find, _Frames(_MOST_ASKED)
        self._open, self._ending = 0, False
        self._reading = self._writable = True  # whether reading is on; whether the other end accepts data
        self._scheduled = False  # whether `_handle_some` will run soon
        transport.write(GREETING)

    def received(self, data: bytes) -> None:
        """Handle received data; invalid frames end the link."""
        self._frames.add(data)
        if not self._scheduled:
            self._handle_some()

    def pause(self) -> None:
        """Stop reading while the other end does not accept data."""
        self._writable = False
        self._read(False)

    def resume(self) -> None:
        """Continue when the other end accepts data again."""
        self._writable = True
        if not self._scheduled:
            self._handle_some()

    def lost(self) -> None:
        """The connection is lost. The sender retries elsewhere, so requests not begun are dropped."""
        self._frames.clear()

    def _handle_some(self) -> None:
        """Handle some queued requests, then let the event loop run before the rest."""
        self._scheduled = False
        for _ in range(_AT_ONCE):
            if not self._writable:
                return
            try:
                frame = self._frames.first()
                if frame is None:
                    self._read(True)
                    return
                number, _, asked, body = frame
                self._open += 1
                handle = self._find(asked) if self._open <= _MOST_OPEN else None
                reply = _Answer(self, number)
                if handle is None or not handle(reply, body):
                    reply.decline()
            except ValueError as error:
                log.warning("a link between workers was ended", extra={"fields": {"why": str(error)}})
                self._frames.clear()
                self._transport.abort()
                return
        self._read(False)
        self._scheduled = True
        asyncio.get_running_loop().call_soon(self._handle_some)

    def _read(self, more: bool) -> None:
        """Resume or pause reading."""
        if more != self._reading and not self._transport.is_closing():
            self._reading = more
            if more:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def send(self, number: int, code: int, lines: bytes, content: bytes) -> None:
        """Answer a request."""
        self._open -= 1
        if not self._transport.is_closing():
            self._transport.write(_frame(number, code, lines, content))
            if self._ending and not self._open:
                self._transport.close()

    def end(self) -> None:
        """Close the link once all requests are answered, since the server stops."""
        self._ending = True
        if not self._open:
            self._transport.close()


class _Answer:
    """The reply to one request of a link."""

    __slots__ = ("_link", "_number")

    def __init__(self, link: AnsweringLink, number: int) -> None:
        self._link, self._number = link, number

    def send(self, code: int, lines: bytes, content: bytes) -> None:
        """Send the answer."""
        self._link.send(self._number, code, lines, content)

    def decline(self) -> None:
        """Decline the request."""
        self.send(0, b"", b"")


class _Pending(NamedTuple):
    """A request that waits for its answer."""

    partition: int
    until: float
    done: Done


class _AskingLink(asyncio.Protocol):
    """The asking end of a link."""

    def __init__(self) -> None:
        self.greeted = asyncio.get_running_loop().create_future()
        self.asked: dict[int, _Pending] = {}
        self.usable = self.lost = False  # connected and the other end accepts data; connection lost
        self.late = 0.0  # when an answer was last given up
        self._number, self._begin, self._frames = 0, b"", _Frames(_MOST_ANSWERED)
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        """Send the greeting."""
        self.transport = transport
        transport.write(GREETING)

    def connection_lost(self, error: Exception | None) -> None:
        """Decline all unanswered requests."""
        self.usable, self.lost = False, True
        if not self.greeted.done():
            self.greeted.set_result(False)
        self.give_up(lambda asked: True)

    def pause_writing(self) -> None:
        """Do not use the link while the other end does not accept data."""
        self.usable = False

    def resume_writing(self) -> None:
        """Use the link again."""
        self.usable = True

    def data_received(self, data: bytes) -> None:
        """Receive the greeting, then answers."""
        try:
            if not self.greeted.done():
                data = self._greet(data)
            self._frames.add(data)
            while (frame := self._frames.first()) is not None:
                number, code, lines, content = frame
                asked = self.asked.pop(number, None)
                if asked is not None:
                    asked.done(code, lines, content)
        except ValueError as error:
            log.warning("a link between workers was ended", extra={"fields": {"why": str(error)}})
            self.transport.abort()

    def _greet(self, data: bytes) -> bytes:
        """Return the data after the greeting, once that is complete."""
        self._begin += data
        if len(self._begin) < len(GREETING):
            return b""
        self.usable = self._begin.startswith(GREETING)
        self.greeted.set_result(self.usable)
        return self._begin[len(GREETING) :] if self.usable else b""

    def ask(self, what: bytes, body: bytes, asked: _Pending) -> None:
        """Send a request."""
        self._number = (self._number + 1) & 0xFFFFFFFF
        self.asked[self._number] = asked
        self.transport.write(_frame(self._number, 0, what, body))

    def give_up(self, late: Callable[[_Pending], bool]) -> None:
        """Decline the requests whose answers are late."""
        for number, asked in list(self.asked.items()):
            if late(asked):
                self.late = time.monotonic()
                del self.asked[number]
                asked.done(0, b"", b"")


class Links:
    """The links of a worker to others, by address; used in the event loop's thread only."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership
        self._links: dict[str, _AskingLink] = {}
        self._tried: dict[str, float] = {}  # when a connection was last attempted
        self._connecting: set[asyncio.Task[None]] = set()
        self._watching: asyncio.TimerHandle | None = None

    def ask(self, name: str, what: bytes, body: bytes, patience: float, done: Callable[..., None]) -> bool:
        """Send a request to the owner of a board. Returns False if there is no usable link now.

        `done` is called with the address, then the arguments of `Done`. The request is declined if the answer takes
        longer than `patience` seconds, or if the board gets another owner meanwhile.
        """
        partition = self._ownership.partition_of(name)
        address = self._ownership.address_of(partition)
        if address is None or address == self._ownership.address:
            return False
        link, now = self._links.get(address), time.monotonic()
        if link is None or link.lost:
            self._connect_soon(address, now)
            return False
        if not link.usable or link.transport.is_closing() or now < link.late + _AGAIN:
            return False
        link.ask(what, body, _Pending(partition, now + patience, functools.partial(done, address)))
        if self._watching is None:
            self._watching = asyncio.get_running_loop().call_later(_LOOK, self._watch)
        return True

    def _watch(self) -> None:
        """Decline requests whose answer is late, or whose partition has another owner."""
        now, self._watching = time.monotonic(), None
        for address, link in list(self._links.items()):
            link.give_up(functools.partial(self._is_late, address, now))
        if any(link.asked for link in self._links.values()):
            self._watching = asyncio.get_running_loop().call_later(_LOOK, self._watch)

    def _is_late(self, address: str, now: float, asked: _Pending) -> bool:
        return now > asked.until or self._ownership.address_of(asked.partition) != address

    def _connect_soon(self, address: str, now: float) -> None:
        if now > self._tried.get(address, 0.0) + _AGAIN:
            self._tried[address] = now
            task = asyncio.get_running_loop().create_task(self._connect(address))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError, TimeoutError):  # requests then go through `forwarding`
            begin = loop.create_connection(_AskingLink, host.strip("[]"), int(port))
            transport, link = await asyncio.wait_for(begin, _CONNECT)
            self._links[address] = link
            if not await link.greeted:
                self._tried[address] = time.monotonic() + _WITHOUT
                transport.close()

    def close(self) -> None:
        """Close all links."""
        for task in self._connecting:
            task.cancel()
        if self._watching is not None:
            self._watching.cancel()
        for link in self._links.values():
            link.transport.abort()
        self._links.clear()
