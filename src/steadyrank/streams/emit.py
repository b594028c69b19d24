"""From a running service to a stream: lists that changed, and alerts as the service's webhook tells them.

What is put has the shape of an alert, and an id: a reader that has seen it may drop it. After a start the list of
each board comes once, changed or not.
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

EVERY = 5.0  # seconds between two looks
_ENOUGH, _MORE = 1.25, 10.0  # lifetimes, and seconds, after which a list that was shown is over in any case
_LARGEST = 1 << 20  # bytes of an alert
_AGE = 300.0  # seconds that a signature is good for: who recorded an alert cannot send it much later
_TIMEOUT = 10.0  # seconds in which a request has to arrive

log = logging.getLogger("steadyrank.streams")


class ListWatcher:
    """Puts the list of a board where it is not what it was. `only`: these boards; none: all of them."""

    def __init__(
        self,
        client: Client,
        sink: Sink,
        only: frozenset[str] = frozenset(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._sink, self._only, self._clock = client, sink, only, clock
        self._seen: dict[str, dict[str, Any]] = {}  # boards as they were at the last look
        self._changed: dict[str, float] = {}  # when they were not as before
        self._lists: dict[str, list[str]] = {}

    def run(self, stop: Callable[[], bool], every: float = EVERY, sleep: Callable[[float], Any] = time.sleep) -> None:
        """Look again and again; while the service is away, nothing changes."""
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
        """Put what changed since the last look; how many lists.

        Boards are asked for until all that happened there is learnt from, and then left alone: they may sleep.
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
                if refusal.code in (404, 503):  # deleted meanwhile, or parked: the others go on
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
    """Where the service's webhook sends alerts: what is signed is put into the stream, and only then taken.

    `sign(id, timestamp, body)`: the signature of an alert, as the service makes it.
    """

    def __init__(self, host: str, port: int, sink: Sink, sign: Callable[[str, int, bytes], str]) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = _TIMEOUT

            def do_POST(self) -> None:
                """An alert."""
                code = 400
                size = self.headers.get("content-length", "")
                if size.isdigit() and int(size) <= _LARGEST:
                    code = _receive(dict(self.headers.items()), self.rfile.read(int(size)), sign, sink)
                self.send_response(code)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Requests are not told one by one."""

        self._server = http.server.ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="alerts", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Listen no longer."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _receive(headers: dict[str, str], body: bytes, sign: Callable[[str, int, bytes], str], sink: Sink) -> int:
    """The code that answers an alert: 204 once it is in the stream."""
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
    except ConnectionError as error:  # the service sends it again
        log.warning("an alert waits: %s", error)
        return 503
    return 204
