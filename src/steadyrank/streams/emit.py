"""From a running service to a stream: changed lists, and alerts from the service's webhook.

Messages have the form of alerts, with an id for deduplication. After a start the list of each board is sent once,
even if unchanged.
"""

import datetime
import hmac
import http.server
import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from ..client import Client
from ..core.refusals import Refused
from .stream import Sink

EVERY = 5.0  # seconds between checks
_ENOUGH, _MORE = 1.25, 10.0  # lifetimes, plus seconds, after which a list shown has certainly expired
_LARGEST = 1 << 20  # bytes of an alert
_AGE = 300.0  # seconds for which a signature is valid, to prevent replays
_TIMEOUT = 10.0  # seconds for a request to arrive

log = logging.getLogger("steadyrank.streams")


class ListWatcher:
    """Sends the list of a board whenever it changes. `only`: these boards; empty: all."""

    def __init__(
        self,
        client: Client,
        sink: Sink,
        only: frozenset[str] = frozenset(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._sink, self._only, self._clock = client, sink, only, clock
        self._seen: dict[str, dict[str, Any]] = {}  # boards as of the last check
        self._changed: dict[str, float] = {}  # when their counts last changed
        self._lists: dict[str, list[str]] = {}

    def run(self, stop: Callable[[], bool], every: float = EVERY, sleep: Callable[[float], Any] = time.sleep) -> None:
        """Check regularly until stopped; while the service is unavailable, nothing is sent."""
        while not stop():
            try:
                self.look()
            except ConnectionError as error:
                log.warning("no lists: %s", error)
            except Refused as refusal:
                if refusal.code < 500:
                    raise ValueError(f"the service does not show its boards with this key: {refusal}") from refusal
                log.warning("no lists: %d, %s", refusal.code, refusal)
            end = time.monotonic() + every
            while not stop() and time.monotonic() < end:
                sleep(min(every, 0.2))

    def look(self) -> int:
        """Send the lists that changed since the last check. Returns how many.

        A board is checked until everything that happened on it is learnt from, and then left alone, so that it can be
        evicted.
        """
        now = self._clock()
        boards = {board["board"]: board for board in self._client.boards()}
        wanted = [name for name in boards if not self._only or name in self._only]
        count = 0
        for name in wanted:
            if boards[name] != self._seen.get(name):
                self._changed[name] = now
            elif now > self._changed[name] + _ENOUGH * boards[name]["lifetime"] + _MORE:
                continue
            try:
                watched = self._client.watch(name)
            except Refused as refusal:
                if refusal.code in (404, 503):  # deleted meanwhile, or parked: go on with the others
                    continue
                raise
            items = [row["item"] for row in watched["list"]]
            if items != self._lists.get(name):
                self._put(name, items, watched["event"])
                count += 1
            self._seen[name], self._lists[name] = boards[name], items
        for gone in self._seen.keys() - boards.keys():
            del self._seen[gone], self._lists[gone], self._changed[gone]
        return count

    def _put(self, board: str, items: list[str], event: int) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        data = {"board": board, "state": "news", "items": items, "event": event}
        body = {"type": "list", "timestamp": now, "text": f"Board {board}: its list has changed.", "data": data}
        self._sink.put(board, json.dumps(body).encode(), {"id": f"{board}/{event}"})


class AlertReceiver:
    """The receiver of the service's webhook: verifies alerts, and acknowledges each once it is in the stream.

    `sign(id, timestamp, body)`: computes the signature of an alert.
    """

    def __init__(self, host: str, port: int, sink: Sink, sign: Callable[[str, int, bytes], str]) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = _TIMEOUT

            def do_POST(self) -> None:
                """Receive an alert."""
                code = 400
                size = self.headers.get("content-length", "")
                if size.isdigit() and int(size) <= _LARGEST:
                    code = _receive(dict(self.headers.items()), self.rfile.read(int(size)), sign, sink)
                self.send_response(code)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Do not log requests."""

        self._server = http.server.ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="alerts", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _receive(headers: dict[str, str], body: bytes, sign: Callable[[str, int, bytes], str], sink: Sink) -> int:
    """Process an alert; returns the status: 204 once it is in the stream."""
    given = {name.lower(): value for name, value in headers.items()}
    id_, stamp = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    if not (stamp.isascii() and stamp.isdigit() and abs(time.time() - int(stamp)) <= _AGE):
        return 401
    if not hmac.compare_digest(sign(id_, int(stamp), body).encode(), given.get("webhook-signature", "").encode()):
        return 401
    try:
        board = json.loads(body)["data"]["board"] or ""
        sink.put(board, body, {"id": id_})
    except (ValueError, KeyError, TypeError) as error:
        log.warning("an alert cannot be read: %s", error)
        return 422
    except ConnectionError as error:  # the service will send it again
        log.warning("an alert waits: %s", error)
        return 503
    return 204
