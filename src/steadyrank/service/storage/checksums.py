"""A checksum of each row of the log and of each snapshot: by it a row that is not as it was written is noticed.

It has no key: who can write to the store can compute it. It is there for bits that flip, disks that lie, and rows
that somebody edited by hand.
"""

import hashlib
import struct
from typing import Any

_EVENT_PREFIX = struct.Struct("<qqd")  # number, board, time
_SNAPSHOT_PREFIX = struct.Struct("<qqq")  # number of the event, board, bytes
_BEGINNING = 64  # bytes of a snapshot, which hold the digest of all others


def event_checksum(seq: int, board: int, at: float, body: bytes) -> int:
    """64 bits of an event, as a number that both databases can keep."""
    return _checksum(_EVENT_PREFIX.pack(seq, board, at) + body)


def snapshot_checksum(board: int, seq: int, body: bytes) -> int:
    """64 bits of whose snapshot it is, as of which event, and of the digest that it begins with."""
    return _checksum(_SNAPSHOT_PREFIX.pack(seq, board, len(body)) + body[:_BEGINNING])


def checksum_holds(checksum: Any, seq: int, board: int, at: Any, body: Any) -> bool:
    """Whether an event is as it was written; a damaged row may hold anything."""
    if not isinstance(body, bytes) or not isinstance(at, float):
        return False
    return bool(checksum == event_checksum(seq, board, at, body))


def _checksum(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)
