"""Impression ids: signed, so that they need no look-up and cannot be made up."""

import base64
import binascii
import hmac
import struct
from typing import NamedTuple

from ..refusals import Refused

_HEAD = struct.Struct("<BQQQIdQHB")
_NOTE = struct.Struct("<Hd")
_SEAL = 16  # bytes of HMAC-SHA256: 128 bits
_VERSION = 1


class Ticket(NamedTuple):
    """What an impression id says: everything that an answer needs."""

    key: int  # of the impression: 64 random bits, not 0
    round: int
    base: int  # the latest impression that the worker knew of
    generation: int  # of the learner that wrote the note
    expires: float  # seconds since 1970
    client: int  # 64 bits of a keyed hash, 0 without a client
    ranking: list[int]  # slots of items
    note: list[tuple[int, float]]


class Signer:
    """HMAC-SHA256 with a key of its own for each purpose, prepared once.

    `hmac.digest` lets other threads run for every call, and would wait for the one that writes the log.
    """

    def __init__(self, secret: bytes, purpose: str) -> None:
        key = hmac.digest(secret, purpose.encode(), "sha256")
        self._prepared = hmac.new(key, digestmod="sha256")

    def sign(self, content: bytes) -> bytes:
        """The signature of some content, 32 bytes."""
        signature = self._prepared.copy()
        signature.update(content)
        return signature.digest()


def seal(ticket: Ticket, signer: Signer) -> str:
    """The ticket as text for a URL, signed."""
    *head, ranking, note = ticket
    body = _HEAD.pack(_VERSION, *head, len(ranking), len(note))
    body += struct.pack(f"<{len(ranking)}I", *ranking)
    for place, value in note:
        body += _NOTE.pack(place, value)
    return base64.urlsafe_b64encode(body + signer.sign(body)[:_SEAL]).rstrip(b"=").decode()


def open_sealed(text: str, signer: Signer) -> Ticket:
    """The ticket in a text that was sealed by this signer; anything else is refused."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise Refused(403, "the impression id is not one of this board") from None
    body, mark = raw[:-_SEAL], raw[-_SEAL:]
    if len(raw) <= _SEAL or not hmac.compare_digest(signer.sign(body)[:_SEAL], mark):
        raise Refused(403, "the impression id is not one of this board")
    version, key_, round_, base, generation, expires, client, size, notes = _HEAD.unpack_from(body)
    if version != _VERSION:
        raise Refused(410, f"the impression id has format {version}, this server knows {_VERSION}")
    ranking = list(struct.unpack_from(f"<{size}I", body, _HEAD.size))
    start = _HEAD.size + 4 * size
    note = [_NOTE.unpack_from(body, start + i * _NOTE.size) for i in range(notes)]
    return Ticket(key_, round_, base, generation, expires, client, ranking, note)
