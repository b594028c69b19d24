"""Timeouts, retries, circuit breaker, and queue of answers, for a server that is slow or unavailable."""

import logging
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..core.refusals import Refused
from .wire import Address, Request, ResponseReader, StaleConnection

log = logging.getLogger("steadyrank.client")

_LONGEST_PAUSE = 2.0  # seconds between tries
_AT_ONCE = 500  # queued answers per request
MOST_BOARDS = 10_000  # for which a client remembers something
_PLACE = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}")


@dataclass(frozen=True)
class Send:
    """A step for the transport: send this request, and return the response."""

    request: Request
    timeout: float  # seconds
    whole: bool  # whether the timeout is for the whole exchange, or for each wait


@dataclass(frozen=True)
class Pause:
    """A step for the transport: wait."""

    seconds: float


T = TypeVar("T")
Steps = Generator[Send | Pause, ResponseReader, T]


@dataclass(frozen=True)
class Patience:
    """Timeout and number of tries of a request."""

    timeout: float
    tries: int
    whole: bool

    def __post_init__(self) -> None:
        if not self.timeout > 0:
            raise ValueError(f"timeout must be above 0 seconds, not {self.timeout!r}")
        if self.tries < 1:
            raise ValueError(f"tries must be at least 1, not {self.tries!r}")


def ask(request: Request, patience: Patience, server: str) -> Steps[dict[str, Any]]:
    """Send a request with retries. Raises Refused with the server's code, or ConnectionError after the last try."""
    attempt = 0
    while True:
        attempt += 1
        try:
            response = yield Send(request, patience.timeout, patience.whole)
        except StaleConnection:
            attempt -= 1  # idle connections get closed at some point: not a failure, so retry at once
            continue
        except OSError as error:
            if attempt == patience.tries:
                raise ConnectionError(f"no answer from {server}: {error or type(error).__name__}") from error
            yield Pause(min(0.1 * 2**attempt, _LONGEST_PAUSE))
            continue
        if response.status == 503 and attempt < patience.tries:
            yield Pause(response.retry_after())
        elif response.status != 200:
            raise Refused(response.status, str(response.content().get("message", "")))
        else:
            return response.content()


class Breaker:
    """A circuit breaker: opens after several failures in a row, then permits one trial request per `seconds`."""

    def __init__(self, failures: int, seconds: float, clock: Callable[[], float]) -> None:
        if failures < 1:
            raise ValueError(f"breaker_failures must be at least 1, not {failures!r}")
        if not seconds > 0:
            raise ValueError(f"breaker_seconds must be above 0, not {seconds!r}")
        self._most, self._seconds, self._clock = failures, seconds, clock
        self._failures, self._until, self._lock = 0, 0.0, threading.Lock()

    def permits(self) -> bool:
        """Return whether a request may be sent; while open, lets one through per period."""
        with self._lock:
            if self._failures < self._most:
                return True
            now = self._clock()
            if now < self._until:
                return False
            self._until = now + self._seconds
            return True

    def note(self, worked: bool) -> None:
        """Record the result of a request."""
        with self._lock:
            self._failures = 0 if worked else self._failures + 1
            if not worked:
                self._until = self._clock() + self._seconds
            opened = self._failures == self._most
        if opened:
            log.warning("%d lists in a row failed: the server is asked once in %g s", self._most, self._seconds)


class Owners:
    """Where to send requests: to the configured server, or directly to the worker that owns the board.

    `straight`: whether requests, with the key, may go to addresses that the server names.
    """

    def __init__(self, server: Address, key: str | None, straight: bool) -> None:
        if straight and server.secure:
            raise ValueError("straight goes to workers over http: it cannot be used with an https address")
        self._server, self._key, self._straight = server, key, straight
        self._places: dict[str, Address] = {}  # by board

    def address(self, request: Request) -> Address:
        """The address for a request."""
        return self._places.get(request.board, self._server)

    def learn(self, request: Request, asked: Address, response: ResponseReader) -> None:
        """Learn the owner from an answer that was forwarded."""
        place = response.headers.get("steadyrank-owner", "")
        if not self._straight or not request.board:
            return
        if _PLACE.fullmatch(place):
            if len(self._places) >= MOST_BOARDS:
                self._places.clear()
            self._places[request.board] = Address(f"http://{place}", self._key)
        elif response.status == 503:
            self.forget(asked)

    def forget(self, asked: Address) -> bool:
        """Forget an address that did not answer. Returns whether to ask the configured server instead."""
        self._places = {board: place for board, place in self._places.items() if place.name != asked.name}
        return asked is not self._server


class AnswerQueue:
    """Answers to be sent in the background; beyond `most`, the oldest are dropped."""

    def __init__(self, most: int) -> None:
        if most < 0:
            raise ValueError(f"queue must be a number of answers, 0 for none, not {most!r}")
        self.most, self._rows, self._sending = most, deque[dict[str, Any]](), False
        self._changed, self._process = threading.Condition(), os.getpid()
        self.lost = 0

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: dict[str, Any]) -> bool:
        """Queue an answer. Returns whether the caller must start sending."""
        with self._changed:
            if self._process != os.getpid():  # after a fork, the parent sends what was queued
                self._process, self._sending = os.getpid(), False
                self._rows.clear()
            if len(self._rows) == self.most:
                self._rows.popleft()
                self._lose(1, f"more than {self.most} wait")
            self._rows.append(row)
            begin, self._sending = not self._sending, True
            return begin

    def next_batch(self, most: int) -> list[dict[str, Any]]:
        """The next answers to send, at most `most`; empty: all are sent, and sending has ended."""
        with self._changed:
            rows = [self._rows[k] for k in range(min(most, len(self._rows)))]
            self._sending = bool(rows)
            self._changed.notify_all()
            return rows

    def settle(self, rows: Sequence[dict[str, Any]], results: Sequence[Mapping[str, Any]]) -> bool:
        """Remove answers that were delivered or refused for good. Returns whether any must be sent again."""
        again = {id(row) for row, result in zip(rows, results, strict=True) if _try_again(result["code"])}
        sent = {id(row) for row in rows} - again
        refused = [result for result in results if result["code"] != 200 and not _try_again(result["code"])]
        with self._changed:
            self._rows = deque(row for row in self._rows if id(row) not in sent)
            self._changed.notify_all()
        if refused:
            self._lose(len(refused), f"refused with {refused[0]['code']}: {refused[0].get('message', '')}")
        return bool(again)

    def wait(self, seconds: float) -> bool:
        """Wait until the queue is empty. Returns whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._rows and not self._sending, seconds)

    def _lose(self, count: int, why: str) -> None:
        self.lost += count
        log.warning("%d answers to lists were not delivered: %s", count, why)


def deliver(queue: AnswerQueue, patience: Patience, server: str) -> Steps[None]:
    """Send queued answers until there are none. The server deduplicates them."""
    pause, at_once = 0.1, _AT_ONCE
    while rows := queue.next_batch(at_once):
        results: Any = None
        try:
            content = yield from ask(Request("POST", "/v1/feedback", {"feedback": rows}), patience, server)
            results = content.get("feedback")
        except ConnectionError as error:
            log.info("answers wait: %s", error)
        except Refused as refusal:
            if len(rows) > 1 and not _try_again(refusal.code):
                at_once = 1  # one of them may be malformed, so send them one by one
                continue
            results = [{"code": refusal.code, "message": str(refusal)}] * len(rows)
        if not isinstance(results, list) or len(results) != len(rows):  # such as a proxy's error page
            results = [{"code": 503}] * len(rows)
        if queue.settle(rows, results):
            yield Pause(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        else:
            pause, at_once = 0.1, min(2 * at_once, _AT_ONCE)


def _try_again(code: int) -> bool:
    return code >= 500 or code in (408, 429)
