"""Connections with limits on the size of a request's head, on its duration, and on the number of connections.

uvicorn's protocol limits none of these. It joins the parts of a URL one by one, which takes time quadratic in its
length, and waits for the end of a request for ever; so both are limited before it sees more.
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
ANSWER = "steadyrank.answer"  # ASGI extension: `send_whole` of a request
_SLICE = 8_192  # bytes parsed at a time, so that an oversized head is never buffered
_HEADERS = 100  # per request; each costs about 150 bytes besides its content
_PIPELINED = 1  # queued requests per connection behind the one being answered
_SMALL, _SHORT = 8_192, 2_048  # maximal bytes of body, and of URL with headers, on the fast path
_MOST_HEADS = 2_000  # cached heads
_LARGE_PART = 65_536  # bytes
Headers: TypeAlias = list[tuple[bytes, bytes]]
_SPARE_FILES = 128  # reserved for the store, for spooled bodies, and for other open files

# first bytes of another worker's link; the final lines end it for servers that take it for HTTP
GREETING = b"steadyrank link 1\r\n\r\n"


class Sink(Protocol):
    """Where the answer to a request goes."""

    def send(self, code: int, lines: bytes, content: bytes) -> None:
        """Send the answer. `lines`: its own headers, without content-length."""

    def decline(self) -> None:
        """Decline the request, so that the normal route handles it after all."""


# answers a request with this body; returns False if the normal route should handle it
Handler: TypeAlias = Callable[[Sink, bytes], bool]


class FastPath(Protocol):
    """Handles a request that is completely in memory, bypassing the ASGI application."""

    def find(self, target: bytes, headers: Headers) -> Handler | None:
        """Return a handler for a request; None if there is none."""

    def link(self, transport: Any) -> "Link | None":
        """Return a handler for a connection of another worker; None if there are no other workers."""


class Link(Protocol):
    """The answering end of another worker's connection."""

    def received(self, data: bytes) -> None:
        """Handle received data."""

    def pause(self) -> None:
        """The other end does not accept data."""

    def resume(self) -> None:
        """The other end accepts data again."""

    def lost(self) -> None:
        """The connection is lost."""

    def end(self) -> None:
        """Close once all requests are answered."""


class Connections:
    """All connections of a server; when there are too many, those idle for longest are closed.

    A persistent client sends the same heads again and again. So heads of requests on the fast path are cached: an
    identical one is not parsed again.
    """

    def __init__(self, limits: Limits, fast_path: FastPath | None = None) -> None:
        self.limits, self.fast_path = limits, fast_path
        self.heads: dict[bytes, Head] = {}
        self.all: set[Connection] = set()
        self._by_address: dict[str, set[Connection]] = {}
        self._usual: tuple[Any, bytes] = (None, b"")  # the common headers of all answers, and the same encoded

    def usual_lines(self, headers: Headers) -> bytes:
        """The common headers of all answers, encoded; they change once a second."""
        if self._usual[0] is not headers:
            self._usual = headers, b"".join([b"%b: %b\r\n" % header for header in headers])
        return self._usual[1]

    def protocol(self, **options: Any) -> "Connection":
        """Create a connection; called by uvicorn."""
        return Connection(self, **options)

    def register(self, new: "Connection") -> bool:
        """Register a connection; returns False if there is no room for it."""
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
        """Cache the head of a complete request that was handled on the fast path."""
        size = data.find(b"\r\n\r\n") + 4
        if len(data) == size + head.size:
            if len(self.heads) >= _MOST_HEADS:
                self.heads.clear()
            self.heads[data[:size]] = head

    @staticmethod
    def _make_room(found: "set[Connection]") -> bool:
        """Close the connections that have been idle for longest, a sixteenth at a time, since sorting takes long."""
        waiting = sorted((one for one in found if one.idle), key=lambda one: one.idle_since)
        for one in waiting[: max(len(found) // 16, 1)]:
            one.end()
        return bool(waiting)

    def unregister(self, one: "Connection") -> None:
        """Remove a closed connection."""
        self.all.discard(one)
        near = self._by_address.get(one.address)
        if near is not None:
            near.discard(one)
            if not near:
                del self._by_address[one.address]

    def sweep(self, now: float) -> None:
        """Close connections that have timed out; call it regularly."""
        for one in list(self.all):
            one.check_timeouts(now)


class Head(NamedTuple):
    """The parsed head of a request on the fast path."""

    handle: Handler
    target: bytes
    headers: Headers
    size: int  # of the body
    keep_alive: bool

    def request(self, body: bytes) -> bytes:
        """Rebuild a request with this head."""
        lines = [b"POST %b HTTP/1.1" % self.target, *(b"%b: %b" % header for header in self.headers)]
        lines += [] if self.keep_alive else [b"connection: close"]
        return b"\r\n".join(lines) + b"\r\n\r\n" + body


class Reply:
    """A request on the fast path, to be answered once; takes the place of uvicorn's request cycle."""

    __slots__ = (
        "_body",
        "_connection",
        "_head",
        "disconnected",
        "keep_alive",
        "response_complete",
        "response_started",
    )
    message_event = asyncio.Event()  # set by uvicorn when the client disconnects; nobody waits for it

    def __init__(self, connection: "Connection", head: Head, body: bytes) -> None:
        self._connection, self._head, self._body, self.keep_alive = connection, head, body, head.keep_alive
        self.response_started = self.response_complete = self.disconnected = False

    def send(self, code: int, lines: bytes, content: bytes) -> None:
        """Send the answer. `lines`: its own headers, without content-length."""
        self.response_started = self.response_complete = True
        if not self.disconnected:
            self._connection.write_answer(code, lines, content, self.keep_alive)
            self._connection.on_response_complete()

    def decline(self) -> None:
        """Let the application handle the request after all."""
        if self.disconnected:
            self.response_complete = True
        elif self._connection.is_latest(self):
            self.response_complete = True
            self._connection.fall_back(self._head.request(self._body))
        else:  # the client sent another request without waiting for the answer
            self.send(503, b"content-type: application/json\r\nretry-after: 1\r\n", _MOVED)


class Connection(HttpToolsProtocol):
    """uvicorn's protocol with limits, creating its objects only for requests that are not on the fast path."""

    def __init__(self, others: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._others, self._limits = others, others.limits
        self.address = ""
        self.idle, self.idle_since = True, time.monotonic()  # for its client; since when
        self._head = 0  # bytes of an incomplete head
        self._named = 0  # parsed bytes of its URL and headers
        self._between = True  # no byte of the next request has come
        self._reading = False  # a request has begun and is incomplete
        self._deadline: float | None = None
        self._blocked_since: float | None = None  # since when the client has not accepted data
        self._refusal: HTTPStatus | None = None
        self._pending_head: Head | None = None  # of a request that may take the fast path
        self._pending_body = b""  # its body so far
        self._handled_head: Head | None = None  # of a request that took the fast path
        self._fast_path_on = True  # whether the fast path is enabled
        self._link: Link | None = None  # set if another worker has opened the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Register the connection, or close it if there are too many."""
        super().connection_made(transport)
        self.address = network(self.client[0] if self.client else "")
        self._deadline = self.idle_since + self._limits.first_byte_seconds
        if not self._others.register(self):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Unregister the connection, and drop what is queued."""
        self._others.unregister(self)
        self.pipeline.clear()
        if self._link is not None:
            self._link.lost()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data in slices while it is within the limits."""
        if self._link is not None:
            self._go_on_with_link(data)
            return
        first = self._between and not self._reading
        if first:
            if self._handle_known(data) or self._is_greeted(data):
                return
            self._between = False
            self._reading = True
            self._deadline = time.monotonic() + self._limits.request_seconds
        self._handled_head = None
        for start in range(0, len(data), _SLICE):
            if self.transport.is_closing() or self.parser is None:
                return
            part = data[start : start + _SLICE] if len(data) > _SLICE else data
            self._head += len(part)
            try:
                self.parser.feed_data(part)
            except httptools.HttpParserUpgrade:  # upgrades are not supported; nothing more is parsed
                if self.cycle is not None:
                    self.cycle.keep_alive = False
                return
            except httptools.HttpParserError as error:
                self._refuse(self._refusal or _status_of(error))
                return
            if self._head > self._limits.head_bytes:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if first and self._handled_head is not None:
            self._others.keep_head(data, self._handled_head)

    def on_message_begin(self) -> None:
        """A request begins, possibly in the middle of the received data."""
        self.url, self.headers, self.expect_100_continue = b"", [], False
        self._named = 0
        if not self._reading:
            self._reading = True
            self._deadline = time.monotonic() + self._limits.request_seconds

    def on_url(self, url: bytes) -> None:
        """A part of the URL was parsed."""
        self.url += url
        if len(self.url) > self._limits.url_bytes:
            self._abort_parsing(HTTPStatus.REQUEST_URI_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header was parsed."""
        self._named += len(name) + len(value)
        if len(self.headers) >= _HEADERS or self._named > self._limits.head_bytes:
            self._abort_parsing(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The headers are complete; a body may follow."""
        self._head = 0
        if len(self.pipeline) >= _PIPELINED:
            self._abort_parsing(HTTPStatus.TOO_MANY_REQUESTS)
        self.idle = False
        self._pending_head, self._pending_body = self._fast_path_head(), b""
        if self._pending_head is None:
            self._begin_cycle()

    def _fast_path_head(self) -> Head | None:
        """The parsed head if the request may take the fast path; None otherwise."""
        parser, fast_path = self.parser, self._others.fast_path
        if fast_path is None or not self._fast_path_on or not self._is_free():
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
        handle = fast_path.find(self.url, self.headers)
        keep_alive = parser.get_http_version() != "1.0" and parser.should_keep_alive()
        return None if handle is None else Head(handle, self.url, self.headers, int(size), keep_alive)

    def _is_free(self) -> bool:
        """Whether no earlier request is being answered, and the client accepts data."""
        return (self.cycle is None or self.cycle.response_complete) and not self.flow.write_paused

    def _handle_known(self, data: bytes) -> bool:
        """Handle a complete request with a cached head on the fast path. Returns whether it did."""
        size = data.find(b"\r\n\r\n") + 4
        head = self._others.heads.get(data[:size])
        if head is None or len(data) != size + head.size or not self._is_free() or self.transport.is_closing():
            return False
        self.idle, self._deadline = False, None
        return self._handle(head, data[size:])

    def _handle(self, head: Head, body: bytes) -> bool:
        """Handle a request with its body on the fast path. Returns False if the normal route should handle it."""
        before, reply = self.cycle, Reply(self, head, body)
        self.cycle = reply  # type: ignore[assignment]
        taken = head.handle(reply, body)
        if not taken:
            self.cycle = before
        return taken

    def is_latest(self, reply: Reply) -> bool:
        """Return whether no request came after the one of this reply."""
        return self.cycle is reply and not self._reading  # type: ignore[comparison-overlap]

    def fall_back(self, request: bytes) -> None:
        """Let the application handle a request from the fast path."""
        self._fast_path_on = False
        self.parser.feed_data(request)
        self._fast_path_on = True

    def _is_greeted(self, data: bytes) -> bool:
        """Open a link if the data is the greeting of a worker, or imitates one. Returns whether it did."""
        if self.cycle is not None or not data.startswith(GREETING) or self._others.fast_path is None:
            return False
        self._link = self._others.fast_path.link(self.transport)
        if self._link is None:
            return False
        self._go_on_with_link(data[len(GREETING) :])
        return True

    def _go_on_with_link(self, data: bytes) -> None:
        """Pass data on to the link.

        Like any connection, a link is closed when it is idle for too long or when there are too many connections;
        what was not answered then is sent again over HTTP.
        """
        assert self._link is not None
        self._between = self.idle = True
        self.idle_since = time.monotonic()
        self._deadline = self.idle_since + self.timeout_keep_alive
        self._link.received(data)

    def shutdown(self) -> None:
        """The server stops: close once all requests are answered."""
        if self._link is None:
            super().shutdown()
        else:
            self._link.end()

    def _begin_cycle(self) -> None:
        """Let uvicorn handle the request whose head was parsed."""
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
        """A part of the body was parsed."""
        self._head = 0
        if self._pending_head is None:
            super().on_body(body)
        else:
            self._pending_body += body

    def on_message_complete(self) -> None:
        """The request is complete; no timeout applies while the server answers."""
        self._head, self._reading, self._deadline = 0, False, None
        head, body = self._pending_head, self._pending_body
        if head is not None:
            self._pending_head, self._pending_body = None, b""
            if self._handle(head, body):
                self._handled_head = head
                return
            self._begin_cycle()
            super().on_body(body)
        super().on_message_complete()
        self._become_idle()

    def write_answer(self, code: int, lines: bytes, content: bytes, keep_alive: bool) -> None:
        """Write a whole answer at once, if the connection is open."""
        if self.transport.is_closing():
            return
        usual = self._others.usual_lines(self.server_state.default_headers)
        last = b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
        size = b"content-length: %d\r\n" % len(content)
        self.transport.write(b"".join((STATUS_LINE[code], usual, lines, size, last, content)))
        if not keep_alive:
            self.transport.close()

    def on_response_complete(self) -> None:
        """The answer was sent.

        Unlike uvicorn's method, this starts no timer: `check_timeouts` closes what waits for too long.
        """
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())
        self._become_idle()

    def _become_idle(self) -> None:
        """Mark the connection as idle if it is between two requests."""
        if not self._reading and not self.pipeline and self.cycle.response_complete:
            self._between = self.idle = True
            self.idle_since = time.monotonic()
            self._deadline = self.idle_since + self.timeout_keep_alive

    def pause_writing(self) -> None:
        """The client does not accept data."""
        self._blocked_since = time.monotonic()
        if self._link is not None:
            self._link.pause()
        super().pause_writing()

    def resume_writing(self) -> None:
        """The client accepts data again."""
        self._blocked_since = None
        if self._link is not None:
            self._link.resume()
        super().resume_writing()

    def check_timeouts(self, now: float) -> None:
        """Close the connection if it has timed out."""
        if self.transport.is_closing():
            self.transport.abort()  # closing already, but the client does not accept the rest
        elif self._blocked_since is not None and now > self._blocked_since + self._limits.request_seconds:
            self.transport.abort()
        elif self._deadline is not None and now > self._deadline:
            if self._between:
                self.transport.close()
            else:
                self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    def end(self) -> None:
        """Close the connection, since there are too many."""
        self._others.unregister(self)
        self.transport.abort()

    def _abort_parsing(self, status: HTTPStatus) -> None:
        """Abort parsing from within a callback."""
        self._refusal = status
        raise ValueError(status.phrase)

    def _refuse(self, status: HTTPStatus) -> None:
        """Send an error, unless an answer has begun, and close."""
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
    """Send the whole answer to a request in one write. Returns False, with nothing sent, if that would block.

    `lines`: its own headers, without content-length. With ASGI messages an answer takes two writes, and twice the
    time.
    """
    if cycle.flow.write_paused or cycle.disconnected or cycle.response_started:
        return False
    cycle.response_started = cycle.response_complete = True
    cycle.message_event.set()
    connection.write_answer(code, lines, content, cycle.keep_alive)
    cycle.on_response()
    return True


def _status_of(error: httptools.HttpParserError) -> HTTPStatus:
    """The status for a request that could not be parsed, or that made one of our callbacks fail."""
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
    """The unit for counting connections: an IPv4 address, or an IPv6 network of 64 bits, which one client may own."""
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
    """Make glibc's malloc return large freed buffers to the system.

    By default, after some were freed, it places such buffers among small ones, which leaves holes: 57 to 84 KiB were
    measured per connection where 28 are in use. mallopt(3): -3 is M_MMAP_THRESHOLD, -1 M_TRIM_THRESHOLD.
    """
    with contextlib.suppress(OSError, AttributeError):
        malloc = ctypes.CDLL(None)
        malloc.mallopt(-3, _LARGE_PART)
        malloc.mallopt(-1, 2 * _LARGE_PART)


def allow_files(limits: Limits) -> Limits:
    """Raise this process's limit of open files as needed, or else lower the limit of connections."""
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
