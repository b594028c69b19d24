"""Alerts as signed HTTP requests, sent by a thread of their own until they are taken."""

import base64
import binascii
import collections
import datetime
import hashlib
import hmac
import http.client
import json
import logging
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

log = logging.getLogger("steadyrank.service")
PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)  # seconds between tries: half an hour
MOST_WAITING = 200  # alerts
_TIMEOUT = 10.0  # seconds that a receiver may take
_SHORTEST = 24  # bytes of a secret
_ENCODED = "whsec_"  # begins a secret that is written in base64


class Alert(NamedTuple):
    """One thing to tell. `state`: on or off of what lasts, news of what happens; `board`: None if it is of none."""

    id: str
    kind: str
    board: str | None
    state: str
    time: float
    text: str
    detail: Mapping[str, Any]

    def body(self) -> bytes:
        """As JSON."""
        when = datetime.datetime.fromtimestamp(self.time, datetime.UTC).isoformat(timespec="seconds")
        data = {"board": self.board, "state": self.state, **self.detail}
        return json.dumps({"type": self.kind, "timestamp": when, "text": self.text, "data": data}).encode()


def read_secret(text: str) -> bytes:
    """The bytes of a secret; refuses one that could be guessed."""
    text = text.strip()
    try:
        coded = text.removeprefix(_ENCODED)
        secret = text.encode() if coded == text else base64.b64decode(coded, validate=True)
    except binascii.Error as error:
        raise ValueError(f"a webhook secret that begins with {_ENCODED} goes on in base64: {error}") from None
    if len(secret) < _SHORTEST:
        raise ValueError(f"a webhook secret must have at least {_SHORTEST} bytes, not {len(secret)}")
    return secret


def check_url(url: str) -> str:
    """Refuse what cannot be asked for."""
    found = urllib.parse.urlsplit(url)
    if found.scheme not in ("http", "https") or not found.hostname:
        raise ValueError(f"a webhook is an http:// or https:// address, not {url!r:.80}")
    return url


def sign(secret: bytes, id_: str, timestamp: int, body: bytes) -> str:
    """The signature of a request, after the Standard Webhooks specification (version 1, HMAC with SHA-256)."""
    signed = f"{id_}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> None:
        """Go nowhere else: a redirect is a failure, and says so in the log."""
        return


class Webhook:
    """Sends alerts one after another; each is tried again after longer and longer pauses, and then given up.

    `put` never waits. What a receiver takes has the same id at each try. With more than `MOST_WAITING` alerts the
    oldest are given up.
    """

    def __init__(self, url: str, secret: bytes, pauses: Sequence[float] = PAUSES) -> None:
        self._url, self._secret, self._pauses = check_url(url), secret, pauses
        self._open = urllib.request.build_opener(_NoRedirect).open
        self._waiting: collections.deque[Alert] = collections.deque()
        self._changed = threading.Condition()
        self._ended = False
        self.sent = self.failed = self.lost = 0
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
        self._thread.start()

    def put(self, alert: Alert) -> None:
        """Send an alert soon."""
        with self._changed:
            if len(self._waiting) == MOST_WAITING:
                self._give_up(self._waiting.popleft(), "too many wait")
            self._waiting.append(alert)
            self._changed.notify()

    def close(self, seconds: float = 1.0) -> None:
        """End; what waits is tried for so long."""
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
            if self._waiting and self._waiting[0] is alert:  # it may have been given up meanwhile
                self._waiting.popleft()
                if why:
                    self._give_up(alert, why)

    def _pause(self, seconds: float, alert: Alert) -> bool:
        """Wait before the next try; whether there is to be none."""
        with self._changed:
            gone = lambda: self._ended or not self._waiting or self._waiting[0] is not alert  # noqa: E731
            return self._changed.wait_for(gone, seconds)

    def _try(self, alert: Alert) -> str:
        """Send it once; why it was not taken, if it was not."""
        body, now = alert.body(), int(time.time())
        headers = {
            "content-type": "application/json",
            "user-agent": "steadyrank",
            "webhook-id": alert.id,
            "webhook-timestamp": str(now),
            "webhook-signature": sign(self._secret, alert.id, now, body),
        }
        request = urllib.request.Request(self._url, body, headers, method="POST")
        try:
            with self._open(request, timeout=_TIMEOUT):
                return ""
        except urllib.error.HTTPError as error:
            error.close()
            return f"status {error.code}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            return f"{type(error).__name__}: {error}"

    def _give_up(self, alert: Alert, why: str) -> None:
        self.lost += 1
        log.error("alert given up", extra={"fields": {"kind": alert.kind, "text": alert.text, "why": why}})
