"""From a stream to a running service: each message takes effect once, or becomes a dead letter with a reason.

The service ensures this: it deduplicates answers by impression, and lists by id and offset, which it writes in the
same transaction as what is learnt. So acknowledging may happen later. If this process dies in between, the messages
are sent again, and the service recognizes them.
"""

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from ..client import Client
from ..core.refusals import Refused
from .stream import Message, Stream, read_place

BATCH = 500  # messages per read
_BYTES = 400_000  # of a request, approximately
_LARGEST = 256 << 10  # bytes of a message, as in the service
_WAIT = 0.5  # seconds to wait for new messages
_LOOK = 5.0  # seconds between measurements of the lag
_PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)  # seconds before rejected messages are sent again; the last value repeats
_OUT = (401, 403)  # the key is invalid: no message is to blame

log = logging.getLogger("steadyrank.streams")


class Metrics:
    """Metrics for monitoring: messages by outcome, and the lag."""

    def __init__(self, where: str | None) -> None:
        """`where`: HOST:PORT on which to serve them; None: nowhere."""
        from prometheus_client import CollectorRegistry, Gauge, start_http_server
        from prometheus_client import Counter as Total

        registry, outcomes = CollectorRegistry(), "steadyrank_stream_messages"
        self._messages = Total(outcomes, "Messages finished, by outcome", ["outcome"], registry=registry)
        self._lag = Gauge("steadyrank_stream_lag", "Messages not finished yet", ["partition"], registry=registry)
        self._shown: set[str] = set()  # partitions
        if where is not None:
            host, port = read_place(where)
            start_http_server(port, host, registry)

    def count(self, outcome: str) -> None:
        """Count a finished message."""
        self._messages.labels(outcome).inc()

    def show_lag(self, lag: Mapping[str, int]) -> None:
        """Set the lag; partitions of other readers are removed."""
        for gone in self._shown - lag.keys():
            self._lag.remove(gone)
        self._shown = set(lag)
        for partition, count in lag.items():
            self._lag.labels(partition).set(count)


class _Row(NamedTuple):
    message: Message
    content: dict[str, Any]
    size: int


class Ingest:
    """Takes messages until `stop` says so. `board`: of messages that name none; `outcomes`: of rows of UBI."""

    def __init__(
        self,
        stream: Stream,
        client: Client,
        metrics: Metrics,
        board: str | None = None,
        batch: int = BATCH,
        stop: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], Any] = time.sleep,
        outcomes: str | None = None,
    ) -> None:
        self._stream, self._client, self._metrics = stream, client, metrics
        self._board, self._worth = board, outcomes
        self._batch, self._stop, self._sleep = batch, stop, sleep
        self.counts: Counter[str] = Counter()
        self._looked = -_LOOK  # when the lag was told

    def run(self, once: bool = False) -> None:
        """Process messages until stopped; with `once`, until none is left."""
        while not self._stop():
            self._look()
            messages = self._stream.read(self._batch, _WAIT)
            if messages:
                if self._take(messages):
                    self._stream.finish(messages)
            elif once and (lag := self._stream.lag()) and not sum(lag.values()):
                self._metrics.show_lag(lag)
                return

    def _look(self) -> None:
        """Update the lag, if it is time."""
        if time.monotonic() > self._looked + _LOOK:
            self._metrics.show_lag(self._stream.lag())
            self._looked = time.monotonic()

    def _take(self, messages: Sequence[Message]) -> bool:
        """Send messages to the service until all are processed.

        Returns False if this process is to stop before that.
        """
        rows = [row for message in messages if (row := self._read(message)) is not None]
        tries = 0
        while rows:
            before = len(rows)
            rows = [row for part in _parts(rows) for row in self._send(part)]
            tries = 0 if len(rows) < before else tries
            if rows:
                if self._stop():
                    return False
                self._look()
                self._sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
                tries += 1
        return True

    def _read(self, message: Message) -> _Row | None:
        """Decode a message; puts it into the dead letters if it is no object."""
        if message.body is None:
            log.warning("%s was deleted from the stream before it could be read", message.id)
            self._count("deleted")
            return None
        try:
            if len(message.body) > _LARGEST:
                raise ValueError(f"a message has {len(message.body)} bytes, at most {_LARGEST} are read")
            content = json.loads(message.body, parse_constant=_no_number)
            if not isinstance(content, dict):
                raise ValueError(f"a message is an object, not {message.body[:80]!r}")
        except (ValueError, RecursionError) as error:
            self._bury(message, 422, f"not a valid message: {error}")
            return None
        return _Row(message, _complete(content, message), len(message.body))

    def _send(self, rows: Sequence[_Row]) -> list[_Row]:
        """Send messages in one request; those that have to be sent again."""
        try:
            places = [(row.message.stream, row.message.offset) for row in rows]
            outcomes = self._client.ingest([row.content for row in rows], places, self._board, self._worth)
        except ConnectionError as error:
            log.warning("messages wait: %s", error)
            return list(rows)
        except Refused as refusal:
            if refusal.code in _OUT:
                raise ValueError(f"the service refuses this key: {refusal}") from refusal
            if refusal.code >= 500 or refusal.code in (408, 429):
                log.warning("messages wait: %d, %s", refusal.code, refusal)
                return list(rows)
            if len(rows) > 1:  # one of them may be to blame, so send them one by one
                return [again for row in rows for again in self._send([row])]
            outcomes = [{"code": refusal.code, "message": str(refusal)}]
        waiting = []
        for row, outcome in zip(rows, outcomes, strict=True):
            if outcome["code"] == 200:
                self._count(outcome["outcome"])
            elif outcome.get("again"):
                waiting.append(row)
            else:
                self._bury(row.message, outcome["code"], outcome.get("message", ""))
        return waiting

    def _bury(self, message: Message, code: int, why: str) -> None:
        self._stream.bury(message, code, why)
        self._count("dead")

    def _count(self, outcome: str) -> None:
        self.counts[outcome] += 1
        self._metrics.count(outcome)


def _complete(content: dict[str, Any], message: Message) -> dict[str, Any]:
    """Give a list without an id the message's position as its id, so that it is the same whenever it is sent."""
    listed = "items" in content and "impression" not in content
    return {"id": message.id, **content} if listed else content


def _parts(rows: Sequence[_Row]) -> Iterator[list[_Row]]:
    """Split messages into requests, in order."""
    part: list[_Row] = []
    size = 0
    for row in rows:
        if part and size + row.size > _BYTES:
            yield part
            part, size = [], 0
        part.append(row)
        size += row.size
    if part:
        yield part


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
