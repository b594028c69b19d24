"""Streams of Redis 6.2 or newer, read by a consumer group, which tracks unacknowledged entries."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import redis

from .stream import DEAD, Address, Message

FIELD = "data"  # the field of an entry that holds the message
_GONE = 60.0  # seconds after which unacknowledged entries of another reader are claimed
_LOOK = 5.0  # seconds between attempts to claim entries
_BITS = 21  # of an offset, for the entries of one millisecond
_BUSY = "BUSYGROUP"  # the group exists already


class RedisStream:
    """A stream read by a group; `reader`: the name under which unacknowledged entries are found after a restart.

    `source`: the stream's name in what is sent to the service.
    """

    def __init__(self, address: Address, group: str, reader: str, source: str) -> None:
        self._db, self._name, self._group, self._reader = connected(address), address.name, group, reader
        self._source = source
        self._dead = address.name + DEAD
        self._own: str | None = "0"  # last entry reread of those left by an earlier process of this name; None: done
        self._looked, self._from = 0.0, "0-0"
        with _failures():
            try:
                self._db.xgroup_create(self._name, group, "0", mkstream=True)
            except redis.ResponseError as error:
                if not str(error).startswith(_BUSY):
                    raise

    def read(self, most: int, wait: float) -> list[Message]:
        """Read, in order of priority: own unacknowledged entries, those left by other readers, and new ones."""
        with _failures():
            if self._own is not None:
                entries = self._read(self._own, most)
                self._own = entries[-1][0] if entries else None
                if entries:
                    return self._messages(entries)
            if time.monotonic() > self._looked + _LOOK:
                claimed = self._db.xautoclaim(
                    self._name, self._group, self._reader, int(_GONE * 1000), self._from, count=most
                )
                self._from = _text(claimed[0])
                if self._from == "0-0":
                    self._looked = time.monotonic()
                if claimed[1]:
                    return self._messages(claimed[1])
            return self._messages(self._read(">", most, max(int(wait * 1000), 1)))

    def _read(self, after: str, most: int, wait: int | None = None) -> list[Any]:
        answer: Any = self._db.xreadgroup(self._group, self._reader, {self._name: after}, count=most, block=wait)
        return [(_text(entry), fields) for _, entries in answer or () for entry, fields in entries]

    def _messages(self, entries: Sequence[Any]) -> list[Message]:
        return [self._message(_text(entry), fields) for entry, fields in entries]

    def _message(self, entry: str, fields: Mapping[bytes, bytes] | None) -> Message:
        milliseconds, number = map(int, entry.split("-"))
        body = None if not fields else fields.get(FIELD.encode(), b"")
        return Message(self._source, milliseconds << _BITS | number, f"{self._source}/{entry}", body, entry)

    def bury(self, message: Message, code: int, why: str) -> None:
        """Add it to the dead-letter stream."""
        entry: dict[Any, Any] = {FIELD: message.body or b"", "code": code, "reason": why, "source": message.id}
        with _failures():
            self._db.xadd(self._dead, entry)

    def finish(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages."""
        with _failures():
            self._db.xack(self._name, self._group, *(message.origin for message in messages))

    def lag(self) -> dict[str, int]:
        """The number of entries neither delivered to the group nor acknowledged."""
        with _failures():
            groups: Any = self._db.xinfo_groups(self._name)
            mine = next(group for group in groups if _text(group["name"]) == self._group)
            unread = mine.get("lag")  # missing before Redis 7, and unknown after entries were deleted
            return {"0": int(mine["pending"]) + (self._unread(mine) if unread is None else int(unread))}

    def _unread(self, group: Mapping[str, Any]) -> int:
        """Count the entries after the last delivered one, since nothing reports their number."""
        after, count = f"({_text(group['last-delivered-id'])}", 0
        while rows := self._entries(after):
            count, after = count + len(rows), f"({_text(rows[-1][0])}"
        return count

    def _entries(self, after: str) -> list[Any]:
        return list(self._db.xrange(self._name, min=after, count=10_000) or ())

    def close(self) -> None:
        """Close the connection; unacknowledged entries stay with this reader."""
        self._db.close()


class RedisSink:
    """A stream to append to."""

    def __init__(self, address: Address) -> None:
        self._db, self._name = connected(address), address.name

    def put(self, key: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Append a message."""
        with _failures():
            entry: dict[Any, Any] = {FIELD: body, "key": key, **headers}
            self._db.xadd(self._name, entry)

    def close(self) -> None:
        """Close the connection."""
        self._db.close()


def connected(address: Address) -> "redis.Redis":
    """Make a connection, which is opened by the first command."""
    url = f"{address.scheme}://{address.servers}"
    return redis.Redis.from_url(url, socket_timeout=30.0, health_check_interval=15, protocol=2)


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    """Convert errors of the server."""
    try:
        yield
    except redis.RedisError as error:
        raise ConnectionError(f"the Redis stream: {error}") from error


def _text(given: bytes | str) -> str:
    return given.decode() if isinstance(given, bytes) else given
