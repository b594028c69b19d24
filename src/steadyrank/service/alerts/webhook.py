"""Alerts as signed HTTP requests, sent by a background thread with retries."""

import base64
import binascii
import collections
import contextlib
import datetime
import hashlib
import hmac
import http.client
import json
import logging
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

log = logging.getLogger("steadyrank.service")
# seconds between attempts, half an hour in all
PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)
MOST_WAITING = 200  # alerts
TIMEOUT = 10.0  # seconds for a whole request, from name resolution to the end of the response headers
_SHORTEST = 24  # bytes of a secret
_ENCODED = "whsec_"  # prefix of a secret in base64


class Alert(NamedTuple):
    """An alert. `state`: on or off for a condition, news for an event; `board`: None if it concerns none."""

    id: str
    kind: str
    board: str | None
    state: str
    time: float
    text: str
    detail: Mapping[str, Any]

    def body(self) -> bytes:
        """Encode as JSON."""
        when = datetime.datetime.fromtimestamp(self.time, datetime.UTC).isoformat(timespec="seconds")
        data = {"board": self.board, "state": self.state, **self.detail}
        return json.dumps({"type": self.kind, "timestamp": when, "text": self.text, "data": data}).encode()


def read_secret(text: str) -> bytes:
    """Decode a secret. Raises ValueError if it is too short."""
    text = text.strip()
    try:
        coded = text.removeprefix(_ENCODED)
        secret = text.encode() if coded == text else base64.b64decode(coded, validate=True)
    except binascii.Error as error:
        raise ValueError(f"a webhook secret that begins with {_ENCODED} must continue in base64: {error}") from None
    if len(secret) < _SHORTEST:
        raise ValueError(f"a webhook secret must have at least {_SHORTEST} bytes, not {len(secret)}")
    return secret


def check_url(url: str) -> str:
    """Raise ValueError unless this is an HTTP URL."""
    address = urllib.parse.urlsplit(url)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ValueError(f"a webhook is an http:// or https:// address, not {url!r:.80}")
    return url


def sign(secret: bytes, id_: str, timestamp: int, body: bytes) -> str:
    """Sign a request as specified by Standard Webhooks (version 1, HMAC with SHA-256)."""
    signed = f"{id_}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> None:
        """Treat redirects as failures, which are logged."""
        return


class _Try:
    """One request in a thread of its own, aborted when its time is over.

    A socket timeout applies to each step only: a receiver that sends a byte now and then could hold a request for
    hours.
    """

    def __init__(self, request: urllib.request.Request) -> None:
        self._request = request
        self._lock = threading.Lock()
        self._over = False
        self._connection: socket.socket | None = None
        self._why = f"TimeoutError: it took more than {TIMEOUT:g} seconds"
        self._thread = threading.Thread(target=self._run, name="webhook request", daemon=True)

    def send(self) -> str:
        """Send the request, for at most `TIMEOUT` seconds. Returns the reason if it failed, else an empty string."""
        self._thread.start()
        self._thread.join(TIMEOUT)
        with self._lock:
            self._over = True
            if self._connection is not None:
                with contextlib.suppress(OSError):  # closed already
                    self._connection.shutdown(socket.SHUT_RDWR)
                self._connection.close()
            return self._why

    def connect(self, *where: Any) -> socket.socket:
        """Open a socket for `http.client`, keeping a duplicate to abort the request, whatever wraps the socket."""
        connection = socket.create_connection(*where)
        with self._lock:
            if self._over:
                connection.close()
                raise TimeoutError("its time is over")
            self._connection = connection.dup()
        return connection

    def connecting(self, kind: type[http.client.HTTPConnection]) -> Callable[..., http.client.HTTPConnection]:
        """A factory of connections of this kind that are opened by `connect`."""

        def connection(*args: Any, **options: Any) -> http.client.HTTPConnection:
            made = kind(*args, **options)
            made._create_connection = self.connect  # type: ignore[attr-defined]
            return made

        return connection

    def _run(self) -> None:
        opener = urllib.request.build_opener(_NoRedirect, _Handler(self))
        try:
            # `send` ends the request; this longer limit frees a thread stuck in connecting, which cannot be aborted
            with opener.open(self._request, timeout=2 * TIMEOUT):
                why = ""
        except urllib.error.HTTPError as error:
            error.close()
            why = f"status {error.code}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
        with self._lock:
            if not self._over:
                self._why = why


class _Handler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens connections, with or without TLS, through a `_Try`; otherwise like the standard handlers."""

    def __init__(self, one: _Try) -> None:
        super().__init__()
        self._one = one

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        """Open a connection without TLS."""
        return self.do_open(self._one.connecting(http.client.HTTPConnection), request)

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        """Open a connection with TLS."""
        return self.do_open(self._one.connecting(http.client.HTTPSConnection), request)


class Webhook:
    """Sends alerts one by one, each with retries after growing pauses, until it gives up.

    `put` never blocks. An alert has the same id at each attempt. When more than `MOST_WAITING` alerts are queued, the
    oldest are dropped.
    """

    def __init__(
        self,
        url: str,
        secret: bytes,
        pauses: Sequence[float] = PAUSES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._url, self._secret, self._pauses, self._clock = check_url(url), secret, pauses, clock
        self._waiting: collections.deque[Alert] = collections.deque()
        self._changed = threading.Condition()
        self._ended = False
        self.sent = self.failed = self.lost = 0
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
        self._thread.start()

    def put(self, alert: Alert) -> None:
        """Queue an alert."""
        with self._changed:
            if len(self._waiting) == MOST_WAITING:
                self._give_up(self._waiting.popleft(), "too many wait")
            self._waiting.append(alert)
            self._changed.notify()

    def close(self, seconds: float = 1.0) -> None:
        """Stop; queued alerts are tried for `seconds`."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join(seconds)
        with self._changed:
            while self._waiting:
                self._give_up(self._waiting.popleft(), "the server ends")

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended)
                if not self._waiting:
                    return
                alert = self._waiting[0]
            self._deliver(alert)

    def _deliver(self, alert: Alert) -> None:
        why = ""
        for pause in (*self._pauses, None):
            why = self._try(alert)
            if not why:
                self.sent += 1
                break
            self.failed += 1
            log.warning("alert not taken", extra={"fields": {"kind": alert.kind, "id": alert.id, "why": why}})
            if pause is None or self._pause(pause, alert):
                break
        with self._changed:
            if self._waiting and self._waiting[0] is alert:  # it may have been dropped meanwhile
                self._waiting.popleft()
                if why:
                    self._give_up(alert, why)

    def _pause(self, seconds: float, alert: Alert) -> bool:
        """Wait before the next attempt. Returns whether to give up instead."""
        with self._changed:
            gone = lambda: self._ended or not self._waiting or self._waiting[0] is not alert  # noqa: E731
            return self._changed.wait_for(gone, seconds)

    def _try(self, alert: Alert) -> str:
        """Send it once. Returns the reason if it failed, else an empty string."""
        body, now = alert.body(), int(self._clock())
        headers = {
            "content-type": "application/json",
            "user-agent": "steadyrank",
            "webhook-id": alert.id,
            "webhook-timestamp": str(now),
            "webhook-signature": sign(self._secret, alert.id, now, body),
        }
        return _Try(urllib.request.Request(self._url, body, headers, method="POST")).send()

    def _give_up(self, alert: Alert, why: str) -> None:
        self.lost += 1
        log.error("alert given up", extra={"fields": {"kind": alert.kind, "text": alert.text, "why": why}})
