"""Lists and answers that one worker asks another for: many at a time over one connection, in frames.

A link begins with a greeting, which a worker that knows links returns. One of an earlier version closes the
connection, and is asked over HTTP (`forwarding`). So is an owner that does not answer in time, or leaves a request to
others.

A frame is a head of twelve bytes and two parts. Of a request these are what it asks for, the same bytes again and
again, which are looked at once, and its body; of an answer its headers and its content. The head has the code of an
answer; 0 asks, and answers that the request is left to others.
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
from .connections import GREETING, Take

_HEAD = struct.Struct(">IIHH")  # bytes of the frame, number of the request, code, bytes of the first part
_MOST_ASKED = 1 << 15  # bytes of a request
_MOST_ANSWERED = 1 << 26  # bytes of an answer
_MOST_OPEN = 4_000  # requests of a link that are not answered yet
_AT_ONCE = 16  # of them that are taken in one turn of the event loop
_CONNECT = 1.0  # seconds
_AGAIN = 1.0  # seconds until a worker that was not reached, or was late, is tried again
_WITHOUT = 30.0  # the same for one that knows no links
_LOOK = 0.05  # seconds between looks whether answers are late

log = logging.getLogger("steadyrank.service")
Done: TypeAlias = Callable[[int, bytes, bytes], None]  # code, headers as lines, content; code 0: left to others


class _Frames:
    """Splits what is received into frames."""

    def __init__(self, most: int) -> None:
        self._most, self._data, self._start = most, b"", 0

    def add(self, data: bytes) -> None:
        """Take more in."""
        self._data, self._start = self._data[self._start :] + data, 0

    def clear(self) -> None:
        """Forget what was not taken."""
        self._data, self._start = b"", 0

    def first(self) -> tuple[int, int, bytes, bytes] | None:
        """Number, code and both parts of the first frame, which is taken out; None if there is none as a whole.

        `ValueError` for what is no frame.
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


class AskedLink:
    """The end of a link that answers. `find` gives what takes over what is asked for, None if nothing here does.

    Nothing more is read while anything waits here, or while the other end takes no answers: whoever can reach this
    worker can open a link, and send whatever they like.
    """

    def __init__(self, transport: Any, find: Callable[[bytes], Take | None]) -> None:
        self._transport, self._find, self._frames = transport, find, _Frames(_MOST_ASKED)
        self._open, self._ending = 0, False
        self._reading = self._taken = True  # whether more is read; the other end takes what is written
        self._scheduled = False  # whether more of what waits is looked at soon
        transport.write(GREETING)

    def received(self, data: bytes) -> None:
        """More of what is asked; what are no frames ends the link."""
        self._frames.add(data)
        if not self._scheduled:
            self._take_some()

    def pause(self) -> None:
        """The other end takes nothing at the moment."""
        self._taken = False
        self._read(False)

    def resume(self) -> None:
        """The other end goes on."""
        self._taken = True
        if not self._scheduled:
            self._take_some()

    def lost(self) -> None:
        """The connection is gone: who asked has left to others what was not answered, so it is not begun here."""
        self._frames.clear()

    def _take_some(self) -> None:
        """Take some of what waits, and the rest after what else the event loop has to do."""
        self._scheduled = False
        for _ in range(_AT_ONCE):
            if not self._taken:
                return
            try:
                frame = self._frames.first()
                if frame is None:
                    self._read(True)
                    return
                number, _, asked, body = frame
                self._open += 1
                take = self._find(asked) if self._open <= _MOST_OPEN else None
                reply = _Answer(self, number)
                if take is None or not take(reply, body):
                    reply.leave()
            except ValueError as error:
                log.warning("a link between workers was ended", extra={"fields": {"why": str(error)}})
                self._frames.clear()
                self._transport.abort()
                return
        self._read(False)
        self._scheduled = True
        asyncio.get_running_loop().call_soon(self._take_some)

    def _read(self, more: bool) -> None:
        """Read on, or no more for now."""
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
        """End the link once all is answered: the server ends."""
        self._ending = True
        if not self._open:
            self._transport.close()


class _Answer:
    """What answers one request of a link."""

    __slots__ = ("_link", "_number")

    def __init__(self, link: AskedLink, number: int) -> None:
        self._link, self._number = link, number

    def send(self, code: int, lines: bytes, content: bytes) -> None:
        """The answer."""
        self._link.send(self._number, code, lines, content)

    def leave(self) -> None:
        """Leave the request to others."""
        self.send(0, b"", b"")


class _Asked(NamedTuple):
    """A request that waits for its answer."""

    partition: int
    until: float
    done: Done


class _AskingLink(asyncio.Protocol):
    """The end of a link that asks."""

    def __init__(self) -> None:
        self.greeted = asyncio.get_running_loop().create_future()
        self.asked: dict[int, _Asked] = {}
        self.usable = self.lost = False  # it is there, and the other end takes what is written; it is no more
        self.late = 0.0  # when an answer was given up
        self._number, self._begin, self._frames = 0, b"", _Frames(_MOST_ANSWERED)
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        """Greet the other end."""
        self.transport = transport
        transport.write(GREETING)

    def connection_lost(self, error: Exception | None) -> None:
        """Whatever was not answered is left to others."""
        self.usable, self.lost = False, True
        if not self.greeted.done():
            self.greeted.set_result(False)
        self.give_up(lambda asked: True)

    def pause_writing(self) -> None:
        """The other end takes nothing at the moment."""
        self.usable = False

    def resume_writing(self) -> None:
        """The other end goes on."""
        self.usable = True

    def data_received(self, data: bytes) -> None:
        """A greeting, then answers."""
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
        """What came behind the greeting, once that is there."""
        self._begin += data
        if len(self._begin) < len(GREETING):
            return b""
        self.usable = self._begin.startswith(GREETING)
        self.greeted.set_result(self.usable)
        return self._begin[len(GREETING) :] if self.usable else b""

    def ask(self, what: bytes, body: bytes, asked: _Asked) -> None:
        """Send a request."""
        self._number = (self._number + 1) & 0xFFFFFFFF
        self.asked[self._number] = asked
        self.transport.write(_frame(self._number, 0, what, body))

    def give_up(self, late: Callable[[_Asked], bool]) -> None:
        """Leave those to others whose answers are late."""
        for number, asked in list(self.asked.items()):
            if late(asked):
                self.late = time.monotonic()
                del self.asked[number]
                asked.done(0, b"", b"")


class Links:
    """The links of a worker to others, by address; used in the event loop's thread."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership
        self._links: dict[str, _AskingLink] = {}
        self._tried: dict[str, float] = {}  # when
        self._connecting: set[asyncio.Task[None]] = set()
        self._watching: asyncio.TimerHandle | None = None

    def ask(self, name: str, what: bytes, body: bytes, patience: float, done: Callable[..., None]) -> bool:
        """Ask the owner of a board; False if it cannot be asked by a link now.

        `done` gets its address, then what `Done` takes. The request is left to others if the answer takes longer than
        `patience` seconds, or if the board gets another owner meanwhile.
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
        link.ask(what, body, _Asked(partition, now + patience, functools.partial(done, address)))
        if self._watching is None:
            self._watching = asyncio.get_running_loop().call_later(_LOOK, self._watch)
        return True

    def _watch(self) -> None:
        """Leave to others what was asked too long ago, or of who is no longer the owner."""
        now, self._watching = time.monotonic(), None
        for address, link in list(self._links.items()):
            link.give_up(functools.partial(self._is_late, address, now))
        if any(link.asked for link in self._links.values()):
            self._watching = asyncio.get_running_loop().call_later(_LOOK, self._watch)

    def _is_late(self, address: str, now: float, asked: _Asked) -> bool:
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
        with contextlib.suppress(OSError, TimeoutError):  # then it is asked as `forwarding` does
            begin = loop.create_connection(_AskingLink, host.strip("[]"), int(port))
            transport, link = await asyncio.wait_for(begin, _CONNECT)
            self._links[address] = link
            if not await link.greeted:
                self._tried[address] = time.monotonic() + _WITHOUT
                transport.close()

    def close(self) -> None:
        """End all links."""
        for task in self._connecting:
            task.cancel()
        if self._watching is not None:
            self._watching.cancel()
        for link in self._links.values():
            link.transport.abort()
        self._links.clear()
