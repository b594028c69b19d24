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
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from .limits import Limits

log = logging.getLogger("steadyrank.service")
ANSWER = "steadyrank.answer"  # an extension of ASGI: `send_whole` of a request
_SLICE = 8_192  # bytes parsed at a time: more of a head than is allowed is never held
_HEADERS = 100  # of a request: each costs some 150 bytes beside its own
_PIPELINED = 1  # requests that wait for an answer before them on a connection
_LARGE_PART = 65_536  # bytes
_SPARE_FILES = 128  # for the store, for bodies on the disk, and for what else is open


class Connections:
    """All connections of a server: of those that wait for their clients, the oldest make room for a new one."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.all: set[Connection] = set()
        self._by_address: dict[str, set[Connection]] = {}

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


class Connection(HttpToolsProtocol):
    """uvicorn's protocol within limits."""

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
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse a part at a time, as long as it is within the limits."""
        if self._between and not self._reading:
            self._between = False
            self._reading = True
            self._deadline = time.monotonic() + self._limits.request_seconds
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
            except httptools.HttpParserError:
                self._refuse(self._refusal or HTTPStatus.BAD_REQUEST)
                return
            if self._head > self._limits.head_bytes:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_message_begin(self) -> None:
        """A request begins, maybe in the middle of what was received."""
        super().on_message_begin()
        self._named = 0
        if not self._reading:
            self._reading = True
            self._deadline = time.monotonic() + self._limits.request_seconds

    def on_url(self, url: bytes) -> None:
        """A part of the address."""
        if len(self.url) + len(url) > self._limits.url_bytes:
            self._stop(HTTPStatus.REQUEST_URI_TOO_LONG)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self._named += len(name) + len(value)
        if len(self.headers) >= _HEADERS or self._named > self._limits.head_bytes:
            self._stop(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The body begins, if there is one."""
        self._head = 0
        if len(self.pipeline) >= _PIPELINED:
            self._stop(HTTPStatus.TOO_MANY_REQUESTS)
        self.waits = False
        super().on_headers_complete()
        if self.scope["method"] == "POST":
            at_once: Any = functools.partial(send_whole, self.cycle)
            self.scope["extensions"] = {ANSWER: at_once}

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._head = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is there: from here on it is the server that takes its time."""
        self._head, self._reading, self._deadline = 0, False, None
        super().on_message_complete()
        self._rest()

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
        super().pause_writing()

    def resume_writing(self) -> None:
        """The client goes on."""
        self._stuck = None
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


def send_whole(cycle: RequestResponseCycle, code: int, headers: bytes, content: bytes) -> bool:
    """Send the whole answer to a request in one write; False if that has to wait, and nothing was sent.

    `headers`: lines of their own, without the length of the content. By ASGI's messages an answer takes two writes,
    and twice the time.
    """
    if cycle.flow.write_paused or cycle.disconnected or cycle.response_started:
        return False
    usual = b"".join([b"%b: %b\r\n" % header for header in cycle.default_headers])
    last = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
    size = b"content-length: %d\r\n" % len(content)
    cycle.transport.write(b"".join((STATUS_LINE[code], usual, headers, size, last, content)))
    cycle.response_started = cycle.response_complete = True
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


_MESSAGES = {
    HTTPStatus.BAD_REQUEST: "this is no HTTP request",
    HTTPStatus.REQUEST_TIMEOUT: "the request took too long to arrive",
    HTTPStatus.REQUEST_URI_TOO_LONG: "the address of the request is too long",
    HTTPStatus.TOO_MANY_REQUESTS: "too many requests were sent ahead on one connection",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "the headers of the request are too many or too long",
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
