"""Connections that cannot cost much: how long a request's head is, how long it takes, and how many there are.

uvicorn's protocol bounds none of these. It joins the parts of an address one by one, which takes time that is
quadratic in its length, and waits for the end of a request for ever; so both are bounded before it sees more.
"""

import asyncio
import contextlib
import ctypes
import functools
import ipaddress
import json
import logging
import resource
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol, TypeAlias

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from .limits import Limits

log = logging.getLogger("steadyrank.service")
ANSWER = "steadyrank.answer"  # an extension of ASGI: `send_whole` of a request
_SLICE = 8_192  # bytes parsed at a time: more of a head than is allowed is never held
_HEADERS = 100  # of a request: each costs some 150 bytes beside its own
_PIPELINED = 1  # requests that wait for an answer before them on a connection
_SMALL, _SHORT = 8_192, 2_048  # bytes of the body, and of address and headers, of a request that may be taken over
_MOST_HEADS = 2_000  # that are kept
_LARGE_PART = 65_536  # bytes
Headers: TypeAlias = list[tuple[bytes, bytes]]
_SPARE_FILES = 128  # for the store, for bodies on the disk, and for what else is open

GREETING = b"steadyrank link 1\r\n\r\n"  # of a worker; the last lines end it for those who take it for HTTP


class Sink(Protocol):
    """What a request is answered by."""

    def send(self, code: int, lines: bytes, content: bytes) -> None:
        """The answer. `lines`: its own headers, without the length of the content."""

    def leave(self) -> None:
        """Leave the request to others after all."""


# answers a request with this body; False if it leaves that to others
Take: TypeAlias = Callable[[Sink, bytes], bool]


class Shortcut(Protocol):
    """What takes requests over that are in memory as a whole, before an application is asked."""

    def find(self, target: bytes, headers: Headers) -> Take | None:
        """What may take over a request; None if nothing does."""

    def link(self, transport: Any) -> "Link | None":
        """What goes on with a connection of another worker; None if there are no others."""


class Link(Protocol):
    """The end of a connection of another worker."""

    def received(self, data: bytes) -> None:
        """More of what it asks."""

    def pause(self) -> None:
        """It takes nothing at the moment."""

    def resume(self) -> None:
        """It goes on."""

    def lost(self) -> None:
        """The connection is gone."""

    def end(self) -> None:
        """End once all is answered."""


class Connections:
    """All connections of a server: of those that wait for their clients, the oldest make room for a new one.

    Who keeps a connection open sends the same heads again and again. So those of requests that the `shortcut` takes
    over are kept: what is the same to the byte is not parsed again.
    """

    def __init__(self, limits: Limits, shortcut: Shortcut | None = None) -> None:
        self.limits, self.shortcut = limits, shortcut
        self.heads: dict[bytes, Head] = {}
        self.all: set[Connection] = set()
        self._by_address: dict[str, set[Connection]] = {}
        self._usual: tuple[Any, bytes] = (None, b"")  # headers of all answers, and these as lines

    def usual_lines(self, headers: Headers) -> bytes:
        """The headers of all answers, which are others once a second, as lines."""
        if self._usual[0] is not headers:
            self._usual = headers, b"".join([b"%b: %b\r\n" % header for header in headers])
        return self._usual[1]

    def protocol(self, **options: Any) -> "Connection":
        """What uvicorn calls for each connection."""
        return Connection(self, **options)

    def enter(self, new: "Connection") -> bool:
        """Take a connection in; False if there is no room for it."""
        near, room = self._by_address.get(new.address, set()), True
        if len(near) >= self.limits.address_connections:
            room = self._make_room(near)
        elif len(self.all) >= self.limits.connections:
            room = self._make_room(self.all)
        if room:
            self.all.add(new)
            self._by_address.setdefault(new.address, set()).add(new)
        return room

    def keep_head(self, data: bytes, head: "Head") -> None:
        """Keep the head of a request that came as a whole, and was taken over."""
        size = data.find(b"\r\n\r\n") + 4
        if len(data) == size + head.size:
            if len(self.heads) >= _MOST_HEADS:
                self.heads.clear()
            self.heads[data[:size]] = head

    @staticmethod
    def _make_room(found: "set[Connection]") -> bool:
        """End those that have waited longest, a sixteenth at once: looking for one at a time would take long."""
        waiting = sorted((one for one in found if one.waits), key=lambda one: one.since)
        for one in waiting[: max(len(found) // 16, 1)]:
            one.end()
        return bool(waiting)

    def leave(self, one: "Connection") -> None:
        """A connection is over."""
        self.all.discard(one)
        near = self._by_address.get(one.address)
        if near is not None:
            near.discard(one)
            if not near:
                del self._by_address[one.address]

    def sweep(self, now: float) -> None:
        """End connections whose time is over; to be called now and then."""
        for one in list(self.all):
            one.look(now)


class Head(NamedTuple):
    """What the head of a request says that may be taken over."""

    take: Take
    target: bytes
    headers: Headers
    size: int  # of the body
    keep_alive: bool

    def request(self, body: bytes) -> bytes:
        """A request with this head."""
        lines = [b"POST %b HTTP/1.1" % self.target, *(b"%b: %b" % header for header in self.headers)]
        lines += [] if self.keep_alive else [b"connection: close"]
        return b"\r\n".join(lines) + b"\r\n\r\n" + body


class Reply:
    """A request that was taken over, to be answered once; it stands where uvicorn has its cycle."""

    __slots__ = (
        "_body",
        "_connection",
        "_head",
        "disconnected",
        "keep_alive",
        "response_complete",
        "response_started",
    )
    message_event = asyncio.Event()  # which uvicorn sets when the client is gone: nobody waits for it

    def __init__(self, connection: "Connection", head: Head, body: bytes) -> None:
        self._connection, self._head, self._body, self.keep_alive = connection, head, body, head.keep_alive
        self.response_started = self.response_complete = self.disconnected = False

    def send(self, code: int, lines: bytes, content: bytes) -> None:
        """The answer. `lines`: its own headers, without the length of the content."""
        self.response_started = self.response_complete = True
        if not self.disconnected:
            self._connection.write_answer(code, lines, content, self.keep_alive)
            self._connection.on_response_complete()

    def leave(self) -> None:
        """Leave the request to the application after all."""
        if self.disconnected:
            self.response_complete = True
        elif self._connection.is_latest(self):
            self.response_complete = True
            self._connection.begin_again(self._head.request(self._body))
        else:  # the client did not wait for the answer, and has sent another request
            self.send(503, b"content-type: application/json\r\nretry-after: 1\r\n", _MOVED)


class Connection(HttpToolsProtocol):
    """uvicorn's protocol within limits; what it makes for a request, it makes only where nobody takes it over."""

    def __init__(self, others: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._others, self._limits = others, others.limits
        self.address = ""
        self.waits, self.since = True, time.monotonic()  # for its client, from when on
        self._head = 0  # bytes of a head that is not complete
        self._named = 0  # bytes of its address and headers that were parsed
        self._between = True  # before the first byte of a request
        self._reading = False  # a request has begun and is not complete
        self._deadline: float | None = None
        self._stuck: float | None = None  # since when the client takes nothing of an answer
        self._refusal: HTTPStatus | None = None
        self._taking: Head | None = None  # of a request that may be taken over
        self._whole = b""  # as much as there is of its body
        self._taken: Head | None = None  # of one that was
        self._taking_over = True  # whether any may be
        self._link: Link | None = None  # what goes on with it, if another worker has made it

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it in, or end it at once."""
        super().connection_made(transport)
        self.address = network(self.client[0] if self.client else "")
        self._deadline = self.since + self._limits.first_byte_seconds
        if not self._others.enter(self):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it; what is still parsed or queued of it, too."""
        self._others.leave(self)
        self.pipeline.clear()
        if self._link is not None:
            self._link.lost()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse a part at a time, as long as it is within the limits."""
        if self._link is not None:
            self._go_on_with_link(data)
            return
        first = self._between and not self._reading
        if first:
            if self._take_known(data) or self._is_greeted(data):
                return
            self._between = False
            self._reading = True
            self._deadline = time.monotonic() + self._limits.request_seconds
        self._taken = None
        for start in range(0, len(data), _SLICE):
            if self.transport.is_closing() or self.parser is None:
                return
            part = data[start : start + _SLICE] if len(data) > _SLICE else data
            self._head += len(part)
            try:
                self.parser.feed_data(part)
            except httptools.HttpParserUpgrade:  # not taken up; nothing more is parsed
                if self.cycle is not None:
                    self.cycle.keep_alive = False
                return
            except httptools.HttpParserError as error:
                self._refuse(self._refusal or _status_of(error))
                return
            if self._head > self._limits.head_bytes:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if first and self._taken is not None:
            self._others.keep_head(data, self._taken)

    def on_message_begin(self) -> None:
        """A request begins, maybe in the middle of what was received."""
        self.url, self.headers, self.expect_100_continue = b"", [], False
        self._named = 0
        if not self._reading:
            self._reading = True
            self._deadline = time.monotonic() + self._limits.request_seconds

    def on_url(self, url: bytes) -> None:
        """A part of the address."""
        self.url += url
        if len(self.url) > self._limits.url_bytes:
            self._stop(HTTPStatus.REQUEST_URI_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self._named += len(name) + len(value)
        if len(self.headers) >= _HEADERS or self._named > self._limits.head_bytes:
            self._stop(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The body begins, if there is one."""
        self._head = 0
        if len(self.pipeline) >= _PIPELINED:
            self._stop(HTTPStatus.TOO_MANY_REQUESTS)
        self.waits = False
        self._taking, self._whole = self._to_be_taken(), b""
        if self._taking is None:
            self._begin_cycle()

    def _to_be_taken(self) -> Head | None:
        """The head that was parsed, if the request is a small one that may be taken over; else None."""
        parser, shortcut = self.parser, self._others.shortcut
        if shortcut is None or not self._taking_over or not self._is_free():
            return None
        if self._named + len(self.url) > _SHORT:
            return None
        if parser.get_method() != b"POST" or parser.should_upgrade():
            return None
        size = b""
        for name, value in self.headers:
            if name == b"content-length":
                size = value
            elif name == b"expect":
                return None
        if not (size.isdigit() and len(size) < 9 and int(size) <= _SMALL):
            return None
        take = shortcut.find(self.url, self.headers)
        keep_alive = parser.get_http_version() != "1.0" and parser.should_keep_alive()
        return None if take is None else Head(take, self.url, self.headers, int(size), keep_alive)

    def _is_free(self) -> bool:
        """Whether no request before waits for its answer, or its client for the answer to be taken."""
        return (self.cycle is None or self.cycle.response_complete) and not self.flow.write_paused

    def _take_known(self, data: bytes) -> bool:
        """Take over a request that is there as a whole, if its head came before; whether it was."""
        size = data.find(b"\r\n\r\n") + 4
        head = self._others.heads.get(data[:size])
        if head is None or len(data) != size + head.size or not self._is_free() or self.transport.is_closing():
            return False
        self.waits, self._deadline = False, None
        return self._take(head, data[size:])

    def _take(self, head: Head, body: bytes) -> bool:
        """Have a request answered, whose body is there; False if that is left to others."""
        before, reply = self.cycle, Reply(self, head, body)
        self.cycle = reply  # type: ignore[assignment]
        taken = head.take(reply, body)
        if not taken:
            self.cycle = before
        return taken

    def is_latest(self, reply: Reply) -> bool:
        """Whether nothing came after the request that this answers."""
        return self.cycle is reply and not self._reading  # type: ignore[comparison-overlap]

    def begin_again(self, request: bytes) -> None:
        """Have the application deal with a request that was taken over."""
        self._taking_over = False
        self.parser.feed_data(request)
        self._taking_over = True

    def _is_greeted(self, data: bytes) -> bool:
        """Whether another worker has made this connection, or who can say what one says."""
        if self.cycle is not None or not data.startswith(GREETING) or self._others.shortcut is None:
            return False
        self._link = self._others.shortcut.link(self.transport)
        if self._link is None:
            return False
        self._go_on_with_link(data[len(GREETING) :])
        return True

    def _go_on_with_link(self, data: bytes) -> None:
        """More of what is asked by a link. Like any connection it ends when nothing has come for a while, and makes
        room where there are too many; what was not answered then is asked over HTTP.
        """
        assert self._link is not None
        self._between = self.waits = True
        self.since = time.monotonic()
        self._deadline = self.since + self.timeout_keep_alive
        self._link.received(data)

    def shutdown(self) -> None:
        """The server ends: once what was asked for is answered, this does."""
        if self._link is None:
            super().shutdown()
        else:
            self._link.end()

    def _begin_cycle(self) -> None:
        """Have uvicorn deal with the request whose head is there."""
        url, headers = self.url, self.headers
        super().on_message_begin()
        self.url = url
        for name, value in headers:
            super().on_header(name, value)
        super().on_headers_complete()
        if self.scope["method"] == "POST":
            at_once: Any = functools.partial(send_whole, self, self.cycle)
            self.scope["extensions"] = {ANSWER: at_once}

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._head = 0
        if self._taking is None:
            super().on_body(body)
        else:
            self._whole += body

    def on_message_complete(self) -> None:
        """The request is there: from here on it is the server that takes its time."""
        self._head, self._reading, self._deadline = 0, False, None
        head, body = self._taking, self._whole
        if head is not None:
            self._taking, self._whole = None, b""
            if self._take(head, body):
                self._taken = head
                return
            self._begin_cycle()
            super().on_body(body)
        super().on_message_complete()
        self._rest()

    def write_answer(self, code: int, lines: bytes, content: bytes, keep_alive: bool) -> None:
        """Write a whole answer at once, if the client is there."""
        if self.transport.is_closing():
            return
        usual = self._others.usual_lines(self.server_state.default_headers)
        last = b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
        size = b"content-length: %d\r\n" % len(content)
        self.transport.write(b"".join((STATUS_LINE[code], usual, lines, size, last, content)))
        if not keep_alive:
            self.transport.close()

    def on_response_complete(self) -> None:
        """The answer is sent. uvicorn's own begins a timer each time: here `look` ends what waits for too long."""
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())
        self._rest()

    def _rest(self) -> None:
        """Between two requests the connection waits for its client."""
        if not self._reading and not self.pipeline and self.cycle.response_complete:
            self._between = self.waits = True
            self.since = time.monotonic()
            self._deadline = self.since + self.timeout_keep_alive

    def pause_writing(self) -> None:
        """The client takes nothing at the moment."""
        self._stuck = time.monotonic()
        if self._link is not None:
            self._link.pause()
        super().pause_writing()

    def resume_writing(self) -> None:
        """The client goes on."""
        self._stuck = None
        if self._link is not None:
            self._link.resume()
        super().resume_writing()

    def look(self, now: float) -> None:
        """End it if its time is over."""
        if self.transport.is_closing():
            self.transport.abort()  # it was told, and takes nothing
        elif self._stuck is not None and now > self._stuck + self._limits.request_seconds:
            self.transport.abort()
        elif self._deadline is not None and now > self._deadline:
            if self._between:
                self.transport.close()
            else:
                self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    def end(self) -> None:
        """Close it: there are too many."""
        self._others.leave(self)
        self.transport.abort()

    def _stop(self, status: HTTPStatus) -> None:
        """End parsing from inside of it."""
        self._refusal = status
        raise ValueError(status.phrase)

    def _refuse(self, status: HTTPStatus) -> None:
        """Say why, unless an answer is on its way, and close."""
        if self.transport.is_closing():
            return
        busy = self.cycle is not None and not self.cycle.response_complete and self.cycle.response_started
        if not busy:
            content = json.dumps({"code": int(status), "message": _MESSAGES[status]}).encode()
            head = f"HTTP/1.1 {int(status)} {status.phrase}\r\ncontent-type: application/json\r\n"
            head += f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
            self.transport.write(head.encode() + content)
        self.transport.close()


def send_whole(connection: Connection, cycle: RequestResponseCycle, code: int, lines: bytes, content: bytes) -> bool:
    """Send the whole answer to a request in one write; False if that has to wait, and nothing was sent.

    `lines`: headers of its own, without the length of the content. By ASGI's messages an answer takes two writes, and
    twice the time.
    """
    if cycle.flow.write_paused or cycle.disconnected or cycle.response_started:
        return False
    cycle.response_started = cycle.response_complete = True
    cycle.message_event.set()
    connection.write_answer(code, lines, content, cycle.keep_alive)
    cycle.on_response()
    return True


def _status_of(error: httptools.HttpParserError) -> HTTPStatus:
    """What who sent a request is told that could not be parsed, or was parsed and made a part of ours fail."""
    cause = error.__context__
    if cause is None or isinstance(cause, httptools.HttpParserError | UnicodeDecodeError):
        return HTTPStatus.BAD_REQUEST
    log.error("a request failed", exc_info=cause)
    return HTTPStatus.INTERNAL_SERVER_ERROR


_MOVED = json.dumps({"code": 503, "message": "the board is moving to another worker: try again"}).encode()
_MESSAGES = {
    HTTPStatus.BAD_REQUEST: "this is no HTTP request",
    HTTPStatus.REQUEST_TIMEOUT: "the request took too long to arrive",
    HTTPStatus.REQUEST_URI_TOO_LONG: "the address of the request is too long",
    HTTPStatus.TOO_MANY_REQUESTS: "too many requests were sent ahead on one connection",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "the headers of the request are too many or too long",
    HTTPStatus.INTERNAL_SERVER_ERROR: "an error of the server; its log says more",
    HTTPStatus.SERVICE_UNAVAILABLE: "too many connections",
}


def network(address: str) -> str:
    """What counts as one address: an IPv6 client has 64 bits of them to itself."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if ip.version == 4:
        return address
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip, 64), strict=False))


def return_memory() -> None:
    """Have what is received in large parts given back to the system when it is freed, where malloc is glibc's.

    By itself it takes such parts from among small ones once some were freed, and holes are left between these: 57 to
    83 KiB a connection were measured where 28 are used. mallopt(3): -3 is M_MMAP_THRESHOLD, -1 M_TRIM_THRESHOLD.
    """
    with contextlib.suppress(OSError, AttributeError):
        malloc = ctypes.CDLL(None)
        malloc.mallopt(-3, _LARGE_PART)
        malloc.mallopt(-1, 2 * _LARGE_PART)


def allow_files(limits: Limits) -> Limits:
    """Let this process open as many files as the limits need, or make them as small as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = limits.connections + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return limits
    most = max(soft - _SPARE_FILES, 8)
    log.warning("fewer connections", extra={"fields": {"most": most, "why": "the limit of open files"}})
    return limits._replace(connections=most)
